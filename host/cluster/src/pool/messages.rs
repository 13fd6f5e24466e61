//! Errors and outcomes of calls that no worker has completed.

use mimir_core::wire::OutcomeMessage;
use mimir_core::{Outcome, ToolError, ToolErrorCode};
use serde_json::json;

use super::selection::SelectionError;
use crate::node::NodeEntry;

/// Time after which a client should try again, in milliseconds.
const RETRY_AFTER_MS: u64 = 1000;

fn outcome(error: ToolError) -> Outcome {
    OutcomeMessage::failed(error).into()
}

/// The outcome of a call that the worker has stopped and recorded as cancelled.
pub(super) fn stopped(worker: &NodeEntry) -> Outcome {
    let message = format!(
        "the worker on {} was stopped while it ran the call",
        worker.host
    );
    let error = ToolError::new(ToolErrorCode::Cancelled, message);
    outcome(error.with_details(json!({ "mayHaveRun": true })))
}

/// The outcome of a call whose worker was lost.
pub(super) fn may_have_run(worker: &NodeEntry, recorded: bool) -> Outcome {
    let message = if recorded {
        format!(
            "the call has run on {}, but its result was lost with the connection to the worker; `mimir audit` shows the outcome",
            worker.host
        )
    } else {
        format!(
            "the worker on {} was lost while it ran the call, so the call may have taken effect; check before you repeat it",
            worker.host
        )
    };
    let mut details = json!({ "mayHaveRun": true });
    if recorded && let Some(details) = details.as_object_mut() {
        details.insert("recorded".to_owned(), json!(true));
    }
    outcome(ToolError::unavailable(message).with_details(details))
}

/// The outcome of a call whose worker was lost, while the audit log cannot be read.
pub(super) fn unknown(worker: &NodeEntry, error: &str) -> Outcome {
    let message = format!(
        "the worker on {} was lost, and whether the call ran cannot be read from the audit log: {error}",
        worker.host
    );
    outcome(ToolError::unavailable(message).with_details(json!({ "mayHaveRun": true })))
}

/// The outcome of a call that was sent before the connection to the cluster was lost.
pub(super) fn disconnected(worker: &NodeEntry) -> Outcome {
    let message = format!(
        "the connection to the cluster was lost after the call was sent to the worker on {}, so the call may have taken effect; check before you repeat it",
        worker.host
    );
    outcome(ToolError::unavailable(message).with_details(json!({ "mayHaveRun": true })))
}

/// The error of a call while no server of the cluster is connected.
pub(super) fn not_connected() -> ToolError {
    let message = "no NATS server of the cluster can be reached, so no worker gets the call";
    ToolError::unavailable(message)
        .with_details(json!({ "retryAfterMs": RETRY_AFTER_MS }))
        .with_remedies([
            "try again when the servers run; `mimir cluster status` shows whether they do"
                .to_owned(),
        ])
}

/// The error of a call that was lost with several workers, and has not run.
pub(super) fn lost_too_often(count: u32) -> ToolError {
    let message = format!("{count} workers were lost one after the other before they ran the call");
    ToolError::unavailable(message).with_details(json!({ "retryAfterMs": RETRY_AFTER_MS }))
}

/// The error of a call when too many wait.
pub(super) fn too_many_waiting(max: u32) -> ToolError {
    let message =
        format!("{max} calls wait for a worker already; try again later, or start more workers");
    ToolError::limit_exceeded(message).with_details(json!({ "retryAfterMs": RETRY_AFTER_MS }))
}

/// The error of a call for which no worker was found.
pub(super) fn no_worker(error: &SelectionError, workspace: &str) -> ToolError {
    let retry = json!({ "retryAfterMs": RETRY_AFTER_MS });
    let (error, remedy) = match error {
        SelectionError::NoWorker => (
            ToolError::unavailable(format!(
                "no worker of the workspace `{workspace}` is running"
            )),
            format!("start one: mimir worker --workspace-name {workspace}"),
        ),
        SelectionError::NoLabel { labels } => {
            let labels: Vec<String> = labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let message = format!(
                "no worker of the workspace `{workspace}` has the labels that the tool needs: {}",
                labels.join(", ")
            );
            let options: Vec<String> = labels
                .iter()
                .map(|label| format!("--label {label}"))
                .collect();
            let remedy = format!(
                "start one: mimir worker --workspace-name {workspace} {}; or change `cluster.route` in the settings",
                options.join(" ")
            );
            (ToolError::unavailable(message), remedy)
        }
        SelectionError::ContentDiffers { one, other, fact } => {
            let message = format!(
                "the workers of the workspace `{workspace}` do not have the same content: {fact} is {} on {} and {} on {}",
                one.1, one.0, other.1, other.0
            );
            let remedy = "bring both to the same content, give one of them another --workspace-name, or start the server with --workspace-any-content"
                .to_owned();
            (ToolError::unavailable(message), remedy)
        }
        SelectionError::AllDraining => (
            ToolError::unavailable(format!(
                "all workers of the workspace `{workspace}` are draining"
            )),
            format!("start another one: mimir worker --workspace-name {workspace}"),
        ),
        SelectionError::NoneReady => (
            ToolError::unavailable(format!(
                "no worker of the workspace `{workspace}` can write the audit log"
            )),
            "try again later; `mimir cluster status` shows whether the log is full or has no quorum"
                .to_owned(),
        ),
        SelectionError::AllBusy => (
            ToolError::limit_exceeded(format!(
                "all workers of the workspace `{workspace}` run as many calls as they can; try again later"
            )),
            "start more workers, or set a higher --capacity".to_owned(),
        ),
    };
    error.with_details(retry).with_remedies([remedy])
}
