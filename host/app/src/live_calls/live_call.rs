//! A call as a console shows it: all its events so far, bounded.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use mimir_core::call_monitor::{
    LiveCallEnd, LiveCallEvent, LiveCallState, LiveEffect, StartedCall,
};
use mimir_core::{Decision, DecisionReason, RequestId};
use serde::Serialize;

/// Maximum size of the kept output of a call, in bytes. The end is kept.
const MAX_OUTPUT: usize = 64 << 10;

/// Maximum number of kept effects of a call. The last ones are kept.
const MAX_EFFECTS: usize = 500;

/// A running or recent call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveCall {
    /// The facts at its start.
    #[serde(flatten)]
    pub started: StartedCall,
    /// The state.
    pub state: LiveCallStatus,
    /// The last decision, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<CallDecision>,
    /// The time since which the call is in its state, if it has waited for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The run time before that, in milliseconds, without the time for which the call has waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_ms: Option<f64>,
    /// The arguments that a person has edited, which replace those at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<EditedCallArguments>,
    /// The last effects, oldest first.
    pub effects: VecDeque<LiveCallEffect>,
    /// The number of all effects.
    pub effect_count: u64,
    /// The last progress report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<LiveCallProgress>,
    /// The end of the output: stdout, stderr and log lines in the order of their arrival.
    pub output: String,
    /// True if the beginning of the output was dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub output_truncated: bool,
    /// The end of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<LiveCallEnd>,
}

/// The state of a running or recent call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveCallStatus {
    /// It waits for a person.
    Waiting,
    /// It is checked or runs.
    Running,
    /// It has ended.
    Finished,
    /// Its process has ended or is unreachable, before the call had ended.
    Lost,
}

/// The decision about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallDecision {
    /// The decision of the rules.
    pub decision: Decision,
    /// The rule behind the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reasons of all rules that applied.
    pub reasons: Vec<DecisionReason>,
}

/// Arguments of a call that a person has edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EditedCallArguments {
    /// The masked arguments as JSON, or the reason in parentheses why they are not shown.
    pub arguments: String,
    /// True if the arguments were cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub arguments_truncated: bool,
}

/// An effect of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveCallEffect {
    /// The time.
    pub at: Timestamp,
    /// The kind.
    pub effect: LiveEffect,
    /// The name of the effect, without its content.
    pub subject: String,
    /// The decision.
    pub decision: Decision,
}

