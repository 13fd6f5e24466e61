//! Reports of the pipeline about a running call. Their content is masked, cut and made visible on the way out.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::audit::OutcomeKind;
use crate::call::{CallProgress, LogLevel, RequestId};
use crate::call_switch::shown_session;
use crate::command::CommandStream;
use crate::decision::{Decision, DecisionReason, PolicyEvaluation};
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::{ContentLabel, Outcome, Receipt};
use crate::redact::Redactor;
use crate::text;

use super::live_event::{
    LiveCallEnd, LiveCallEvent, LiveCallState, LiveEffect, LiveProcess, LiveStream, StartedCall,
};
use super::monitored_call::{CalledTool, MonitoredCall};
use super::shown_arguments::{ReportedArguments, cut};

/// A step of a running call, whose content is not masked yet. Only [`Self::into_event`] gives access to it.
pub struct CallReport(ReportContent);

enum ReportContent {
    Started(Arc<MonitoredCall>),
    Decided {
        call: Arc<MonitoredCall>,
        evaluation: Box<PolicyEvaluation>,
        state: LiveCallState,
        redactor: Redactor,
    },
    State {
        call: Arc<MonitoredCall>,
        decision: Decision,
        rule: Option<String>,
        state: LiveCallState,
        /// The time since which the call is in this state, and its run time before that.
        since: SystemTime,
        ran: Duration,
    },
    Edited {
        call: Arc<MonitoredCall>,
        arguments: Box<ReportedArguments>,
    },
    Effect {
        id: RequestId,
        at: SystemTime,
        effect: LiveEffect,
        subject: String,
        decision: Decision,
    },
    Progress(RequestId, CallProgress),
    Output {
        id: RequestId,
        stream: LiveStream,
        level: Option<LogLevel>,
        text: String,
    },
    Finished {
        call: Arc<MonitoredCall>,
        at: SystemTime,
        kind: OutcomeKind,
        error: Option<(ToolErrorCode, String)>,
        receipt: Box<Receipt>,
        label: Option<ContentLabel>,
    },
}

impl CallReport {
    /// Reports a call that has arrived.
    pub(super) fn started(call: Arc<MonitoredCall>) -> Self {
        Self(ReportContent::Started(call))
    }

    /// Reports the decision about a call.
    pub(super) fn decided(
        call: Arc<MonitoredCall>,
        evaluation: PolicyEvaluation,
        state: LiveCallState,
        redactor: Redactor,
    ) -> Self {
        Self(ReportContent::Decided {
            call,
            evaluation: Box::new(evaluation),
            state,
            redactor,
        })
    }

    /// Reports the state of a call about which the rules have decided.
    pub(super) fn state(call: &Arc<MonitoredCall>) -> Option<Self> {
        let (decision, waits_since) = call.decision_and_wait();
        let (decision, rule) = decision?;
        let state = match waits_since {
            Some(_) => LiveCallState::Waiting,
            None => LiveCallState::Running,
        };
        Some(Self(ReportContent::State {
            call: Arc::clone(call),
            decision,
            rule,
            state,
            since: waits_since.unwrap_or_else(|| call.stopwatch.now()),
            ran: call.stopwatch.elapsed(),
        }))
    }

    /// Reports the arguments that a person has edited.
    pub(super) fn edited(call: Arc<MonitoredCall>, arguments: ReportedArguments) -> Self {
        let arguments = Box::new(arguments);
        Self(ReportContent::Edited { call, arguments })
    }

    /// Reports an effect. `subject` must be masked.
    pub(crate) fn effect(
        id: RequestId,
        at: SystemTime,
        effect: LiveEffect,
        subject: String,
        decision: Decision,
    ) -> Self {
        Self(ReportContent::Effect {
            id,
            at,
            effect,
            subject,
            decision,
        })
    }

    /// Reports progress, whose message must be masked.
    pub(crate) fn progress(id: RequestId, progress: CallProgress) -> Self {
        Self(ReportContent::Progress(id, progress))
    }

