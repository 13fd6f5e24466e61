//! Properties of a container engine, including the limits that it can enforce.

use std::fs;

use bollard::models::{SystemInfo, SystemVersion};

/// Properties reported by an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ContainerEngineFacts {
    /// Name and version.
    pub(super) engine: String,
    pub(super) podman: bool,
    /// True if the engine runs as the user, without root.
    pub(super) rootless: bool,
    /// True if the engine maps user IDs in containers to others outside (`userns-remap`).
    pub(super) userns_remap: bool,
    pub(super) selinux: bool,
    /// True for each limit that the engine has control groups for.
    pub(super) memory: bool,
    pub(super) swap: bool,
    pub(super) pids: bool,
    pub(super) cpu: bool,
    /// True if this machine has swap space.
    pub(super) has_swap: bool,
}

impl ContainerEngineFacts {
    pub(super) fn new(info: &SystemInfo, version: &SystemVersion) -> Self {
        let components = version.components.iter().flatten();
        let podman = components
            .into_iter()
            .any(|component| component.name.contains("Podman"));
        let option = |name: &str| {
            let options = info.security_options.iter().flatten();
            options
                .flat_map(|option| option.split(','))
                .any(|option| option.strip_prefix("name=").unwrap_or(option) == name)
        };
        let kind = if podman { "Podman" } else { "Docker" };
        let number = version.version.as_deref().unwrap_or("of unknown version");
        let is_true = |fact: Option<bool>| fact.unwrap_or(false);
        Self {
            engine: format!("{kind} {number}"),
            podman,
            rootless: option("rootless"),
            userns_remap: option("userns"),
            selinux: option("selinux"),
            memory: is_true(info.memory_limit),
            swap: is_true(info.swap_limit),
            pids: is_true(info.pids_limit),
            cpu: is_true(info.cpu_cfs_period) && is_true(info.cpu_cfs_quota),
            has_swap: has_swap(),
        }
    }

    /// Detects rootless Podman by the user that serves its socket. Podman reports it only since 4.6; Docker always
    /// does.
    pub(super) fn set_server_user(&mut self, user: Option<u32>) {
        self.rootless |= self.podman && user.is_some_and(|user| user != 0);
    }

    /// Returns true if a memory limit can be enforced: memory beyond the limit must not move to swap.
    pub(super) fn can_limit_memory(&self) -> bool {
        self.memory && (self.swap || !self.has_swap)
    }

    /// Returns the user and group ID of commands: those of this process. Rootless Docker maps root in the container to
    /// them.
    pub(super) fn command_user(&self) -> String {
        if self.rootless && !self.podman {
            return "0:0".to_owned();
        }
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        format!("{}:{}", user.as_raw(), group.as_raw())
    }

    /// Returns the user namespace mode that keeps user IDs the same inside and outside the container.
    pub(super) fn userns_mode(&self) -> Option<&'static str> {
        match (self.podman && self.rootless, self.userns_remap) {
            (true, _) => Some("keep-id"),
            (false, true) => Some("host"),
            (false, false) => None,
        }
    }

    /// Returns the properties of a Docker engine with support for all limits.
    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self {
            engine: "Docker 1".to_owned(),
            memory: true,
            swap: true,
            pids: true,
            cpu: true,
            ..Self::default()
        }
    }
}

/// Returns true if this machine has swap space, or if that is unknown.
fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").map_or(true, |text| text.lines().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(info: Value, version: Value) -> ContainerEngineFacts {
        ContainerEngineFacts::new(
            &serde_json::from_value(info).unwrap(),
            &serde_json::from_value(version).unwrap(),
        )
    }

    #[test]
    fn engine_facts_are_read_from_info_and_version() {
        let docker = facts(
            json!({"MemoryLimit": true, "SwapLimit": true, "PidsLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true,
                   "SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}),
            json!({"Version": "20.10.24"}),
        );
        assert_eq!(docker.engine, "Docker 20.10.24");
        assert!(docker.memory && docker.swap && docker.pids && docker.cpu);
        assert!(!docker.rootless && !docker.selinux);
        assert_eq!(docker.userns_mode(), Some("host"));
        let podman = facts(
            json!({"SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=selinux"]}),
            json!({"Version": "5.4.2", "Components": [{"Name": "Podman Engine", "Version": "5.4.2"}]}),
        );
        assert_eq!(podman.engine, "Podman 5.4.2");
        assert!(podman.rootless && podman.selinux && !podman.memory);
        assert_eq!(podman.userns_mode(), Some("keep-id"));
    }

    #[test]
    fn command_user_maps_to_the_user_of_this_process() {
        let own = format!(
            "{}:{}",
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw()
        );
        let all = ContainerEngineFacts::all();
        assert_eq!(all.command_user(), own);
        assert_eq!(all.userns_mode(), None);
        let rootless = ContainerEngineFacts {
            rootless: true,
            ..all
        };
        assert_eq!(rootless.command_user(), "0:0");
        let podman = ContainerEngineFacts {
            podman: true,
            ..rootless
        };
        assert_eq!(podman.command_user(), own);
    }

    #[test]
    fn podman_rootless_is_detected_from_the_server_user() {
        let mut podman = facts(
            json!({"SecurityOptions": ["name=seccomp,profile=default"]}),
            json!({"Version": "4.3.1", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}),
        );
        for (user, rootless) in [(None, false), (Some(0), false), (Some(1000), true)] {
            podman.set_server_user(user);
            assert_eq!(podman.rootless, rootless, "{user:?}");
        }
        let mut docker = ContainerEngineFacts::all();
        docker.set_server_user(Some(1000));
        assert!(!docker.rootless, "Docker reports rootless mode itself");
    }
}
