//! From the settings to a sandbox, and to what each command in it gets.

use std::path::Path;
use std::sync::Arc;

use mimir_core::config::{BindMount, SandboxMode, SandboxSettings};

use super::{Bound, Bounds, Fault, Mount, Network, NoSandbox, Sandbox, Spec};

/// A sandbox, with what each command in it gets.
pub struct Chosen {
    /// Where commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What each may use up.
    pub bounds: Bounds,
    /// What they see beside the workspace.
    pub mounts: Vec<Mount>,
    /// What they reach over the network.
    pub network: Network,
    /// What the sandbox gives on this machine, in lines for a person.
    pub gives: Vec<String>,
}

/// Where nothing can be mounted: it is made for each command anew.
const OURS: [&str; 5] = ["/proc", "/sys", "/dev", "/etc/passwd", "/.void"];

/// The sandbox that the settings name, if it is to be had and can hold all that they ask for. `auto` is the strongest
/// of this machine and never `none`.
pub fn choose(settings: &SandboxSettings) -> Result<Chosen, Fault> {
    let mode = settings.mode.unwrap_or_default();
    let sandbox: Arc<dyn Sandbox> = match mode {
        SandboxMode::Auto | SandboxMode::Process => process()?,
        SandboxMode::Container => {
            return Err(Fault::Unavailable {
                sandbox: "container",
                why: "this version of mimir starts no containers for commands".to_owned(),
            });
        }
        SandboxMode::None => Arc::new(NoSandbox::new()),
    };
    let name = sandbox.name();
    let cannot = |what, why: &str| Fault::CannotHold {
        sandbox: name,
        what,
        why: why.to_owned(),
    };
    if settings.image.is_some() || settings.socket.is_some() {
        return Err(cannot("an image or a socket", "only containers have one"));
    }
    let bare = mode == SandboxMode::None;
    let network = match (bare, settings.network_access) {
        (true, Some(false)) => {
            return Err(cannot(
                "commands back from the network",
                "there is no sandbox that could",
            ));
        }
        (true, _) => Network::Host,
        (false, Some(true)) => Network::Proxy,
        (false, _) => Network::None,
    };
    let usual = Bounds::default();
    let asked = |value: Option<u64>, usual| value.map_or(usual, Bound::Asked);
    let megabytes = settings.max_memory_mb.map(|mb| mb.saturating_mul(1 << 20));
    let chosen = Chosen {
        bounds: Bounds {
            memory: asked(megabytes, usual.memory),
            processes: asked(settings.max_processes, usual.processes),
            cpu: settings.max_cpu_percent,
            ..usual
        },
        mounts: settings
            .bind_mounts
            .iter()
            .map(mount)
            .collect::<Result<_, _>>()?,
        network,
        gives: sandbox.available()?,
        sandbox,
    };
    let program = mimir_core::command::Program::Vector(Vec::new());
    chosen.sandbox.holds(&Spec {
        bounds: chosen.bounds,
        mounts: chosen.mounts.clone(),
        network: chosen.network,
        // A workspace that every sandbox takes: which one it will be is not known here.
        ..Spec::new(program, "/home/mimir/workspace")
    })?;
    Ok(chosen)
}

#[cfg(target_os = "linux")]
fn process() -> Result<Arc<dyn Sandbox>, Fault> {
    Ok(Arc::new(super::ProcessSandbox::new()))
}

#[cfg(not(target_os = "linux"))]
fn process() -> Result<Arc<dyn Sandbox>, Fault> {
    Err(Fault::Unavailable {
        sandbox: "process",
        why: "it is made of what the Linux kernel has".to_owned(),
    })
}

fn mount(written: &BindMount) -> Result<Mount, Fault> {
    let at = Path::new(&written.at);
    let fault = |why: String| Fault::Mount {
        at: at.to_owned(),
        why,
    };
    if OURS.iter().any(|ours| at.starts_with(ours)) {
        return Err(fault("the sandbox has one of its own there".to_owned()));
    }
    let from = Path::new(&written.from).canonicalize();
    Ok(Mount {
        from: from.map_err(|error| fault(format!("`{}`: {error}", written.from)))?,
        at: at.components().collect(),
        writable: written.writable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn chosen(settings: Value) -> Result<Chosen, Fault> {
        choose(&serde_json::from_value(settings).unwrap())
    }

    #[test]
    fn none_is_none_by_its_name_alone() {
        let bare = chosen(json!("none")).unwrap();
        assert_eq!((bare.sandbox.name(), bare.network), ("none", Network::Host));
        if let Ok(chosen) = chosen(json!("auto")) {
            assert_ne!(chosen.sandbox.name(), "none");
            assert_eq!(chosen.network, Network::None);
        }
    }

    #[test]
    fn every_key_is_held_or_refused() {
        for (settings, what) in [
            (
                json!({"mode": "none", "networkAccess": false}),
                "commands back",
            ),
            (json!({"mode": "none", "maxMemoryMb": 100}), "memory"),
            (
                json!({"mode": "none", "maxCpuPercent": 10}),
                "processor time",
            ),
            (json!({"mode": "none", "maxProcesses": 10}), "processes"),
            (json!({"mode": "none", "image": "x"}), "an image"),
            (json!({"mode": "none", "socket": "x"}), "an image"),
            (json!({"mode": "none", "bindMounts": ["/tmp"]}), "mounts"),
            (
                json!({"mode": "none", "bindMounts": ["/nowhere/at/all"]}),
                "nowhere",
            ),
            (json!({"mode": "container"}), "container"),
        ] {
            let fault = chosen(settings.clone()).err().unwrap();
            assert!(fault.to_string().contains(what), "{settings}: {fault}");
            assert_eq!(fault.code(), mimir_core::Code::Unavailable);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn every_key_is_held_or_refused_in_the_sandbox() {
        let fault = chosen(json!({"mode": "process", "networkAccess": true}))
            .err()
            .unwrap();
        assert_eq!(fault.code(), mimir_core::Code::Unavailable);
        for settings in [
            json!({"mode": "process", "image": "x"}),
            json!({"mode": "process", "bindMounts": ["/tmp:/proc/x"]}),
            json!({"mode": "process", "bindMounts": ["/nowhere/at/all"]}),
        ] {
            assert!(chosen(settings.clone()).is_err(), "{settings}");
        }
        let all = chosen(
            json!({"mode": "process", "bindMounts": ["/tmp:/data"], "maxMemoryMb": 100, "maxCpuPercent": 10, "maxProcesses": 9}),
        );
        match all {
            Ok(all) => {
                assert_eq!(all.bounds.memory, Bound::Asked(100 << 20));
                assert_eq!(
                    (all.bounds.cpu, all.bounds.processes),
                    (Some(10), Bound::Asked(9))
                );
                assert_eq!(all.mounts[0].at, Path::new("/data"));
            }
            // Where this machine lets us hold none of it.
            Err(fault) => assert_eq!(fault.code(), mimir_core::Code::Unavailable),
        }
    }
}
