//! Collects the record of a call while it runs. A call that is dropped before its end is recorded as cancelled.

use std::sync::Arc;
use std::time::Duration;

use crate::approval::Answer;
use crate::audit::{self, AuditError, AuditSink, Event, Kind};
use crate::call::{Call, CallContext, Observer, Parent};
use crate::clock::Watch;
use crate::decision::Evaluation;
use crate::error::{Code, ToolError};
use crate::outcome::Outcome;
use crate::redact::{MaskSummary, Redactor, VaultError};
use crate::registry::Registry;
use crate::tool::Tool;

use super::Ports;
use super::label::Floor;
use super::mask::Masked;

pub(super) struct Trail {
    sink: Option<Arc<dyn AuditSink>>,
    event: Event,
    tool: Option<Arc<Tool>>,
    watch: Watch,
    /// The tool that implements this form of the call.
    same: Option<Arc<Tool>>,
    floor: Arc<Floor>,
    redactor: Redactor,
    /// The error of the vault, if the secrets are not known.
    blind: Option<VaultError>,
    masked: Option<Arc<Masked>>,
}

impl Trail {
    pub(super) fn start(call: &Call, ports: &Ports) -> Self {
        let (redactor, blind) = redactor(ports);
        let mut event = Event::call(ports.clock.now(), &call.context, &call.tool);
        event.parent = call.parent.as_ref().map(|parent| parent.tool.to_string());
        event.bytes_in = Some(weight(&call.arguments));
        event.trace = call.observer.trace().map(str::to_owned);
        if ports.audit.wants_arguments() {
            event.arguments = Some(call.arguments.clone());
        }
        Self {
            sink: Some(Arc::clone(&ports.audit)),
            event,
            tool: None,
            watch: watch(call, ports),
            same: None,
            floor: Arc::default(),
            redactor,
            blind,
            masked: None,
        }
    }

    /// Creates a trail without a record, for a call that is only explained.
    pub(super) fn silent(call: &Call, ports: &Ports) -> Self {
        let (redactor, blind) = redactor(ports);
        Self {
            sink: None,
            event: Event::call(ports.clock.now(), &call.context, &call.tool),
            tool: None,
            watch: watch(call, ports),
            same: None,
            floor: Arc::default(),
            redactor,
            blind,
            masked: None,
        }
    }

    /// Creates the trail of an effect of a tool while its call runs. `subject` names the effect, without its content.
    /// Fails if the secrets are not known.
    pub(super) fn of_effect(
        tool: &Arc<Tool>,
        context: &CallContext,
        parent: &Parent,
        ports: &Ports,
        mut subject: String,
    ) -> Result<Self, ToolError> {
        let redactor = ports.vault.redactor().map_err(|error| {
            let message =
                format!("nothing was sent or run, because secrets could not be masked: {error}");
            ToolError::new(Code::Unavailable, message)
        })?;
        let mut event = Event::of(Kind::Effect, ports.clock.now())
            .in_call(context)
            .of_tool(tool);
        redactor.text(&mut subject);
        event = event.with_subject(&subject);
        event.ok = false;
        Ok(Self {
            sink: Some(Arc::clone(&ports.audit)),
            event,
            tool: Some(Arc::clone(tool)),
            watch: parent.watch.clone(),
            same: None,
            floor: Arc::clone(&parent.floor),
            redactor,
            blind: None,
            masked: None,
        })
    }

