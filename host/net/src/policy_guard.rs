//! The current policy and its generation number: revoking a grant ends everything that was opened under the grant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mimir_core::network::NetworkPolicy;
use parking_lot::RwLock;

/// Holds the network policy of a tool. Clients that share a guard see a new policy at once: connections made under an
/// older policy are not reused, and responses still in transfer are checked again.
#[derive(Debug)]
pub struct PolicyGuard {
    current: RwLock<NetworkPolicySnapshot>,
    /// The generation of the current policy, readable without a lock.
    generation: AtomicU64,
}

/// A policy and its generation number.
#[derive(Debug, Clone)]
pub(crate) struct NetworkPolicySnapshot {
    pub(crate) policy: Arc<NetworkPolicy>,
    pub(crate) generation: u64,
}

impl PolicyGuard {
    /// Creates a guard with this policy.
    pub fn new(policy: NetworkPolicy) -> Self {
        Self {
            current: RwLock::new(NetworkPolicySnapshot {
                policy: Arc::new(policy),
                generation: 0,
            }),
            generation: AtomicU64::new(0),
        }
    }

    /// Replaces the current policy.
    pub fn set(&self, policy: NetworkPolicy) {
        let mut current = self.current.write();
        current.policy = Arc::new(policy);
        current.generation += 1;
        self.generation.store(current.generation, Ordering::Release);
    }

    /// Returns the current policy.
    pub fn policy(&self) -> Arc<NetworkPolicy> {
        self.current().policy
    }

    pub(crate) fn current(&self) -> NetworkPolicySnapshot {
        let current = self.current.read();
        current.clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
