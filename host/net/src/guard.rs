//! The policy in force, and which one that is: a grant that was taken back ends what it had opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use mimir_core::network::NetworkPolicy;

/// Holds the policy of a tool. Clients that share a guard see a new policy at once: connections that were made under
/// another are not used again, and answers that are still coming in are judged anew.
#[derive(Debug)]
pub struct Guard {
    now: RwLock<Snapshot>,
    /// The same number, to be read without a lock.
    generation: AtomicU64,
}

/// A policy, and the how-many-th it is.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) policy: Arc<NetworkPolicy>,
    pub(crate) generation: u64,
}

impl Guard {
    /// A guard with this policy.
    pub fn new(policy: NetworkPolicy) -> Self {
        Self {
            now: RwLock::new(Snapshot {
                policy: Arc::new(policy),
                generation: 0,
            }),
            generation: AtomicU64::new(0),
        }
    }

    /// Puts another policy in force.
    pub fn set(&self, policy: NetworkPolicy) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        now.policy = Arc::new(policy);
        now.generation += 1;
        self.generation.store(now.generation, Ordering::Release);
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<NetworkPolicy> {
        self.current().policy
    }

    pub(crate) fn current(&self) -> Snapshot {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