    /// Reports a piece of output, which must be masked.
    pub(crate) fn output(id: RequestId, stream: CommandStream, text: String) -> Self {
        Self(ReportContent::Output {
            id,
            stream: stream.into(),
            level: None,
            text,
        })
    }

    /// Reports a log line, which must be masked.
    pub(crate) fn log(id: RequestId, level: LogLevel, text: String) -> Self {
        Self(ReportContent::Output {
            id,
            stream: LiveStream::Log,
            level: Some(level),
            text,
        })
    }

    /// Reports the outcome of a call.
    pub(super) fn finished(call: Arc<MonitoredCall>, outcome: &Outcome, kind: OutcomeKind) -> Self {
        let describe = |error: &ToolError| {
            // Longer than it may be shown, because invisible characters become longer.
            let message = text::prefix_bytes(&error.message, LiveCallEvent::MAX_TEXT + 1);
            (error.code, message.to_owned())
        };
        Self(ReportContent::Finished {
            at: call.stopwatch.now(),
            call,
            kind,
            error: outcome.result().err().map(describe),
            receipt: Box::new(*outcome.receipt()),
            label: Some(outcome.label().clone()),
        })
    }

    /// Reports a call that ended without an outcome, because its caller has cancelled it.
    pub(super) fn cancelled(call: Arc<MonitoredCall>) -> Self {
        let message = "the call was cancelled by its caller".to_owned();
        Self(ReportContent::Finished {
            at: call.stopwatch.now(),
            kind: OutcomeKind::Stopped,
            error: Some((ToolErrorCode::Cancelled, message)),
            receipt: Box::new(Receipt {
                duration_ms: call.stopwatch.elapsed().as_secs_f64() * 1000.0,
                ..Receipt::default()
            }),
            label: None,
            call,
        })
    }

    /// Returns the id of the call.
    pub fn id(&self) -> &RequestId {
        match &self.0 {
            ReportContent::Started(call)
            | ReportContent::Decided { call, .. }
            | ReportContent::State { call, .. }
            | ReportContent::Edited { call, .. }
            | ReportContent::Finished { call, .. } => &call.facts.id,
            ReportContent::Effect { id, .. }
            | ReportContent::Progress(id, _)
            | ReportContent::Output { id, .. } => id,
        }
    }

    /// Returns true for output and progress, which may be dropped if there is too much.
    pub fn is_output(&self) -> bool {
        matches!(
            self.0,
            ReportContent::Output { .. } | ReportContent::Progress(..)
        )
    }

