//! The entry of a session approval in the user's file, so that a person can list and revoke it.
//!
//! A session approval counts only in the process that received it: an entry that is added to the file approves nothing.

use mimir_core::approval::StoredApproval;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A listed session approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionApproval {
    /// Process id of the mimir that runs the session.
    pub process: u32,
    /// Prefix of the hash of the session id. The id itself may be a credential of a client.
    session: String,
    /// The approval.
    pub lease: StoredApproval,
}

/// Number of hex digits of the hash, enough to tell the sessions of one process apart.
const ID_LENGTH: usize = 16;

fn session_hash(session: &str) -> String {
    let mut hash = format!("{:x}", Sha256::digest(session));
    hash.truncate(ID_LENGTH);
    hash
}

impl SessionApproval {
    /// Creates the entry of an approval in a session of this process.
    pub fn in_this_process(session: &str, lease: &StoredApproval) -> Self {
        Self {
            process: std::process::id(),
            session: session_hash(session),
            lease: lease.clone(),
        }
    }

    /// Returns true if the approval belongs to this session of this process.
    pub fn is_for_session(&self, session: &str) -> bool {
        self.process == std::process::id() && self.session == session_hash(session)
    }

    /// Returns true if both entries are for the same approval in the same session.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.process, &self.session, &self.lease.id)
            == (other.process, &other.session, &other.lease.id)
    }

    /// Returns true if the process of the session may still be running. A crashed process leaves its entries behind.
    pub fn process_may_run(&self) -> bool {
        mimir_core::platform::process_may_run(self.process)
    }
}
