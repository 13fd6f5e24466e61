//! Owner of a container: the process that created it. Containers of ended processes are removed.

use std::fs;

/// Label of every container made by mimir.
pub(super) const LABEL: &str = "mimir.owner";

/// Identity of a process, as unique as the platform allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerOwner {
    /// Boot ID of this machine.
    boot: String,
    /// PID namespace of the process.
    pid_namespace: String,
    process: u32,
    /// Start time of the process in clock ticks since boot: process IDs are reused.
    start_time: u64,
}

impl ContainerOwner {
    /// Identifies this process.
    pub(super) fn this_process() -> Self {
        let process = std::process::id();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let pid_namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            boot: boot.trim().to_owned(),
            pid_namespace: pid_namespace.display().to_string(),
            start_time: start_time(process).unwrap_or_default(),
            process,
        }
    }

    pub(super) fn label(&self) -> String {
        let Self {
            boot,
            pid_namespace,
            process,
            start_time,
        } = self;
        format!("{boot} {pid_namespace} {process} {start_time}")
    }

    fn parse_label(label: &str) -> Option<Self> {
        let mut fields = label.split(' ');
        let owner = Self {
            boot: fields.next()?.to_owned(),
            pid_namespace: fields.next()?.to_owned(),
            process: fields.next()?.parse().ok()?,
            start_time: fields.next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(owner)
    }

    /// Returns true if the owner in this label has ended. A container with an unverifiable owner does not count as
    /// abandoned.
    pub(super) fn is_abandoned(&self, label: &str, is_running: bool) -> bool {
        let Some(other) = Self::parse_label(label) else {
            return false;
        };
        if other.boot.is_empty() || self.boot.is_empty() {
            return false;
        }
        if other.boot != self.boot {
            // The owner ran before a reboot of this machine, or runs on another machine that uses the same engine.
            return !is_running;
        }
        other.pid_namespace == self.pid_namespace
            && start_time(other.process) != Some(other.start_time)
    }
}

/// Returns the start time of a process in clock ticks since boot, if it exists.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name is in parentheses and may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    // The start time is field 22 of the line, and the first field here is the third.
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn owner_is_abandoned_only_if_its_process_has_ended() {
        let owner = ContainerOwner::this_process();
        assert_eq!(
            ContainerOwner::parse_label(&owner.label()).as_ref(),
            Some(&owner)
        );
        assert!(
            !owner.is_abandoned(&owner.label(), true),
            "a running owner counted as abandoned"
        );
        assert!(!owner.is_abandoned(&owner.label(), false));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let process = ended.id();
        ended.wait().unwrap();
        let ended_owner = ContainerOwner {
            process,
            start_time: 1,
            ..owner.clone()
        };
        assert!(owner.is_abandoned(&ended_owner.label(), true));
        let reused = ContainerOwner {
            start_time: owner.start_time + 1,
            ..owner.clone()
        };
        assert!(
            owner.is_abandoned(&reused.label(), true),
            "the process id was reused"
        );
        let elsewhere = ContainerOwner {
            pid_namespace: "pid:[1]".into(),
            ..ended_owner.clone()
        };
        assert!(
            !owner.is_abandoned(&elsewhere.label(), false),
            "processes of another PID namespace are not visible"
        );
        let earlier_boot = ContainerOwner {
            boot: "x".into(),
            ..ended_owner
        };
        assert!(
            owner.is_abandoned(&earlier_boot.label(), false)
                && !owner.is_abandoned(&earlier_boot.label(), true)
        );
        for label in ["", "x", "a b c d", "a b 1 2 3"] {
            assert!(!owner.is_abandoned(label, false), "{label}");
        }
    }
}
