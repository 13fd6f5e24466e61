//! Containers as reported by an engine, including those in states that only Podman has.
//!
//! Podman reports a container whose processes have ended as `stopped` until it has cleaned up after them, which takes
//! seconds on a busy machine. Docker has no such state, and `bollard` rejects an entire answer that contains it.

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum, ContainerSummary};
use bollard::query_parameters::ListContainersOptions;
use serde_json::Value;

/// Podman's state of a container that has ended and is not cleaned up yet.
const STOPPED: &str = "stopped";

/// Docker's state of a container that has ended.
const EXITED: &str = "exited";

/// Lists containers.
pub(super) async fn list_containers(
    docker: &Docker,
    options: ListContainersOptions,
) -> Result<Vec<ContainerSummary>, Error> {
    match docker.list_containers(Some(options)).await {
        Err(error) => match accept_states(&error).map(serde_json::from_value) {
            Some(Ok(containers)) => Ok(containers),
            _ => Err(error),
        },
        containers => containers,
    }
}

/// Returns the properties of a container.
pub(super) async fn inspect_container(
    docker: &Docker,
    id: &str,
) -> Result<ContainerInspectResponse, Error> {
    match docker.inspect_container(id, None).await {
        Err(error) => match accept_states(&error).map(serde_json::from_value) {
            Some(Ok(container)) => Ok(container),
            _ => Err(error),
        },
        container => container,
    }
}

/// Returns the rejected answer about one or several containers, with Podman's states converted to those of Docker.
/// States that neither has are left out.
fn accept_states(error: &Error) -> Option<Value> {
    let Error::JsonDataError { contents, .. } = error else {
        return None;
    };
    let mut answer: Value = serde_json::from_str(contents).ok()?;
    match &mut answer {
        Value::Array(containers) => {
            for container in containers {
                convert_state(container.get_mut("State"));
            }
        }
        container => convert_state(container.pointer_mut("/State/Status")),
    }
    Some(answer)
}

fn convert_state(state: Option<&mut Value>) {
    let Some(state) = state else {
        return;
    };
    let is_known = |state: &str| state.parse::<ContainerStateStatusEnum>().is_ok();
    match state.as_str() {
        Some(STOPPED) => *state = EXITED.into(),
        Some(other) if !is_known(other) => *state = Value::Null,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use bollard::API_DEFAULT_VERSION;
    use bollard::models::ContainerSummaryStateEnum;

    use super::super::engine::block_on_thread;
    use super::super::fake;
    use super::*;

    /// Connects to a fake engine with this list of containers, or these properties of each.
    fn connect(answer: &'static str) -> (tempfile::TempDir, Docker) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        fake::engine(&socket, move |_, _| Some(("200 OK", answer)));
        let docker = Docker::connect_with_unix(socket.to_str().unwrap(), 9, API_DEFAULT_VERSION);
        (folder, docker.unwrap())
    }

    #[test]
    fn list_accepts_states_of_podman() {
        let (_folder, docker) = connect(
            r#"[{"Id": "a", "State": "running"}, {"Id": "b", "State": "stopped", "Labels": {"x": "y"}}, {"Id": "c", "State": "unknown"}]"#,
        );
        let containers =
            block_on_thread(list_containers(&docker, ListContainersOptions::default()))
                .unwrap()
                .unwrap();
        let states: Vec<_> = containers.iter().map(|container| container.state).collect();
        assert_eq!(
            states,
            [
                Some(ContainerSummaryStateEnum::RUNNING),
                Some(ContainerSummaryStateEnum::EXITED),
                None
            ]
        );
        assert_eq!(containers[1].labels.as_ref().unwrap()["x"], "y");
    }

    #[test]
    fn properties_accept_states_of_podman() {
        let (_folder, docker) = connect(
            r#"{"Id": "a", "State": {"Status": "stopped", "Running": false, "OOMKilled": true, "ExitCode": 137}}"#,
        );
        let container = block_on_thread(inspect_container(&docker, "a")).unwrap();
        let state = container.unwrap().state.unwrap();
        assert_eq!(state.status, Some(ContainerStateStatusEnum::EXITED));
        assert_eq!((state.oom_killed, state.exit_code), (Some(true), Some(137)));
    }

    #[test]
    fn other_unexpected_answers_are_errors() {
        let (_folder, docker) = connect(r#"[{"Id": 1, "State": "stopped"}]"#);
        let options = ListContainersOptions::default();
        let containers = block_on_thread(list_containers(&docker, options)).unwrap();
        assert!(
            matches!(containers, Err(Error::JsonDataError { .. })),
            "{containers:?}"
        );
    }
}
