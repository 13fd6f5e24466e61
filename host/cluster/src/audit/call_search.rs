//! The search for a call on the chain of a writer.

use mimir_audit::ChainLink;

use super::recorded_line::RecordedLine;
use super::stream::{AuditStream, check_writer};
use super::{ClusterAuditError, log_message::AuditMessage};

/// A call as found on the chain of a writer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedCall {
    /// True if the call was announced, so that it may have run.
    pub announced: bool,
    /// The outcome, if there is one.
    pub outcome: Option<RecordedOutcome>,
}

/// The outcome of a call as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedOutcome {
    /// True if the call succeeded.
    pub ok: bool,
    /// The error code.
    pub code: Option<String>,
    /// True if the process that ran the call ended before the call did.
    pub may_have_run: bool,
}

impl RecordedCall {
    /// Adds what a message says about the call.
    fn add(&mut self, message: &AuditMessage, request_id: &str) {
        for line in message.lines().filter_map(RecordedLine::read) {
            if line.id != request_id {
                continue;
            }
            if line.is_announcement() {
                self.announced = true;
            } else if line.is_outcome() {
                self.outcome = Some(RecordedOutcome {
                    ok: line.ok,
                    code: line.code.map(std::borrow::Cow::into_owned),
                    may_have_run: line.may_have_run,
                });
            }
        }
    }
}

/// Searches a call in the messages of a writer after the sequence `after`. If some of them were removed after an export,
/// and nothing about the call is found, it counts as announced: it may have run.
pub(crate) async fn find_call(
    stream: &AuditStream,
    writer: &str,
    request_id: &str,
    after: u64,
) -> Result<RecordedCall, ClusterAuditError> {
    let writer = check_writer(writer)?;
    let mut call = RecordedCall::default();
    let mut next = after + 1;
    let mut first_line = None;
    while let Some(message) = stream.next_message(writer.as_str(), next).await? {
        if first_line.is_none() {
            first_line = message.lines().next().and_then(ChainLink::read);
        }
        call.add(&message, request_id);
        if call.outcome.is_some() {
            break;
        }
        next = message.sequence + 1;
    }
    if call == RecordedCall::default() {
        let is_complete = match after {
            0 => first_line.is_none_or(|link| link.seq == 1),
            _ => stream.message(after).await?.is_some(),
        };
        call.announced = !is_complete;
    }
    Ok(call)
}
