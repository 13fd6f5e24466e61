//! Owner of a container: the process that made it, so that containers of processes that have ended can be removed.

use std::fs;

/// Label of every container made by mimir.
pub(super) const LABEL: &str = "mimir.owner";

/// A process, identified as uniquely as the platform allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerOwner {
    /// Boot ID of this machine.
    boot: String,
    /// The PID namespace of the process.
    space: String,
    process: u32,
    /// Start time of the process in clock ticks since boot: process IDs are reused.
    begun: u64,
}

impl ContainerOwner {
    /// Identifies this process.
    pub(super) fn this_process() -> Self {
        let process = std::process::id();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            boot: boot.trim().to_owned(),
            space: space.display().to_string(),
            begun: begun(process).unwrap_or_default(),
            process,
        }
    }

    pub(super) fn label(&self) -> String {
        let Self {
            boot,
            space,
            process,
            begun,
        } = self;
        format!("{boot} {space} {process} {begun}")
    }

    fn parse_label(label: &str) -> Option<Self> {
        let mut words = label.split(' ');
        let owner = Self {
            boot: words.next()?.to_owned(),
            space: words.next()?.to_owned(),
            process: words.next()?.parse().ok()?,
            begun: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(owner)
    }

    /// Returns true if the container with this label belongs to a process that has ended. `runs` is true if the
    /// container runs. A container whose owner cannot be checked is not removed.
    pub(super) fn is_abandoned(&self, label: &str, runs: bool) -> bool {
        let Some(other) = Self::parse_label(label) else {
            return false;
        };
        if other.boot.is_empty() || self.boot.is_empty() {
            return false;
        }
        if other.boot != self.boot {
            // The owner ran before a reboot of this machine, or runs on another machine that uses the same engine.
            return !runs;
        }
        other.space == self.space && begun(other.process) != Some(other.begun)
    }
}

/// Start time of a process of this machine in clock ticks since boot, if it exists.
fn begun(process: u32) -> Option<u64> {
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
        let own = ContainerOwner::this_process();
        assert_eq!(
            ContainerOwner::parse_label(&own.label()).as_ref(),
            Some(&own)
        );
        assert!(!own.is_abandoned(&own.label(), true), "it runs");
        assert!(!own.is_abandoned(&own.label(), false));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let process = ended.id();
        ended.wait().unwrap();
        let gone = ContainerOwner {
            process,
            begun: 1,
            ..own.clone()
        };
        assert!(own.is_abandoned(&gone.label(), true));
        let again = ContainerOwner {
            begun: own.begun + 1,
            ..own.clone()
        };
        assert!(
            own.is_abandoned(&again.label(), true),
            "the number is another's now"
        );
        let elsewhere = ContainerOwner {
            space: "pid:[1]".into(),
            ..gone.clone()
        };
        assert!(
            !own.is_abandoned(&elsewhere.label(), false),
            "its processes are not seen here"
        );
        let before = ContainerOwner {
            boot: "x".into(),
            ..gone
        };
        assert!(
            own.is_abandoned(&before.label(), false) && !own.is_abandoned(&before.label(), true)
        );
        for label in ["", "x", "a b c d", "a b 1 2 3"] {
            assert!(!own.is_abandoned(label, false), "{label}");
        }
    }
}