    /// Records the result of an effect, before it is carried out.
    pub(super) fn finish_effect(mut self, refused: Option<Code>) -> Result<(), ToolError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.event.ok = refused.is_none();
        self.event.code = refused;
        sink.record(&self.event).map_err(|error| unsent(&error))
    }

    /// Sets the tool, its other form, and the arguments if they are to be recorded.
    pub(super) fn found(
        &mut self,
        tool: &Arc<Tool>,
        same: Option<Arc<Tool>>,
        logs: Option<bool>,
        arguments: &serde_json::Value,
    ) {
        match logs {
            Some(true) => self.event.arguments = Some(arguments.clone()),
            Some(false) => self.event.arguments = None,
            None => {}
        }
        self.event.tool = tool.name().to_string();
        self.event.source = Some(tool.source);
        self.event.digest = Some(tool.origin.digest.clone());
        self.tool = Some(Arc::clone(tool));
        self.same = same;
    }

    pub(super) fn decided(&mut self, evaluation: &Evaluation) {
        self.event.decision = Some(evaluation.decision());
        self.event.rule = evaluation.decisive().map(|reason| reason.rule.clone());
    }

    pub(super) fn answered(&mut self, answer: &Answer, waited: Duration) {
        self.event.answer = Some(answer.as_str());
        self.event.waited_ms = Some(waited.as_millis() as u64);
    }

    /// Records that a stored answer was used.
    pub(super) fn leased(&mut self, which: &'static str) {
        self.event.answer = Some(which);
    }

    /// Records that a person has changed the arguments.
    pub(super) fn edited(&mut self, arguments: &serde_json::Value) {
        self.event.bytes_in = Some(weight(arguments));
        if self.event.arguments.is_some() {
            self.event.arguments = Some(arguments.clone());
        }
    }

    /// Refuses a call whose secrets could not be masked. The error repeats nothing of the call.
    pub(super) fn sighted(&mut self, call: &Call, registry: &Registry) -> Result<(), ToolError> {
        let Some(error) = self.blind.clone() else {
            return Ok(());
        };
        match registry.get(&call.tool) {
            Some(tool) => self.found(tool, None, Some(false), &call.arguments),
            None => {
                self.event.tool = "?".to_owned();
                self.event.arguments = None;
            }
        }
        let message =
            format!("the call was not made, because its result could not be masked: {error}");
        Err(ToolError::new(Code::Unavailable, message))
    }

    /// Refuses a call that could not be recorded, before it takes effect.
    pub(super) fn ready(&self) -> Result<(), ToolError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.ready().map_err(|error| unrecorded(&error))
    }

    /// Records a person's answer, before it takes effect.
    pub(super) fn record(&self, event: &Event) -> Result<(), ToolError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.record(event).map_err(|error| unrecorded(&error))
    }

    /// Returns the redactor of everything that the call returns.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Wraps the observer of the call with a mask. After an edit the same observer is used.
    pub(super) fn watch(
        &mut self,
        observer: Arc<dyn Observer>,
        redactor: Redactor,
    ) -> Arc<dyn Observer> {
        self.redactor = redactor;
        if self.masked.is_some() {
            return observer;
        }
        let masked = Arc::new(Masked::new(observer, self.redactor.clone()));
        self.masked = Some(Arc::clone(&masked));
        masked
    }

    /// Replaces the redactor of the result.
    pub(super) fn mask_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Ends the masked output of the tool. Returns what was masked while it ran.
    pub(super) fn quiet(&self) -> MaskSummary {
        let masked = self.masked.as_ref();
        masked.map_or_else(MaskSummary::default, |masked| masked.finish())
    }

    /// Returns the stopwatch of the call.
    pub(super) fn watch_of_call(&self) -> Watch {
        self.watch.clone()
    }

    /// Returns the run time in milliseconds, as in receipts.
    pub(super) fn spent_ms(&self) -> f64 {
        self.watch.spent().as_secs_f64() * 1000.0
    }

    /// Returns the taint floor of the call, which its nested calls raise.
    pub(super) fn floor(&self) -> Arc<Floor> {
        Arc::clone(&self.floor)
    }

    /// Returns the session of the call.
    pub(super) fn session(&self) -> &str {
        &self.event.session
    }

    /// Returns the tool, and its other form.
    pub(super) fn forms(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tool.iter().chain(&self.same)
    }

    pub(super) fn tool(&self) -> Option<&Arc<Tool>> {
        self.tool.as_ref()
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.event.bytes_in.unwrap_or_default()
    }

    /// Masks the recorded words of the caller: first masked whole, then cut, so that no part of a secret remains. The
    /// name of an unknown tool is chosen by the caller, too.
    fn keep_words(&mut self) {
        if self.tool.is_none() {
            self.redactor.text(&mut self.event.tool);
        }
        if let Some(mut arguments) = self.event.arguments.take() {
            self.redactor.value(&mut arguments);
            self.event.arguments = Some(audit::brief(&arguments));
        }
    }

    /// Records the exceptions from masking that were used.
    fn let_through(&self, sink: &dyn AuditSink) {
        for rule in self.redactor.let_through() {
            let mut event = Event::of(Kind::RedactionException, self.event.time)
                .with_tool(&self.event.tool)
                .with_subject(&rule)
                .with_detail("found and not masked, as `redaction.exceptions` of this tool says");
            event.id.clone_from(&self.event.id);
            event.session.clone_from(&self.event.session);
            // If this cannot be recorded, the event of the call itself fails, too.
            if let Err(error) = sink.record(&event) {
                tracing::error!(%error, "an exception from masking could not be recorded");
            }
        }
    }

    /// Records the end of the call: at once if it is `alone`, else together with those that end at the same time.
    pub(super) async fn finish(
        mut self: Box<Self>,
        outcome: &Outcome,
        alone: bool,
    ) -> Result<(), AuditError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.event.ended(outcome);
        self.keep_words();
        self.let_through(&*sink);
        match alone {
            true => sink.record(&self.event),
            false => sink.record_with_others(&self.event).await,
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            self.event.code = Some(Code::Cancelled);
            self.event.duration_ms = Some(self.spent_ms());
            self.keep_words();
            self.let_through(&*sink);
            if let Err(error) = sink.record(&self.event) {
                tracing::error!(%error, "a cancelled call could not be recorded");
            }
        }
    }
}

/// Starts the stopwatch of a call that has just arrived.
fn watch(call: &Call, ports: &Ports) -> Watch {
    let outer = call.parent.as_ref().map(|parent| &parent.watch);
    Watch::new(Arc::clone(&ports.clock), outer)
}

/// Returns the redactor; if the secrets are not known, the error, too.
fn redactor(ports: &Ports) -> (Redactor, Option<VaultError>) {
    match ports.vault.redactor() {
        Ok(redactor) => (redactor, None),
        Err(error) => (Redactor::new(), Some(error)),
    }
}

/// Creates the error of an effect that was not carried out because it could not be recorded.
pub(super) fn unsent(error: &AuditError) -> ToolError {
    ToolError::new(
        Code::Unavailable,
        format!("nothing was sent or run, because it could not be recorded: {error}"),
    )
}

fn unrecorded(error: &AuditError) -> ToolError {
    ToolError::new(
        Code::Unavailable,
        format!("the call was not made, because it could not be recorded: {error}"),
    )
}

/// Returns the size of the arguments as JSON, in bytes.
fn weight(value: &serde_json::Value) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => 0,
    }
}
