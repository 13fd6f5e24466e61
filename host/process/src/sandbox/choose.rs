//! Choice of the sandbox, and of the limits, mounts and network for its commands, from the settings.

use std::path::Path;
use std::sync::Arc;

use mimir_core::config::{BindMount, SandboxMode, SandboxSettings};

use super::{
    CommandNetwork, CommandSpec, HostMount, NoSandbox, ResourceBound, ResourceBounds, Sandbox,
    SandboxError,
};

/// A sandbox, with the limits, mounts and network access of its commands.
pub struct ChosenSandbox {
    /// The sandbox that runs the commands.
    pub sandbox: Arc<dyn Sandbox>,
    /// Resource limits of each command.
    pub bounds: ResourceBounds,
    /// Folders that commands see in addition to the workspace.
    pub mounts: Vec<HostMount>,
    /// Network access of commands.
    pub network: CommandNetwork,
    /// True if the settings deny commands the network, also those that have network access of their own.
    pub denies_network: bool,
}

/// Paths that the sandbox creates for each command. Nothing can be mounted there.
const RESERVED_PATHS: [&str; 5] = ["/proc", "/sys", "/dev", "/etc/passwd", "/.void"];

/// Returns the configured sandbox. Fails if it is unavailable or cannot enforce all settings. `auto` tries the kernel's
/// sandbox, then a container, then the kernel's sandbox without namespaces, and never `none`.
pub fn choose_sandbox(settings: &SandboxSettings) -> Result<ChosenSandbox, SandboxError> {
    match settings.mode.unwrap_or_default() {
        SandboxMode::Auto => {
            let first = match choose_with(process(), settings, true) {
                Ok(chosen) if chosen.sandbox.is_last_resort() => {
                    return Ok(choose_with(container(settings), settings, true).unwrap_or(chosen));
                }
                Ok(chosen) => return Ok(chosen),
                Err(fault) => fault,
            };
            choose_with(container(settings), settings, true)
                .map_err(|second| SandboxError::Neither(Box::new(first), Box::new(second)))
        }
        SandboxMode::Process => choose_with(process(), settings, false),
        SandboxMode::Container => choose_with(container(settings), settings, true),
        SandboxMode::None => choose_with(Ok(Arc::new(NoSandbox::new())), settings, false),
    }
}

