//! An answer for one session, in the list that a person can take it back from.
//!
//! It counts in the process that was given it and nowhere else: what is written here by anybody approves nothing.

use mimir_core::approval::Lease;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// An answer for one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The process that the session is in.
    pub process: u32,
    /// Names the session there. Its id itself may be what a client proves itself with.
    session: String,
    /// What was said.
    pub lease: Lease,
}

/// As much of a session's hash as names it among those of one process.
const NAME: usize = 16;

fn name(session: &str) -> String {
    let mut name = format!("{:x}", Sha256::digest(session));
    name.truncate(NAME);
    name
}

impl Listed {
    /// An answer in a session of this process.
    pub fn here(session: &str, lease: &Lease) -> Self {
        Self {
            process: std::process::id(),
            session: name(session),
            lease: lease.clone(),
        }
    }

    /// Whether it counts in this session of this process.
    pub fn is_of(&self, session: &str) -> bool {
        self.process == std::process::id() && self.session == name(session)
    }

    /// Whether both are the same answer in the same session.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.process, &self.session, &self.lease.id)
            == (other.process, &other.session, &other.lease.id)
    }

    /// Whether its process may still run. One that crashed has left its answers behind.
    pub fn may_count(&self) -> bool {
        runs(self.process)
    }
}

#[cfg(unix)]
fn runs(process: u32) -> bool {
    let id = i32::try_from(process).ok();
    let Some(pid) = id.and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    // Somebody else's process is one, too.
    !matches!(
        rustix::process::test_kill_process(pid),
        Err(rustix::io::Errno::SRCH)
    )
}

/// Nothing short of unsafe code tells; what is left behind can be taken back by hand.
#[cfg(not(unix))]
fn runs(_: u32) -> bool {
    true
}
