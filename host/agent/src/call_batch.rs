//! The calls of one answer: runs them through the pipeline, several at a time, and formats the results for the model.

use std::pin::pin;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream;
use mimir_core::call::ParentCall;
use mimir_core::outcome::TrustLevel;
use mimir_core::text::{bytes, prefix, visible};
use mimir_core::untrusted_mark::UntrustedMark;
use mimir_core::{BoxFuture, Call, CallContext, Content, Outcome, Pipeline, RequestId};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::event::{AgentEvent, AgentEventSink};
use crate::message::{Message, ToolCall};

/// Maximum number of calls made per answer. Each further call gets a result that explains why it was not made.
const MAX_CALLS: usize = 32;

/// Maximum number of parallel calls: the default concurrency of a single plugin.
const MAX_PARALLEL_CALLS: usize = 8;

/// Character limit of a result below which the text around it is deducted.
const SHORT_RESULT_CHARS: usize = 2_000;

/// Characters around a result: its code, the markers of untrusted text, and the note about a cut.
const RESULT_OVERHEAD_CHARS: usize = 300;

/// Minimum number of characters shown of a result.
const MIN_RESULT_CHARS: usize = 100;

/// Settings for running the calls of one answer.
pub(crate) struct CallBatch<'a> {
    pub pipeline: &'a Pipeline,
    /// The call that these calls run inside, if any.
    pub parent: Option<&'a ParentCall>,
    pub events: &'a dyn AgentEventSink,
    /// The conversation's id.
    pub session: &'a str,
    /// Number of calls that the task has left.
    pub left: u64,
    /// Maximum number of characters of all results together.
    pub room: usize,
}

/// The outcome of a round of calls.
pub(crate) struct CallBatchResult {
    /// The results, one for each call, in their order.
    pub results: Vec<Message>,
    /// Number of calls made.
    pub made: u64,
    /// True if a call was skipped because the task's call limit was reached.
    pub short: bool,
    /// Elapsed time, without the time spent waiting for the person.
    pub time: Duration,
}

/// The outcome of one call.
struct SingleCallResult {
    text: String,
    failed: bool,
    took: Duration,
}

impl CallBatch<'_> {
    /// Runs the calls.
    pub(crate) async fn run(&self, calls: &[ToolCall]) -> CallBatchResult {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = left.min(MAX_CALLS);
        let (make, leave) = calls.split_at(calls.len().min(most));
        let each = self.room / calls.len().max(1);
        // Many results in little space are cut further each: the task would end if they did not fit.
        let shown = match each < SHORT_RESULT_CHARS {
            true => each
                .saturating_sub(RESULT_OVERHEAD_CHARS)
                .max(MIN_RESULT_CHARS),
            false => each,
        };
        let start = Instant::now();
        let (stop, stopped) = watch::channel(false);
        // Boxed as trait objects: a worker's task makes calls itself, so the future type would be recursive.
        let mut each: Vec<BoxFuture<'_, SingleCallResult>> = Vec::with_capacity(make.len());
        for call in make {
            each.push(Box::pin(self.run_one(call, shown, stopped.clone())));
        }
        let each = stream::iter(each).buffered(MAX_PARALLEL_CALLS);
        let mut work = pin!(each.collect::<Vec<SingleCallResult>>());
        let mut asked = self.events.stop_calls();
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = &mut asked, if !*stop.borrow() => {
                    stop.send_replace(true);
                }
            }
        };
        let wall = start.elapsed();
        let short = left < calls.len() && left < MAX_CALLS;
        let worked: Duration = ended.iter().map(|one| one.took).sum();
        let mut results: Vec<Message> = make
            .iter()
            .zip(ended)
            .map(|(call, one)| result(call, one.text, one.failed))
            .collect();
        let why = match short {
            true => {
                "LIMIT_EXCEEDED: this call was not made, because the task has reached its limit of tool calls"
                    .to_owned()
            }
            false => format!(
                "LIMIT_EXCEEDED: this call was not made, because at most {MAX_CALLS} calls are made per answer; repeat it in the next answer if it is needed"
            ),
        };
        for call in leave {
            self.events.handle_event(AgentEvent::Result {
                id: &call.id,
                name: &call.name,
                outcome: None,
                text: &why,
            });
            results.push(result(call, why.clone(), true));
        }
        CallBatchResult {
            results,
            made: make.len() as u64,
            short,
            // Parallel calls take no longer than the wall time, and receipts do not include the time spent waiting for
            // the person.
            time: wall.min(worked),
        }
    }

    async fn run_one(
        &self,
        call: &ToolCall,
        shown: usize,
        mut stopped: watch::Receiver<bool>,
    ) -> SingleCallResult {
        self.events.handle_event(AgentEvent::Call {
            id: &call.id,
            name: &call.name,
            arguments: &call.arguments,
        });
        let (arguments, broken) = match call.parse_arguments() {
            Ok(arguments) => (arguments, None),
            // An invalid call goes through the pipeline as well, which records and rejects it.
            Err(error) => (Value::String(call.arguments.clone()), Some(error)),
        };
        let request_id = RequestId::new(SystemTime::now());
        let context = CallContext {
            request_id,
            session_id: self.session.to_owned(),
            conversation_id: Some(self.session.to_owned()),
            user: None,
        };
        let mut wanted = Call::new(call.name.clone(), arguments, context);
        wanted.observer = self.events.observer(call);
        wanted.parent = self.parent.cloned();
        let outcome = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => None,
            outcome = self.pipeline.call(wanted) => Some(outcome),
        };
        if let (Some(parent), Some(outcome)) = (self.parent, &outcome) {
            parent.record_read(outcome);
        }
        let one = match &outcome {
            Some(outcome) => SingleCallResult {
                text: match &broken {
                    Some(error) => format!(
                        "{}\nThe arguments are not valid JSON: {error}. Write one JSON object.",
                        render_outcome(outcome, shown)
                    ),
                    None => render_outcome(outcome, shown),
                },
                failed: !outcome.is_ok(),
                took: Duration::try_from_secs_f64(outcome.receipt().duration_ms / 1_000.0)
                    .unwrap_or_default(),
            },
            None => SingleCallResult {
                text: "CANCELLED: the user stopped this call; it may be partly done".to_owned(),
                failed: true,
                took: Duration::ZERO,
            },
        };
        self.events.handle_event(AgentEvent::Result {
            id: &call.id,
            name: &call.name,
            outcome: outcome.as_ref(),
            text: &one.text,
        });
        one
    }
}

