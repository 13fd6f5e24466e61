//! Verification of the log that a console shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_cluster::{ClusterLog, ClusterVerifyReport};
use mimir_core::ToolError;
use parking_lot::Mutex;
use serde_json::{Value, json};

use mimir::cluster::ClusterMembership;

/// Time for which the result of a verification counts in stories of calls.
const FILES_AGE: Duration = Duration::from_secs(30);

/// Time for the log of a cluster, all of whose messages are read from the servers.
const CLUSTER_AGE: Duration = Duration::from_secs(600);

/// Time between two verifications of the log of a cluster for stories of calls.
const CLUSTER_PAUSE: Duration = Duration::from_secs(30);

/// The state of the chain as of the last verification.
#[derive(Default)]
pub struct ChainCache {
    last: Mutex<Option<(Instant, Value)>>,
    /// Held while the log of a cluster is verified.
    verifying: Arc<tokio::sync::Mutex<()>>,
}

impl ChainCache {
    /// Returns the state if it is recent.
    pub fn recent(&self, is_cluster: bool) -> Option<Value> {
        let max_age = if is_cluster { CLUSTER_AGE } else { FILES_AGE };
        let last = self.last.lock();
        let (at, chain) = last.as_ref()?;
        (at.elapsed() < max_age).then(|| chain.clone())
    }

    /// Stores the state.
    pub fn store(&self, chain: &Value) {
        *self.last.lock() = Some((Instant::now(), chain.clone()));
    }

    /// Returns a guard for the verification of a cluster's log, unless one is running, or has just ended.
    pub fn begin_verification(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        let last = self.last.lock().as_ref().map(|(at, _)| at.elapsed());
        if last.is_some_and(|age| age < CLUSTER_PAUSE) {
            return None;
        }
        Arc::clone(&self.verifying).try_lock_owned().ok()
    }
}

/// Verifies the log of a cluster.
pub async fn verify_cluster(cluster: &ClusterMembership) -> Result<ClusterVerifyReport, ToolError> {
    let log = ClusterLog::new(cluster.connection().clone());
    let report = log.verify(&**cluster.state(), None).await;
    report.map_err(ToolError::unavailable)
}

/// Returns the state of the chain of a cluster.
pub fn cluster_chain(report: &Result<ClusterVerifyReport, ToolError>) -> Value {
    match report {
        Ok(report) if report.ok => json!({
            "state": "intact",
            "text": format!(
                "the {} lines of the cluster's {} nodes up to message {} are unchanged and in their order",
                report.lines, report.writers, report.head.sequence
            ),
            "verifiedTo": report.head.sequence,
        }),
        Ok(report) => {
            let faults = report.findings.iter();
            let faults = faults.filter(|finding| finding.fault.is_fault());
            let texts: Vec<&str> = faults.take(3).map(|fault| fault.text.as_str()).collect();
            json!({ "state": "broken", "text": texts.join("; ") })
        }
        Err(error) => json!({ "state": "unknown", "text": error.message }),
    }
}

/// Returns the state of a chain that is being verified.
pub fn pending_chain() -> Value {
    json!({
        "state": "unknown",
        "text": "the log of the cluster is being verified; open the call again later",
    })
}

/// Returns true if the state of a chain of a cluster says nothing about the lines of a call, because they are newer.
pub fn is_older_than(chain: &Value, last_message: &Value) -> bool {
    match (chain["verifiedTo"].as_u64(), last_message.as_u64()) {
        (Some(verified), Some(last)) => verified < last,
        _ => false,
    }
}