/// Lists the guarantees of each sandbox on this machine, or why it is unavailable, regardless of the configured mode.
pub fn survey_sandboxes(
    settings: &SandboxSettings,
) -> [(&'static str, Result<Vec<String>, SandboxError>); 3] {
    let bounds = bounds(settings);
    let guarantees =
        |sandbox: Result<Arc<dyn Sandbox>, SandboxError>| sandbox?.describe_guarantees(&bounds);
    [
        ("process", guarantees(process())),
        ("container", guarantees(container(settings))),
        ("none", NoSandbox::new().available()),
    ]
}

/// Combines a sandbox with the settings of its commands. `may_use_container` is true if the mode may select a
/// container, so that `image` and `socket` are allowed.
fn choose_with(
    sandbox: Result<Arc<dyn Sandbox>, SandboxError>,
    settings: &SandboxSettings,
    may_use_container: bool,
) -> Result<ChosenSandbox, SandboxError> {
    let sandbox = sandbox?;
    let name = sandbox.name();
    let unsupported = |what, why: &str| SandboxError::unsupported(name, what, why);
    if !may_use_container && (settings.image.is_some() || settings.socket.is_some()) {
        return Err(unsupported(
            "an image or a socket",
            "only the sandbox `container` supports these keys",
        ));
    }
    let network = match (sandbox.enforces_path_rules(), settings.network_access) {
        (false, Some(false)) => {
            return Err(unsupported(
                "blocking the network",
                "the mode `none` uses no sandbox, so it cannot block the network",
            ));
        }
        (false, _) => CommandNetwork::Host,
        (true, Some(true)) => CommandNetwork::Proxy,
        (true, _) => CommandNetwork::None,
    };
    let chosen = ChosenSandbox {
        bounds: bounds(settings),
        mounts: settings
            .bind_mounts
            .iter()
            .map(mount)
            .collect::<Result<_, _>>()?,
        network,
        denies_network: settings.network_access == Some(false),
        sandbox,
    };
    chosen.sandbox.available()?;
    let program = mimir_core::command::CommandProgram::Vector(Vec::new());
    chosen.sandbox.check_support(&CommandSpec {
        bounds: chosen.bounds,
        mounts: chosen.mounts.clone(),
        network: chosen.network,
        // The actual workspace is not known here; every sandbox accepts this one.
        ..CommandSpec::new(program, "/home/mimir/workspace")
    })?;
    Ok(chosen)
}

/// Returns the configured resource limits, with defaults for the others.
fn bounds(settings: &SandboxSettings) -> ResourceBounds {
    let defaults = ResourceBounds::default();
    let requested = |value: Option<u64>, default| value.map_or(default, ResourceBound::Requested);
    let megabytes = settings.max_memory_mb.map(|mb| mb.saturating_mul(1 << 20));
    ResourceBounds {
        memory: requested(megabytes, defaults.memory),
        processes: requested(settings.max_processes, defaults.processes),
        cpu: settings.max_cpu_percent,
        ..defaults
    }
}

#[cfg(unix)]
fn container(settings: &SandboxSettings) -> Result<Arc<dyn Sandbox>, SandboxError> {
    Ok(Arc::new(super::ContainerSandbox::new(settings)))
}

#[cfg(not(unix))]
fn container(_: &SandboxSettings) -> Result<Arc<dyn Sandbox>, SandboxError> {
    Err(SandboxError::Unavailable {
        sandbox: "container",
        why: "container engines need a Unix socket, which this platform does not have".to_owned(),
    })
}

#[cfg(target_os = "linux")]
fn process() -> Result<Arc<dyn Sandbox>, SandboxError> {
    Ok(Arc::new(super::ProcessSandbox::new()))
}

#[cfg(target_os = "macos")]
fn process() -> Result<Arc<dyn Sandbox>, SandboxError> {
    Ok(Arc::new(super::SeatbeltSandbox::new()))
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn process() -> Result<Arc<dyn Sandbox>, SandboxError> {
    Err(SandboxError::Unavailable {
        sandbox: "process",
        why: "it is only available on Linux and macOS".to_owned(),
    })
}

fn mount(bind_mount: &BindMount) -> Result<HostMount, SandboxError> {
    let at = Path::new(&bind_mount.at);
    let fault = |why: String| SandboxError::Mount {
        at: at.to_owned(),
        why,
    };
    if RESERVED_PATHS
        .iter()
        .any(|reserved| at.starts_with(reserved))
    {
        return Err(fault(
            "the sandbox creates this path itself; mount the folder at another path".to_owned(),
        ));
    }
    let from = Path::new(&bind_mount.from).canonicalize();
    Ok(HostMount {
        from: from.map_err(|error| fault(format!("`{}`: {error}", bind_mount.from)))?,
        at: at.components().collect(),
        writable: bind_mount.writable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn chosen(settings: Value) -> Result<ChosenSandbox, SandboxError> {
        choose_sandbox(&serde_json::from_value(settings).unwrap())
    }

    #[test]
    fn mode_none_is_used_only_if_configured() {
        let bare = chosen(json!("none")).unwrap();
        assert_eq!(
            (bare.sandbox.name(), bare.network),
            ("none", CommandNetwork::Host)
        );
        if let Ok(chosen) = chosen(json!("auto")) {
            assert_ne!(chosen.sandbox.name(), "none");
            assert_eq!(chosen.network, CommandNetwork::None);
        }
    }

    #[test]
    fn settings_that_cannot_be_enforced_are_errors() {
        for (settings, what) in [
            (
                json!({"mode": "none", "networkAccess": false}),
                "blocking the network",
            ),
            #[cfg(unix)]
            (json!({"mode": "none", "maxMemoryMb": 100}), "memory"),
            #[cfg(unix)]
            (
                json!({"mode": "none", "maxCpuPercent": 10}),
                "processor time",
            ),
            #[cfg(unix)]
            (json!({"mode": "none", "maxProcesses": 10}), "processes"),
            (json!({"mode": "none", "image": "x"}), "an image"),
            (json!({"mode": "none", "socket": "x"}), "an image"),
            (json!({"mode": "none", "bindMounts": ["/tmp"]}), "mounts"),
            (
                json!({"mode": "none", "bindMounts": ["/nowhere/at/all"]}),
                "nowhere",
            ),
            (
                json!({"mode": "container", "image": "x", "socket": "/nowhere/s"}),
                "/nowhere/s",
            ),
            (
                json!({"mode": "container", "image": "x", "socket": "tcp://x"}),
                "tcp://x",
            ),
        ] {
            let fault = chosen(settings.clone()).err().unwrap();
            assert!(fault.to_string().contains(what), "{settings}: {fault}");
            assert_eq!(fault.code(), mimir_core::ToolErrorCode::Unavailable);
        }
    }

    #[test]
    fn mode_auto_error_has_the_reason_of_each_sandbox() {
        let fault = chosen(json!({"bindMounts": ["/tmp:/proc/x"], "image": "x"}))
            .err()
            .unwrap();
        assert_eq!(fault.code(), mimir_core::ToolErrorCode::Unavailable);
        let message = fault.to_string();
        assert_eq!(message.matches("/proc/x").count(), 2, "{message}");
    }

    #[test]
    fn survey_reports_each_sandbox() {
        let settings =
            serde_json::from_value(json!({"socket": "/nowhere/s", "image": "x"})).unwrap();
        let [_, (container, why), (none, guarantees)] = survey_sandboxes(&settings);
        assert_eq!((container, none), ("container", "none"));
        assert!(why.unwrap_err().to_string().contains("/nowhere/s"));
        assert!(guarantees.is_ok());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn mode_process_enforces_or_rejects_each_setting() {
        match chosen(json!({"mode": "process", "networkAccess": true})) {
            Ok(chosen) => assert_eq!(chosen.network, CommandNetwork::Proxy),
            Err(fault) => assert_eq!(fault.code(), mimir_core::ToolErrorCode::Unavailable),
        }
        for settings in [
            json!({"mode": "process", "image": "x"}),
            json!({"mode": "process", "bindMounts": ["/tmp:/proc/x"]}),
            json!({"mode": "process", "bindMounts": ["/nowhere/at/all"]}),
        ] {
            assert!(chosen(settings.clone()).is_err(), "{settings}");
        }
        let result = chosen(
            json!({"mode": "process", "bindMounts": ["/tmp:/data"], "maxMemoryMb": 100, "maxCpuPercent": 10, "maxProcesses": 9}),
        );
        match result {
            Ok(chosen) => {
                assert_eq!(chosen.bounds.memory, ResourceBound::Requested(100 << 20));
                assert_eq!(
                    (chosen.bounds.cpu, chosen.bounds.processes),
                    (Some(10), ResourceBound::Requested(9))
                );
                assert_eq!(chosen.mounts[0].at, Path::new("/data"));
            }
            // This machine can enforce none of the limits.
            Err(fault) => assert_eq!(fault.code(), mimir_core::ToolErrorCode::Unavailable),
        }
    }
}