    /// Returns true for the first report of a call.
    pub fn is_start(&self) -> bool {
        matches!(self.0, ReportContent::Started(_))
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn size(&self) -> usize {
        const FIXED: usize = 512;
        FIXED
            + match &self.0 {
                ReportContent::Started(call) => call.facts.arguments.size(),
                ReportContent::Edited { arguments, .. } => arguments.size(),
                ReportContent::Output { text, .. } => text.len(),
                _ => 0,
            }
    }

    /// Masks, cuts and cleans the content.
    pub fn into_event(self, process: &LiveProcess) -> LiveCallEvent {
        match self.0 {
            ReportContent::Started(call) => {
                LiveCallEvent::Started(Box::new(started_call(&call, process)))
            }
            ReportContent::Decided {
                call,
                mut evaluation,
                state,
                redactor,
            } => {
                evaluation.mask(&redactor);
                let rule = evaluation.decisive().map(|reason| &reason.rule);
                LiveCallEvent::Decided {
                    id: call.facts.id.clone(),
                    decision: evaluation.decision(),
                    rule: rule.map(|rule| visible_line(rule)),
                    reasons: visible_reasons(&evaluation),
                    state,
                    since: None,
                    ran_ms: None,
                }
            }
            ReportContent::State {
                call,
                decision,
                rule,
                state,
                since,
                ran,
            } => LiveCallEvent::Decided {
                id: call.facts.id.clone(),
                decision,
                rule: rule.map(|rule| masked_line(&call.redactor, rule)),
                reasons: Vec::new(),
                state,
                since: Some(timestamp(since)),
                ran_ms: Some(ran.as_secs_f64() * 1000.0),
            },
            ReportContent::Edited { call, arguments } => {
                let (arguments, arguments_truncated) = arguments.shown(&call.redactor);
                LiveCallEvent::Edited {
                    id: call.facts.id.clone(),
                    arguments,
                    arguments_truncated,
                }
            }
            ReportContent::Effect {
                id,
                at,
                effect,
                subject,
                decision,
            } => LiveCallEvent::Effect {
                id,
                at: timestamp(at),
                effect,
                subject: visible_line(&subject),
                decision,
            },
            ReportContent::Progress(id, progress) => LiveCallEvent::Progress {
                id,
                done: progress.done,
                total: progress.total,
                message: progress.message.map(|message| visible_line(&message)),
            },
            ReportContent::Output {
                id,
                stream,
                level,
                text,
            } => LiveCallEvent::Output {
                id,
                stream,
                level,
                text: cut(text::sanitize(text), LiveCallEvent::MAX_OUTPUT).0,
            },
            ReportContent::Finished {
                call,
                at,
                kind,
                error,
                receipt,
                label,
            } => LiveCallEvent::Finished(Box::new(LiveCallEnd {
                id: call.facts.id.clone(),
                at: timestamp(at),
                ok: error.is_none(),
                outcome: Some(kind),
                code: error.as_ref().map(|(code, _)| *code),
                message: error.map(|(_, message)| visible_line(&message)),
                receipt: *receipt,
                label: label.map(|label| ContentLabel {
                    origin: visible_line(&label.origin),
                    ..label
                }),
                undo: call.undo_id(),
            })),
        }
    }
}

fn started_call(call: &MonitoredCall, process: &LiveProcess) -> StartedCall {
    let (arguments, arguments_truncated) = call.facts.arguments.shown(&call.redactor);
    let (tool, source, location) = match &call.facts.tool {
        CalledTool::Known(tool) => (
            tool.name().to_string(),
            Some(tool.source),
            Some(visible_line(&tool.origin.location)),
        ),
        CalledTool::Unknown(name) => (masked_line(&call.redactor, name.clone()), None, None),
    };
    StartedCall {
        id: call.facts.id.clone(),
        at: timestamp(call.at),
        process: process.clone(),
        session: shown_session(&call.facts.session),
        user: call.facts.user.as_deref().map(visible_line),
        client: (call.facts.client.as_ref())
            .map(|name| masked_line(&call.redactor, name.to_string())),
        tool,
        source,
        location,
        parent: call.facts.parent.clone(),
        arguments,
        arguments_truncated,
        trace: call.trace.as_deref().map(visible_line),
    }
}

fn visible_reasons(evaluation: &PolicyEvaluation) -> Vec<DecisionReason> {
    let mut reasons: Vec<_> = evaluation.reasons().cloned().collect();
    DecisionReason::sort_for_people(&mut reasons);
    let reasons = reasons.iter().take(LiveCallEvent::MAX_REASONS);
    let visible = reasons.map(|reason| DecisionReason {
        rule: visible_line(&reason.rule),
        source: visible_line(&reason.source),
        text: visible_line(&reason.text),
        ..reason.clone()
    });
    visible.collect()
}

fn masked_line(redactor: &Redactor, mut line: String) -> String {
    redactor.mask_text(&mut line);
    visible_line(&line)
}

/// Returns one line without control characters, of bounded length.
fn visible_line(line: &str) -> String {
    cut(text::visible(line), LiveCallEvent::MAX_TEXT).0
}

/// Returns the time to the millisecond.
fn timestamp(time: SystemTime) -> Timestamp {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.round(jiff::Unit::Millisecond).unwrap_or(time)
}
