//! Whose a container is: which process has made it, so that one whose process is gone can be removed.

use std::fs;

/// The label that every container of ours has.
pub(super) const LABEL: &str = "mimir.owner";

/// A process that can be told from every other, as far as this machine lets us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// Since when this machine runs.
    boot: String,
    /// Among which processes its number counts.
    space: String,
    process: u32,
    /// When it began, in the kernel's own unit: numbers are used again.
    begun: u64,
}

impl Owner {
    /// This process.
    pub(super) fn own() -> Self {
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

    fn of_label(label: &str) -> Option<Self> {
        let mut words = label.split(' ');
        let owner = Self {
            boot: words.next()?.to_owned(),
            space: words.next()?.to_owned(),
            process: words.next()?.parse().ok()?,
            begun: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(owner)
    }

    /// Whether what has this label is nobody's any more. `runs` says whether the container does. One that cannot be
    /// known about stays.
    pub(super) fn left(&self, label: &str, runs: bool) -> bool {
        let Some(other) = Self::of_label(label) else {
            return false;
        };
        if other.boot.is_empty() || self.boot.is_empty() {
            return false;
        }
        if other.boot != self.boot {
            // Of the time before this machine was started again; or of another one that uses the same engine.
            return !runs;
        }
        other.space == self.space && begun(other.process) != Some(other.begun)
    }
}

/// When a process of this machine began, if it is there.
fn begun(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name is in parentheses and may have any character in it.
    let (_, rest) = stat.rsplit_once(')')?;
    // It is the 22nd of all, and the first one here is the third.
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_left_is_removed() {
        let own = Owner::own();
        assert_eq!(Owner::of_label(&own.label()).as_ref(), Some(&own));
        assert!(!own.left(&own.label(), true), "it runs");
        assert!(!own.left(&own.label(), false));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let process = ended.id();
        ended.wait().unwrap();
        let gone = Owner {
            process,
            begun: 1,
            ..own.clone()
        };
        assert!(own.left(&gone.label(), true));
        let again = Owner {
            begun: own.begun + 1,
            ..own.clone()
        };
        assert!(
            own.left(&again.label(), true),
            "the number is another's now"
        );
        let elsewhere = Owner {
            space: "pid:[1]".into(),
            ..gone.clone()
        };
        assert!(
            !own.left(&elsewhere.label(), false),
            "its processes are not seen here"
        );
        let before = Owner {
            boot: "x".into(),
            ..gone
        };
        assert!(own.left(&before.label(), false) && !own.left(&before.label(), true));
        for label in ["", "x", "a b c d", "a b 1 2 3"] {
            assert!(!own.left(label, false), "{label}");
        }
    }
}
