//! What an engine is, and what it can hold: by what it says, and by who serves it.

use std::fs;

use bollard::models::{SystemInfo, SystemVersion};

/// What an engine says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its name and version.
    pub(super) engine: String,
    pub(super) podman: bool,
    /// Whether it runs without root, as the person.
    pub(super) rootless: bool,
    /// Whether users in containers are others than outside.
    pub(super) user_space: bool,
    pub(super) selinux: bool,
    /// What it has control groups for.
    pub(super) memory: bool,
    pub(super) swap: bool,
    pub(super) pids: bool,
    pub(super) cpu: bool,
    /// Whether this machine has any swap.
    pub(super) swaps: bool,
}

impl Facts {
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
        let number = version.version.as_deref().unwrap_or("of no version");
        let is = |fact: Option<bool>| fact.unwrap_or(false);
        Self {
            engine: format!("{kind} {number}"),
            podman,
            rootless: option("rootless"),
            user_space: option("userns"),
            selinux: option("selinux"),
            memory: is(info.memory_limit),
            swap: is(info.swap_limit),
            pids: is(info.pids_limit),
            cpu: is(info.cpu_cfs_period) && is(info.cpu_cfs_quota),
            swaps: swaps(),
        }
    }

    /// Takes in who serves it. Podman says that it runs without root from 4.6 on; Docker always has.
    pub(super) fn served_by(&mut self, user: Option<u32>) {
        self.rootless |= self.podman && user.is_some_and(|user| user != 0);
    }

    /// Memory that is full must not go on as swap.
    pub(super) fn holds_memory(&self) -> bool {
        self.memory && (self.swap || !self.swaps)
    }

    /// Who a command is: whoever runs us. In Docker without root, that is who is root in there.
    pub(super) fn user(&self) -> String {
        if self.rootless && !self.podman {
            return "0:0".to_owned();
        }
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        format!("{}:{}", user.as_raw(), group.as_raw())
    }

    /// What keeps a user the same inside and outside.
    pub(super) fn user_space(&self) -> Option<&'static str> {
        match (self.podman && self.rootless, self.user_space) {
            (true, _) => Some("keep-id"),
            (false, true) => Some("host"),
            (false, false) => None,
        }
    }

    /// An engine that holds everything.
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

/// Whether this machine has swap. Where that cannot be known, it has.
fn swaps() -> bool {
    fs::read_to_string("/proc/swaps").map_or(true, |text| text.lines().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(info: Value, version: Value) -> Facts {
        Facts::new(
            &serde_json::from_value(info).unwrap(),
            &serde_json::from_value(version).unwrap(),
        )
    }

    #[test]
    fn an_engine_is_what_it_says() {
        let docker = facts(
            json!({"MemoryLimit": true, "SwapLimit": true, "PidsLimit": true, "CpuCfsPeriod": true, "CpuCfsQuota": true,
                   "SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}),
            json!({"Version": "20.10.24"}),
        );
        assert_eq!(docker.engine, "Docker 20.10.24");
        assert!(docker.memory && docker.swap && docker.pids && docker.cpu);
        assert!(!docker.rootless && !docker.selinux);
        assert_eq!(docker.user_space(), Some("host"));
        let podman = facts(
            json!({"SecurityOptions": ["name=seccomp,profile=default", "name=rootless", "name=selinux"]}),
            json!({"Version": "5.4.2", "Components": [{"Name": "Podman Engine", "Version": "5.4.2"}]}),
        );
        assert_eq!(podman.engine, "Podman 5.4.2");
        assert!(podman.rootless && podman.selinux && !podman.memory);
        assert_eq!(podman.user_space(), Some("keep-id"));
    }

    #[test]
    fn a_command_is_whoever_runs_us() {
        let own = format!(
            "{}:{}",
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw()
        );
        let all = Facts::all();
        assert_eq!(all.user(), own);
        assert_eq!(all.user_space(), None);
        let rootless = Facts {
            rootless: true,
            ..all
        };
        assert_eq!(rootless.user(), "0:0");
        let podman = Facts {
            podman: true,
            ..rootless
        };
        assert_eq!(podman.user(), own);
    }

    #[test]
    fn an_older_podman_is_known_by_who_serves_it() {
        let mut podman = facts(
            json!({"SecurityOptions": ["name=seccomp,profile=default"]}),
            json!({"Version": "4.3.1", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}),
        );
        for (user, rootless) in [(None, false), (Some(0), false), (Some(1000), true)] {
            podman.served_by(user);
            assert_eq!(podman.rootless, rootless, "{user:?}");
        }
        let mut docker = Facts::all();
        docker.served_by(Some(1000));
        assert!(!docker.rootless, "it says so itself");
    }
}
