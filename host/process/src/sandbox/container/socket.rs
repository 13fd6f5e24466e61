//! Discovery of the socket of a container engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;

use super::engine::{ContainerEngine, FACTS_TIMEOUT, block_on_thread};

/// Time limit for an engine at a default socket to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Default sockets of the system's engines.
const SYSTEM_SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// Default sockets of the user's engines, relative to the session's runtime folder.
const SESSION_SOCKETS: [&str; 2] = ["docker.sock", "podman/podman.sock"];

/// Connects to the engine named in the settings or in `DOCKER_HOST`, or else to the first default socket that answers.
pub(super) fn find(named: Option<&str>) -> Result<ContainerEngine, String> {
    let host = std::env::var("DOCKER_HOST").ok();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let candidates = candidates(named, host.as_deref(), session.as_deref())?;
    let is_named = named.is_some() || host.is_some_and(|host| !host.is_empty());
    connect_first(
        &candidates,
        if is_named {
            FACTS_TIMEOUT
        } else {
            CONNECT_TIMEOUT
        },
    )
}

/// Returns the socket paths to try, in order. The engine must run on this machine, since folders of this machine are
/// mounted.
fn candidates(
    named: Option<&str>,
    host: Option<&str>,
    session: Option<&Path>,
) -> Result<Vec<PathBuf>, String> {
    if let Some(named) = named {
        let path = local_path(named).ok_or_else(|| {
            format!("`sandbox.socket` is `{named}`: expected an absolute path of a Unix socket")
        })?;
        return Ok(vec![path]);
    }
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        let path = local_path(host).ok_or_else(|| {
            format!(
                "DOCKER_HOST is `{host}`, but the engine must run on this machine to mount the workspace; set `sandbox.socket` to the path of a local socket"
            )
        })?;
        return Ok(vec![path]);
    }
    let [docker, podman] = SYSTEM_SOCKETS.map(PathBuf::from);
    let own = SESSION_SOCKETS
        .iter()
        .filter_map(|name| Some(session?.join(name)));
    Ok([docker].into_iter().chain(own).chain([podman]).collect())
}

fn local_path(name: &str) -> Option<PathBuf> {
    let path = Path::new(name.strip_prefix("unix://").unwrap_or(name));
    path.is_absolute().then(|| path.to_owned())
}

/// Connects to the first of these sockets whose engine answers. Tries all at once, so that a dead socket does not delay
/// the others.
fn connect_first(candidates: &[PathBuf], time_limit: Duration) -> Result<ContainerEngine, String> {
    let existing: Vec<_> = candidates.iter().filter(|path| path.exists()).collect();
    let attempts = existing
        .iter()
        .map(|path| ContainerEngine::connect(path, time_limit));
    let answers = block_on_thread(join_all(attempts)).map_err(|error| error.to_string())?;
    let mut faults = Vec::new();
    for (path, answer) in existing.iter().zip(answers) {
        match answer {
            Ok(engine) => return Ok(engine),
            Err(why) => faults.push(format!("`{}`: {why}", path.display())),
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("; "));
    }
    let tried: Vec<_> = candidates
        .iter()
        .map(|path| format!("`{}`", path.display()))
        .collect();
    Err(format!(
        "no Docker or Podman socket found; looked for {}",
        tried.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_setting_precedes_docker_host_and_defaults() {
        let session = Path::new("/run/user/7");
        let at = |named, host| candidates(named, host, Some(session));
        assert_eq!(
            at(Some("/x/s"), Some("unix:///y")).unwrap(),
            [Path::new("/x/s")]
        );
        assert_eq!(at(Some("unix:///x/s"), None).unwrap(), [Path::new("/x/s")]);
        assert_eq!(at(None, Some("unix:///y")).unwrap(), [Path::new("/y")]);
        assert_eq!(
            at(None, Some("")).unwrap(),
            [
                "/var/run/docker.sock",
                "/run/user/7/docker.sock",
                "/run/user/7/podman/podman.sock",
                "/run/podman/podman.sock"
            ]
            .map(PathBuf::from)
        );
        assert_eq!(candidates(None, None, None).unwrap().len(), 2);
    }

    #[test]
    fn socket_on_a_remote_host_is_rejected() {
        for host in ["tcp://10.0.0.1:2375", "ssh://me@there"] {
            let why = candidates(None, Some(host), None).unwrap_err();
            assert!(
                why.contains(host) && why.contains("sandbox.socket"),
                "{why}"
            );
            assert!(candidates(Some(host), None, None).is_err());
        }
        assert!(candidates(Some("relative.sock"), None, None).is_err());
    }

    #[test]
    fn socket_error_lists_the_paths_tried() {
        let why = connect_first(&["/nowhere/a".into(), "/nowhere/b".into()], CONNECT_TIMEOUT)
            .err()
            .unwrap();
        assert!(
            why.contains("/nowhere/a") && why.contains("/nowhere/b"),
            "{why}"
        );
    }

    #[test]
    fn socket_error_names_a_file_without_an_engine() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let why = connect_first(&[folder.path().join("file")], CONNECT_TIMEOUT)
            .err()
            .unwrap();
        assert!(why.contains("file"), "{why}");
    }

    #[test]
    fn sockets_without_answer_share_one_timeout() {
        let folder = tempfile::tempdir().unwrap();
        let candidates: Vec<_> = (0..4).map(|n| folder.path().join(n.to_string())).collect();
        let bound = candidates
            .iter()
            .map(std::os::unix::net::UnixListener::bind);
        let _listening: Vec<_> = bound.map(Result::unwrap).collect();
        let (start, time_limit) = (std::time::Instant::now(), Duration::from_secs(2));
        let why = connect_first(&candidates, time_limit).err().unwrap();
        assert_eq!(why.matches("it does not answer").count(), 4, "{why}");
        assert!(start.elapsed() < 3 * time_limit, "{:?}", start.elapsed());
    }
}
