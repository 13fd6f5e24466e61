//! The names of subjects, buckets and streams. Permissions of keys are given by these names, so they are all here.

use mimir_core::shared_state::StateArea;

/// Name of the stream of the audit log.
pub(crate) const AUDIT_STREAM: &str = "MIMIR_AUDIT";

/// Name of the work queue of background calls.
pub(crate) const JOB_STREAM: &str = "MIMIR_JOBS";

/// Name of the object store of components.
pub(crate) const OBJECT_BUCKET: &str = "MIMIR_COMPONENTS";

/// Prefix of the streams that count events, one for each limit and window.
pub(crate) const COUNT_STREAM_PREFIX: &str = "MIMIR_COUNT_";

/// Returns the key-value bucket of an area.
pub(crate) fn bucket(area: StateArea) -> String {
    format!("MIMIR_{}", area.as_str().to_uppercase())
}

/// Returns the subject of the audit log of one writer.
pub(crate) fn audit_subject(writer: &str) -> String {
    format!("mimir.audit.{writer}")
}

/// Returns the subject of calls for one worker.
pub(crate) fn worker_calls(node: &str) -> String {
    format!("mimir.worker.{node}.call")
}

/// Returns the subject of cancellations and ended sessions for one worker.
pub(crate) fn worker_control(node: &str) -> String {
    format!("mimir.worker.{node}.control")
}

/// Returns the subject of background calls for workers of a workspace.
pub(crate) fn jobs(workspace: &str) -> String {
    format!("mimir.jobs.{workspace}")
}

/// Returns the subject of messages from other servers of clients to this one.
pub(crate) fn front_messages(node: &str) -> String {
    format!("mimir.front.{node}.message")
}
