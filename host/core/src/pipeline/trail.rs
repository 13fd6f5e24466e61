//! What is remembered of a call while it is under way, for its record. A call that is dropped in the
//! middle is recorded as cancelled.

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
    /// The tool that does only what this call does.
    same: Option<Arc<Tool>>,
    floor: Arc<Floor>,
    redactor: Redactor,
    /// Why it is not known what is secret.
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

    /// A trail that leaves no record, for a call that is only explained.
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

    /// The trail of something that a tool does in the middle of its call. Where it is not known what is secret,
    /// nothing is done. `subject` is what it is about, without its content.
    pub(super) fn of_effect(
        tool: &Arc<Tool>,
        context: &CallContext,
        parent: &Parent,
        ports: &Ports,
        mut subject: String,
    ) -> Result<Self, ToolError> {
        let redactor = ports.vault.redactor().map_err(|error| {
            let message = format!(
                "nothing was sent or run, because what is secret could not be masked: {error}"
            );
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

    /// Records what came of it, before it is done.
    pub(super) fn finish_effect(mut self, refused: Option<Code>) -> Result<(), ToolError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.event.ok = refused.is_none();
        self.event.code = refused;
        sink.record(&self.event).map_err(|error| unsent(&error))
    }

    /// The tool is known, the one that does only what this call does, and whether the arguments are kept, if that
    /// is set for them.
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

    /// A remembered answer counted.
    pub(super) fn leased(&mut self, which: &'static str) {
        self.event.answer = Some(which);
    }

    /// A person has put other arguments in place.
    pub(super) fn edited(&mut self, arguments: &serde_json::Value) {
        self.event.bytes_in = Some(weight(arguments));
        if self.event.arguments.is_some() {
            self.event.arguments = Some(arguments.clone());
        }
    }

    /// Refuses a call whose secrets could not be masked. Nothing that it says is repeated.
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

    /// Records what a person has said on the way, before it takes effect.
    pub(super) fn record(&self, event: &Event) -> Result<(), ToolError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.record(event).map_err(|error| unrecorded(&error))
    }

    /// What is masked in everything that the call says.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Puts a mask before whoever watches the call. After an edit the same one watches.
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

    /// Masks the result with this, too.
    pub(super) fn mask_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// The tool has ended. Gives what was masked while it ran.
    pub(super) fn quiet(&self) -> MaskSummary {
        let masked = self.masked.as_ref();
        masked.map_or_else(MaskSummary::default, |masked| masked.finish())
    }

    /// How long the call has been under way.
    pub(super) fn watch_of_call(&self) -> Watch {
        self.watch.clone()
    }

    /// The same in milliseconds, as receipts have it.
    pub(super) fn spent_ms(&self) -> f64 {
        self.watch.spent().as_secs_f64() * 1000.0
    }

    /// What the nested calls of this one bring in.
    pub(super) fn floor(&self) -> Arc<Floor> {
        Arc::clone(&self.floor)
    }

    /// The session of the call.
    pub(super) fn session(&self) -> &str {
        &self.event.session
    }

    /// The tool, and the one that does only what this call does.
    pub(super) fn forms(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tool.iter().chain(&self.same)
    }

    pub(super) fn tool(&self) -> Option<&Arc<Tool>> {
        self.tool.as_ref()
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.event.bytes_in.unwrap_or_default()
    }

    /// What is kept of the caller's words: masked whole, and cut only then, so that no beginning of a secret
    /// stays. The name of a tool that is not there is the caller's word too.
    fn keep_words(&mut self) {
        if self.tool.is_none() {
            self.redactor.text(&mut self.event.tool);
        }
        if let Some(mut arguments) = self.event.arguments.take() {
            self.redactor.value(&mut arguments);
            self.event.arguments = Some(audit::brief(&arguments));
        }
    }

    /// Puts on record which exceptions from masking have let something through.
    fn let_through(&self, sink: &dyn AuditSink) {
        for rule in self.redactor.let_through() {
            let mut event = Event::of(Kind::RedactionException, self.event.time)
                .with_tool(&self.event.tool)
                .with_subject(&rule)
                .with_detail("found and not masked, as `redaction.exceptions` of this tool says");
            event.id.clone_from(&self.event.id);
            event.session.clone_from(&self.event.session);
            // Where nothing can be recorded, the call's own event says so.
            if let Err(error) = sink.record(&event) {
                tracing::error!(%error, "an exception from masking could not be recorded");
            }
        }
    }

    /// Records the end of the call: at once if it is `alone`, else with those that end at the same time.
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

/// A watch for a call that has just come in.
fn watch(call: &Call, ports: &Ports) -> Watch {
    let outer = call.parent.as_ref().map(|parent| &parent.watch);
    Watch::new(Arc::clone(&ports.clock), outer)
}

/// What is masked, and if that is not known, why.
fn redactor(ports: &Ports) -> (Redactor, Option<VaultError>) {
    match ports.vault.redactor() {
        Ok(redactor) => (redactor, None),
        Err(error) => (Redactor::new(), Some(error)),
    }
}

/// Why something that was to leave the machine in the middle of a call did not.
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

/// The arguments' size as JSON.
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