fn result(call: &ToolCall, text: String, failed: bool) -> Message {
    Message::Tool {
        id: call.id.clone(),
        name: call.name.clone(),
        text,
        failed,
    }
}

/// Formats an outcome for the model, in at most about `shown` characters. Untrusted text stays between its marker
/// lines even if it is cut.
fn render_outcome(outcome: &Outcome, shown: usize) -> String {
    let mut text = words(outcome);
    if text.len() > shown {
        let whole = text.chars().count();
        let kept = prefix(&text, shown);
        if kept.len() < text.len() {
            text = format!(
                "{kept}\n[cut: {shown} of {whole} characters are shown; request a smaller part]"
            );
        }
    }
    let label = outcome.label();
    if label.trust == TrustLevel::Untrusted {
        text = UntrustedMark::new(&label.origin).around(&text);
    }
    match outcome.result() {
        Ok(output) => {
            if let Some(code) = output.exit_code.filter(|code| *code != 0) {
                text = format!("exit code {code}\n{text}");
            }
        }
        Err(error) => text = format!("{}: {text}", error.code),
    }
    if outcome.truncated() {
        text.push_str("\n[the result was cut at a limit]");
    }
    text
}

fn words(outcome: &Outcome) -> String {
    let output = match outcome.result() {
        Ok(output) => output,
        Err(error) => {
            return match &error.details {
                Some(details) => format!("{}\n{details}", error.message),
                None => error.message.clone(),
            };
        }
    };
    let mut parts: Vec<String> = output.content.iter().map(part).collect();
    let says_nothing = parts.iter().all(|part| part.trim().is_empty());
    match &output.structured {
        Some(structured) if says_nothing => parts = vec![structured.to_string()],
        None if says_nothing => parts = vec!["(done, no output)".to_owned()],
        _ => {}
    }
    parts.join("\n")
}

fn part(part: &Content) -> String {
    let size = bytes(part.len() as u64);
    match part {
        Content::Text { text } => text.clone(),
        Content::Image { mime_type, .. } => {
            format!("[an image, {}, {size}, not included]", visible(mime_type))
        }
        Content::Audio { mime_type, .. } => {
            format!("[audio, {}, {size}, not included]", visible(mime_type))
        }
        Content::File {
            name,
            mime_type,
            data,
        } => match std::str::from_utf8(data) {
            Ok(text) => format!("[the file {}]\n{text}", visible(name)),
            Err(_) => format!(
                "[the file {}, {}, {size}]",
                visible(name),
                visible(mime_type)
            ),
        },
    }
}