/// A progress report of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveCallProgress {
    /// The completed part, in the tool's own unit.
    pub done: u64,
    /// The total, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// A message, on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl LiveCall {
    /// Creates a call that has just started.
    pub(super) fn new(started: StartedCall) -> Self {
        Self {
            started,
            state: LiveCallStatus::Running,
            decided: None,
            since: None,
            ran_ms: None,
            edited: None,
            effects: VecDeque::new(),
            effect_count: 0,
            progress: None,
            output: String::new(),
            output_truncated: false,
            finished: None,
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &RequestId {
        &self.started.id
    }

    /// Returns the run time until `now`, without the time for which the call has waited for a person.
    pub fn run_time(&self, now: Timestamp) -> Duration {
        let milliseconds = |ms: f64| Duration::from_secs_f64(ms.clamp(0.0, 1e12) / 1e3);
        if let Some(finished) = &self.finished {
            return milliseconds(finished.receipt.duration_ms);
        }
        let ran = milliseconds(self.ran_ms.unwrap_or_default());
        match self.state {
            LiveCallStatus::Waiting if self.ran_ms.is_some() => ran,
            _ => ran + elapsed(self.since.unwrap_or(self.started.at), now),
        }
    }

    /// Returns for how long the call has been waiting for a person, if it does.
    pub fn waiting_time(&self, now: Timestamp) -> Option<Duration> {
        let since = self.since.unwrap_or(self.started.at);
        (self.state == LiveCallStatus::Waiting).then(|| elapsed(since, now))
    }

    /// Returns true if the call has ended or is lost.
    pub fn is_over(&self) -> bool {
        matches!(self.state, LiveCallStatus::Finished | LiveCallStatus::Lost)
    }

    /// Adds an event. A call that has ended stays so.
    pub(super) fn apply(&mut self, event: &LiveCallEvent) {
        match event {
            LiveCallEvent::Started(_) => {}
            LiveCallEvent::Decided {
                decision,
                rule,
                reasons,
                state,
                since,
                ran_ms,
                ..
            } => {
                // A report without reasons only changes the state.
                let known = self.decided.take().map(|known| known.reasons);
                let reasons = match known {
                    Some(known) if reasons.is_empty() => known,
                    _ => reasons.clone(),
                };
                self.decided = Some(CallDecision {
                    decision: *decision,
                    rule: rule.clone(),
                    reasons,
                });
                if since.is_some() {
                    (self.since, self.ran_ms) = (*since, *ran_ms);
                }
                if !self.is_over() {
                    self.state = match state {
                        LiveCallState::Waiting => LiveCallStatus::Waiting,
                        LiveCallState::Running => LiveCallStatus::Running,
                    };
                }
            }
            LiveCallEvent::Edited {
                arguments,
                arguments_truncated,
                ..
            } => {
                self.edited = Some(EditedCallArguments {
                    arguments: arguments.clone(),
                    arguments_truncated: *arguments_truncated,
                });
            }
            LiveCallEvent::Effect {
                at,
                effect,
                subject,
                decision,
                ..
            } => {
                if self.effects.len() == MAX_EFFECTS {
                    self.effects.pop_front();
                }
                self.effect_count += 1;
                self.effects.push_back(LiveCallEffect {
                    at: *at,
                    effect: *effect,
                    subject: subject.clone(),
                    decision: *decision,
                });
            }
            LiveCallEvent::Progress {
                done,
                total,
                message,
                ..
            } => {
                self.progress = Some(LiveCallProgress {
                    done: *done,
                    total: *total,
                    message: message.clone(),
                });
            }
            LiveCallEvent::Output { text, .. } => self.add_output(text),
            LiveCallEvent::Finished(finished) => {
                self.state = LiveCallStatus::Finished;
                self.finished = Some((**finished).clone());
            }
            LiveCallEvent::Lost { .. } => {
                if !self.is_over() {
                    self.state = LiveCallStatus::Lost;
                }
            }
        }
    }

    fn add_output(&mut self, text: &str) {
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            self.output.push('\n');
        }
        self.output.push_str(text);
        self.cut_output(MAX_OUTPUT);
    }

    /// Drops the beginning of the output beyond `max` bytes.
    pub(super) fn cut_output(&mut self, max: usize) {
        if let Some(excess) = self
            .output
            .len()
            .checked_sub(max)
            .filter(|excess| *excess > 0)
        {
            // More than necessary, so that not every piece of output moves the rest.
            let from = self.output.ceil_char_boundary(excess + max / 8);
            self.output.drain(..from);
            self.output_truncated = true;
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        const PER_ITEM: usize = 256;
        let effects = self
            .effects
            .iter()
            .map(|effect| effect.subject.len() + PER_ITEM);
        let reasons = self.decided.iter().flat_map(|decided| &decided.reasons);
        let reasons = reasons.map(|reason| reason.text.len() + reason.source.len() + PER_ITEM);
        let finished = self
            .finished
            .as_ref()
            .and_then(|finished| finished.message.as_ref());
        let edited = self.edited.as_ref();
        4 * PER_ITEM
            + self.started.arguments.len()
            + edited.map_or(0, |edited| edited.arguments.len())
            + self.output.len()
            + finished.map_or(0, String::len)
            + effects.sum::<usize>()
            + reasons.sum::<usize>()
    }
}

/// Returns the time between two times, or zero if the clock was set back.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
