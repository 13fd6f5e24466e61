//! Collects the audit record of a call while it runs. A call that is dropped before its end is recorded as cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use crate::approval::ApprovalAnswer;
use crate::audit::{
    self, AuditError, AuditEvent, AuditSink, CallSpan, CanaryDirection, EffectKind, EventKind,
    StopCause,
};
use crate::call::{Call, CallContext, CallObserver, ParentCall, RequestId};
use crate::call_switch::StopNotice;
use crate::clock::Stopwatch;
use crate::decision::{Decision, PolicyEvaluation};
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::Outcome;
use crate::redact::{MaskSummary, Redactor, VaultError};
use crate::registry::Registry;
use crate::text;
use crate::tool::Tool;

use super::approve::{Approved, UsedApproval};
use super::effect::leak::LeakedSecret;
use super::label::TaintFloor;
use super::mask::MaskingObserver;
use super::session::PipelineSessions;
use super::span_observer::SpanObserver;
use super::{Pipeline, PipelinePorts, PipelineSnapshot};

mod reports;

use reports::{CallReporter, EffectReport};

/// Maximum length of the recorded notice that all calls were stopped, in characters.
const STOP_DETAIL_MAX: usize = 300;

/// Maximum length of the recorded subject of a call, in characters.
const CALL_SUBJECT_MAX: usize = 256;

pub(super) struct CallRecorder {
    sink: Option<Arc<dyn AuditSink>>,
    event: AuditEvent,
    tool: Option<Arc<Tool>>,
    stopwatch: Stopwatch,
    /// The fine-grained tool with the same effect, if the call uses the compact form.
    equivalent_tool: Option<Arc<Tool>>,
    taint_floor: Arc<TaintFloor>,
    redactor: Redactor,
    /// The error of the vault, if the secrets could not be read.
    vault_error: Option<VaultError>,
    observer: Option<Arc<MaskingObserver>>,
    /// True if the tool has started, and may change something.
    may_have_run: AtomicBool,
    /// True if the tool was removed or has lost rights while the call waited or ran.
    has_lost_rights: AtomicBool,
    /// The stored approvals by which the call runs.
    used_approvals: Vec<UsedApproval>,
    /// The reports of the call to consoles.
    reporter: Option<CallReporter>,
    /// For an effect: its report to consoles.
    effect_report: Option<EffectReport>,
}

impl CallRecorder {
    /// Starts the record of a call that has arrived.
    pub(super) fn start(call: &Call, snapshot: &PipelineSnapshot, pipeline: &Pipeline) -> Self {
        let ports = &pipeline.0.ports;
        let (redactor, vault_error) = redactor(ports);
        let mut event = AuditEvent::call(ports.clock.now(), &call.context, &call.tool);
        event.role = snapshot.policy.role().map(str::to_owned);
        event.client = recorded_client(call, &redactor, vault_error.as_ref());
        event.parent = call.parent.as_ref().map(|parent| parent.tool.to_string());
        event.bytes_in = Some(json_size(&call.arguments));
        event.trace = call.observer.trace().map(str::to_owned);
        event.span = start_span(&*ports.audit, &*call.observer);
        if let Some(span) = &mut event.span {
            span.origin = call.observer.request_origin().cloned();
        }
        if ports.audit.wants_arguments() {
            event.arguments = Some(call.arguments.clone());
        }
        let mut recorder = Self {
            sink: Some(Arc::clone(&ports.audit)),
            event,
            tool: None,
            stopwatch: start_stopwatch(call, ports),
            equivalent_tool: None,
            taint_floor: Arc::default(),
            redactor,
            vault_error,
            observer: None,
            may_have_run: AtomicBool::new(false),
            has_lost_rights: AtomicBool::new(false),
            used_approvals: Vec::new(),
            reporter: None,
            effect_report: None,
        };
        let reporter = CallReporter::start(call, snapshot, &pipeline.0.running, &recorder);
        recorder.reporter = Some(reporter);
        recorder
    }

    /// Creates a recorder that writes nothing to the audit log, for a call that is only explained.
    pub(super) fn silent(call: &Call, ports: &PipelinePorts) -> Self {
        let (redactor, vault_error) = redactor(ports);
        Self {
            sink: None,
            event: AuditEvent::call(ports.clock.now(), &call.context, &call.tool),
            tool: None,
            stopwatch: start_stopwatch(call, ports),
            equivalent_tool: None,
            taint_floor: Arc::default(),
            redactor,
            vault_error,
            observer: None,
            may_have_run: AtomicBool::new(false),
            has_lost_rights: AtomicBool::new(false),
            used_approvals: Vec::new(),
            reporter: None,
            effect_report: None,
        }
    }

    /// Creates the recorder of an effect of a running call. `subject` names the effect, without its content. Fails if
    /// the secrets cannot be read.
    pub(super) fn for_effect(
        tool: &Arc<Tool>,
        context: &CallContext,
        parent: &ParentCall,
        ports: &PipelinePorts,
        mut subject: String,
    ) -> Result<Self, ToolError> {
        let redactor = ports.vault.redactor().map_err(|error| {
            let message = format!(
                "nothing was sent or run, because the secrets to mask could not be read: {error}"
            );
            ToolError::new(ToolErrorCode::Unavailable, message)
        })?;
        let mut event = AuditEvent::new(EventKind::Effect, ports.clock.now())
            .with_context(context)
            .with_tool_origin(tool);
        redactor.mask_text(&mut subject);
        event = event.with_subject(&subject);
        event.ok = false;
        Ok(Self {
            sink: Some(Arc::clone(&ports.audit)),
            event,
            tool: Some(Arc::clone(tool)),
            stopwatch: parent.stopwatch.clone(),
            equivalent_tool: None,
            taint_floor: Arc::clone(&parent.taint_floor),
            redactor,
            vault_error: None,
            observer: None,
            may_have_run: AtomicBool::new(false),
            has_lost_rights: AtomicBool::new(false),
            used_approvals: Vec::new(),
            reporter: None,
            effect_report: None,
        })
    }

    /// Records the result of an effect, before it is carried out.
    pub(super) fn finish_effect(mut self, refused: Option<ToolErrorCode>) -> Result<(), ToolError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.event.ok = refused.is_none();
        self.event.code = refused;
        sink.record(&self.event)
            .map_err(|error| unrecorded_effect(&error))?;
        if let Some(report) = self.effect_report.take() {
            let decision = match refused {
                Some(_) => Decision::Deny,
                None => self.event.decision.unwrap_or(Decision::Allow),
            };
            let subject = self.event.subject.take().unwrap_or_default();
            report.send(self.event.time, subject, decision);
        }
        Ok(())
    }

    /// Sets the tool and the equivalent tool. `logs_arguments` overrides whether the arguments are recorded.
    pub(super) fn set_tool(
        &mut self,
        tool: &Arc<Tool>,
        equivalent: Option<Arc<Tool>>,
        logs_arguments: Option<bool>,
        arguments: &serde_json::Value,
    ) {
        match logs_arguments {
            Some(true) => self.event.arguments = Some(arguments.clone()),
            Some(false) => self.event.arguments = None,
            None => {}
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.set_logging(logs_arguments);
        }
        self.event.tool = tool.name().to_string();
        self.event.source = Some(tool.source);
        self.event.digest = Some(tool.origin.digest.clone());
        self.tool = Some(Arc::clone(tool));
        self.equivalent_tool = equivalent;
    }

    /// Records the decision and the first rule with that decision, and the untrusted content that the session had read.
    /// An effect names that content only if it was a reason of the decision.
    pub(super) fn record_decision(
        &mut self,
        evaluation: &PolicyEvaluation,
        sessions: &PipelineSessions,
    ) {
        self.event.decision = Some(evaluation.decision());
        self.event.rule = evaluation.decisive().map(|reason| reason.rule.clone());
        self.event.tainted = evaluation.is_tainted();
        if self.event.tainted || self.event.event == EventKind::Call {
            let session = sessions.get(&self.event.session);
            self.event.untrusted_reads = session.untrusted_calls();
        }
    }

    /// Records the method and the origin of a request, or the files, that the arguments of a call name which is asked about
    /// or refused.
    pub(super) fn record_subject(&mut self, mut subject: String) {
        self.redactor.mask_text(&mut subject);
        self.event.subject = Some(text::prefix(&subject, CALL_SUBJECT_MAX).to_owned());
    }

    /// Records that all calls were stopped while the call waited or ran, or before it arrived.
    pub(super) fn record_stop(&mut self, notice: &StopNotice) {
        let was_decided = self.event.decision.is_some();
        self.event.stop = Some(if was_decided {
            StopCause::KillSwitch
        } else {
            StopCause::AllStopped
        });
        let (by, reason) = notice.shown_origin();
        let calls = notice.refused_calls();
        let mut detail = format!("{calls} were stopped by {by}{reason}");
        self.redactor.mask_text(&mut detail);
        self.event.detail = Some(text::prefix(&detail, STOP_DETAIL_MAX).to_owned());
    }

    /// Like [`Self::record_stop`], for a call that another process has begun to run.
    pub(super) fn record_stop_elsewhere(&mut self, notice: &StopNotice) {
        self.record_stop(notice);
        self.event.stop = Some(StopCause::KillSwitch);
    }

    /// Notes that the tool was removed or has lost rights while the call waited or ran.
    pub(super) fn mark_lost_rights(&self) {
        self.has_lost_rights.store(true, Ordering::Relaxed);
    }

    /// Records a person's answer, and adds the time until it was given.
    pub(super) fn record_answer(
        &mut self,
        answer: &ApprovalAnswer,
        waited: Duration,
        now: impl FnOnce() -> SystemTime,
    ) {
        if let Some(span) = &mut self.event.span {
            span.answered_at = Some(now());
        }
        self.event.answer = Some(answer.as_str());
        // Edited arguments are asked about again, so that a call may wait several times.
        let before = self.event.waited_ms.unwrap_or_default();
        self.event.waited_ms = Some(before.saturating_add(waited.as_millis() as u64));
    }

    /// Begins the span of an effect within that of its call, if traces are exported.
    pub(super) fn start_effect_span(&mut self, observer: &dyn CallObserver) {
        if let Some(sink) = &self.sink {
            self.event.span = start_span(&**sink, observer);
        }
    }

    /// Describes an effect for traces.
    pub(super) fn describe_effect(&mut self, describe: impl FnOnce() -> EffectKind) {
        if let Some(span) = &mut self.event.span {
            span.effect = Some(describe());
        }
    }

    /// Notes for traces that the call is passed to its tool at `now`.
    pub(super) fn mark_run(&mut self, now: impl FnOnce() -> SystemTime) {
        if let Some(span) = &mut self.event.span {
            span.run_at = Some(now());
        }
    }

    /// Notes for traces that the tool has ended at `now`, if it ran.
    pub(super) fn mark_ran(&mut self, now: impl FnOnce() -> SystemTime) {
        if let Some(span) = &mut self.event.span
            && span.run_at.is_some()
        {
            span.ran_at = Some(now());
        }
    }

    /// Raises an alarm if the secret that was about to leave is a canary. Returns the error.
    pub(super) fn report_leak(&self, direction: CanaryDirection, leak: LeakedSecret) -> ToolError {
        if self.redactor.is_canary(&leak.name) {
            self.record_canary(direction, &leak.name);
        }
        *leak.error
    }

    /// Raises an alarm for each canary that was masked in the output of the call.
    pub(super) fn report_masked_canaries(&self, masks: &MaskSummary) {
        for name in self.redactor.masked_canaries(masks) {
            self.record_canary(CanaryDirection::Result, name);
        }
    }

    fn record_canary(&self, direction: CanaryDirection, name: &str) {
        let Some(sink) = &self.sink else {
            return;
        };
        let mut event = AuditEvent::new(EventKind::Canary, self.stopwatch.now())
            .with_subject(name)
            .with_detail(direction.describe());
        event.direction = Some(direction);
        event.id.clone_from(&self.event.id);
        event.session.clone_from(&self.event.session);
        event.user.clone_from(&self.event.user);
        event.role.clone_from(&self.event.role);
        // The name of an unknown tool may be anything.
        if self.tool.is_some() {
            event.tool.clone_from(&self.event.tool);
        }
        event.source = self.event.source;
        event.digest.clone_from(&self.event.digest);
        event.trace.clone_from(&self.event.trace);
        if let Err(error) = sink.record(&event) {
            tracing::error!(%error, "the alarm of a canary could not be recorded");
        }
    }

    /// Records that a stored approval of this kind was used.
    pub(super) fn record_remembered_answer(&mut self, kind: &'static str) {
        self.event.answer = Some(kind);
    }

    /// Notes stored approvals by which the call runs.
    pub(super) fn use_approvals(&mut self, approvals: impl IntoIterator<Item = UsedApproval>) {
        self.used_approvals.extend(approvals);
    }

    /// Returns the stored approvals by which the call runs.
    pub(super) fn used_approvals(&self) -> &[UsedApproval] {
        &self.used_approvals
    }

    /// Records that a person has edited the arguments.
    pub(super) fn record_edit(&mut self, arguments: &serde_json::Value) {
        self.event.bytes_in = Some(json_size(arguments));
        if self.event.arguments.is_some() {
            self.event.arguments = Some(arguments.clone());
        }
        self.report_edit(arguments);
    }

    /// Fails if the secrets could not be read and thus not be masked. The error contains no part of the call.
    pub(super) fn check_redactor(
        &mut self,
        call: &Call,
        registry: &Registry,
    ) -> Result<(), ToolError> {
        let Some(error) = self.vault_error.clone() else {
            return Ok(());
        };
        match registry.get(&call.tool) {
            Some(tool) => self.set_tool(tool, None, Some(false), &call.arguments),
            None => {
                self.event.tool = "?".to_owned();
                self.event.arguments = None;
            }
        }
        let message = format!(
            "the call was not made, because the secrets to mask could not be read: {error}"
        );
        Err(ToolError::new(ToolErrorCode::Unavailable, message))
    }

    /// Fails if the call could not be recorded. Call it before the call takes effect.
    pub(super) fn check_ready(&self) -> Result<(), ToolError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.ready().map_err(|error| unrecorded_call(&error))
    }

    /// Announces the call, which is about to reach its tool, so that it has an outcome on record even if this process ends
    /// before it does. Only logs of several processes need it, and only for calls that must not run a second time.
    pub(super) async fn announce(&self, call: &Approved) -> Result<(), ToolError> {
        let tool = call.checked.equivalent_tool.as_ref();
        if tool.unwrap_or(call.tool()).may_run_again() {
            return Ok(());
        }
        if let Some(sink) = self.sink.as_ref().filter(|sink| sink.is_remote()) {
            let mut event = self.event.clone();
            event.arguments = None;
            // On the heap: most logs are files, which need no announcements.
            let announced = Box::pin(async move { sink.announce(&event).await });
            announced.await.map_err(|error| unrecorded_call(&error))?;
        }
        self.may_have_run.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if the tool has started, and may have changed something.
    pub(super) fn may_have_run(&self) -> bool {
        self.may_have_run.load(Ordering::Relaxed)
    }

    /// Takes the log, so that nothing is recorded until [`Self::set_sink`].
    pub(super) fn take_sink(&mut self) -> Option<Arc<dyn AuditSink>> {
        self.sink.take()
    }

    /// Returns the observer of a call that another process runs within the span of this one.
    pub(super) fn with_span(&self, observer: Arc<dyn CallObserver>) -> Arc<dyn CallObserver> {
        match &self.event.span {
            Some(span) => Arc::new(SpanObserver::new(observer, span.context.clone())),
            None => observer,
        }
    }

    /// Shows the log the outcome of a call that another process has recorded.
    pub(super) fn report_elsewhere(&mut self, sink: Option<&dyn AuditSink>, outcome: &Outcome) {
        if let Some(sink) = sink
            && self.event.span.is_some()
        {
            self.event.set_outcome(outcome);
            sink.observe(&self.event);
        }
    }

    /// Puts back the log of [`Self::take_sink`].
    pub(super) fn set_sink(&mut self, sink: Option<Arc<dyn AuditSink>>) {
        self.sink = sink;
    }

    /// Sets the tool of a call that other processes check and run.
    pub(super) fn set_called_tool(&mut self, call: &Call, snapshot: &PipelineSnapshot) {
        if let Some(tool) = snapshot.registry.get(&call.tool) {
            let logs_arguments = snapshot.policy.logs_arguments(tool, None);
            self.set_tool(tool, None, logs_arguments, &call.arguments);
        }
    }

    /// Records a person's answer. Call it before the answer takes effect.
    pub(super) fn record(&self, event: &AuditEvent) -> Result<(), ToolError> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        sink.record(event).map_err(|error| unrecorded_call(&error))
    }

    /// Records an attempt of the call that failed. `detail` says which one it was.
    pub(super) fn record_attempt(
        &self,
        time: SystemTime,
        code: ToolErrorCode,
        detail: &str,
    ) -> Result<(), ToolError> {
        let mut event = AuditEvent::new(EventKind::Attempt, time)
            .with_detail(detail)
            .refused(code);
        event.id.clone_from(&self.event.id);
        event.session.clone_from(&self.event.session);
        event.user.clone_from(&self.event.user);
        event.role.clone_from(&self.event.role);
        event.tool.clone_from(&self.event.tool);
        event.source = self.event.source;
        event.digest.clone_from(&self.event.digest);
        self.record(&event)
    }

    /// Returns the redactor for everything that the call returns.
    pub(super) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Wraps the observer of the call so that it receives masked text only. After an edit of the arguments, the
    /// observer is already wrapped and is returned as is.
    pub(super) fn mask_observer(
        &mut self,
        observer: Arc<dyn CallObserver>,
        redactor: Redactor,
        id: &RequestId,
    ) -> Arc<dyn CallObserver> {
        self.redactor = redactor;
        if self.observer.is_some() {
            return observer;
        }
        let masked = Arc::new(MaskingObserver::new(
            observer,
            self.redactor.clone(),
            self.event.span.as_ref().map(|span| span.context.clone()),
            self.output_reports(id),
        ));
        self.observer = Some(Arc::clone(&masked));
        masked
    }

    /// Replaces the redactor of the result.
    pub(super) fn mask_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Forwards the observer lines that were held back. Returns the masks in all observer output.
    pub(super) fn finish_observer(&self) -> MaskSummary {
        let masked = self.observer.as_ref();
        masked.map_or_else(MaskSummary::default, |masked| masked.finish())
    }

    /// Returns the stopwatch of the call.
    pub(super) fn stopwatch(&self) -> Stopwatch {
        self.stopwatch.clone()
    }

    /// Returns the run time of the call in milliseconds.
    pub(super) fn run_time_ms(&self) -> f64 {
        // To the microsecond: more digits are noise in results and records.
        (self.stopwatch.elapsed().as_secs_f64() * 1_000_000.0).round() / 1000.0
    }

    /// Returns the taint floor of the call, which nested calls raise.
    pub(super) fn taint_floor(&self) -> Arc<TaintFloor> {
        Arc::clone(&self.taint_floor)
    }

    /// Returns the id of the call.
    pub(super) fn id(&self) -> &str {
        &self.event.id
    }

    /// Returns the session of the call.
    pub(super) fn session(&self) -> &str {
        &self.event.session
    }

    /// Returns the tool, and the equivalent tool if there is one.
    pub(super) fn tool_forms(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tool.iter().chain(&self.equivalent_tool)
    }

    pub(super) fn tool(&self) -> Option<&Arc<Tool>> {
        self.tool.as_ref()
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.event.bytes_in.unwrap_or_default()
    }

    /// Masks the text in the record that the caller chose (arguments, and the name of an unknown tool), then truncates
    /// it. Truncating first could leave a part of a secret.
    fn truncate_caller_text(&mut self) {
        if self.tool.is_none() {
            self.redactor.mask_text(&mut self.event.tool);
        }
        if let Some(mut arguments) = self.event.arguments.take() {
            self.redactor.mask_value(&mut arguments);
            self.event.arguments = Some(audit::shorten_arguments(&arguments));
        }
    }

    /// Records the masking exceptions that were used.
    fn record_used_exceptions(&self, sink: &dyn AuditSink) {
        for rule in self.redactor.used_exceptions() {
            let mut event = AuditEvent::new(EventKind::RedactionException, self.event.time)
                .with_tool(&self.event.tool)
                .with_subject(&rule)
                .with_detail(
                    "found and not masked, because of `redaction.exceptions` of this tool",
                );
            event.id.clone_from(&self.event.id);
            event.session.clone_from(&self.event.session);
            // If this fails, recording the call itself fails, too.
            if sink.is_remote() {
                record_later(sink, &event);
            } else if let Err(error) = sink.record(&event) {
                tracing::error!(%error, "a used masking exception could not be recorded");
            }
        }
    }

    /// Records the end of the call: at once if it is `alone`, else together with calls that end at the same time.
    pub(super) async fn finish(
        mut self: Box<Self>,
        outcome: &Outcome,
        alone: bool,
    ) -> Result<(), AuditError> {
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        self.event.set_outcome(outcome);
        if self.has_lost_rights.load(Ordering::Relaxed) && !self.event.ok {
            self.event.stop = Some(StopCause::LostRights);
        }
        self.truncate_caller_text();
        self.record_used_exceptions(&*sink);
        if alone && !sink.is_remote() {
            sink.record(&self.event)
        } else {
            sink.record_with_others(&self.event).await
        }
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            self.event.code = Some(ToolErrorCode::Cancelled);
            self.event.duration_ms = Some(self.run_time_ms());
            self.truncate_caller_text();
            self.record_used_exceptions(&*sink);
            if sink.is_remote() {
                record_later(&*sink, &self.event);
            } else if let Err(error) = sink.record(&self.event) {
                tracing::error!(%error, "a cancelled call could not be recorded");
            }
        }
    }
}

/// Begins a span within that of the request or the call that the observer belongs to, if traces are exported.
fn start_span(sink: &dyn AuditSink, observer: &dyn CallObserver) -> Option<Box<CallSpan>> {
    let parent = observer.trace_context();
    let context = sink.start_span(parent)?;
    Some(Box::new(CallSpan::new(context, parent)))
}

/// Returns the name of the program that makes the call, masked. `None` if it is not known, or cannot be masked.
fn recorded_client(
    call: &Call,
    redactor: &Redactor,
    vault_error: Option<&VaultError>,
) -> Option<String> {
    let name = call.observer.client_name()?;
    if vault_error.is_some() {
        return None;
    }
    let mut text = name.to_string();
    redactor.mask_text(&mut text);
    Some(text)
}

/// Hands an event to a log, without waiting until it is stored.
fn record_later(sink: &dyn AuditSink, event: &AuditEvent) {
    let mut context = Context::from_waker(Waker::noop());
    // The log records the event although the future is dropped.
    let recorded = sink.record_with_others(event).as_mut().poll(&mut context);
    if let Poll::Ready(Err(error)) = recorded {
        tracing::error!(%error, "an event could not be recorded");
    }
}

/// Starts the stopwatch of a new call.
fn start_stopwatch(call: &Call, ports: &PipelinePorts) -> Stopwatch {
    let outer = call.parent.as_ref().map(|parent| &parent.stopwatch);
    Stopwatch::new(Arc::clone(&ports.clock), outer)
}

/// Returns the redactor for all secrets. If the secrets cannot be read: a redactor without them, and the error.
fn redactor(ports: &PipelinePorts) -> (Redactor, Option<VaultError>) {
    match ports.vault.redactor() {
        Ok(redactor) => (redactor, None),
        Err(error) => (Redactor::new(), Some(error)),
    }
}

/// Creates the error for an effect that was not carried out because it could not be recorded.
pub(super) fn unrecorded_effect(error: &AuditError) -> ToolError {
    ToolError::new(
        ToolErrorCode::Unavailable,
        format!("nothing was sent or run, because it could not be recorded: {error}"),
    )
}

fn unrecorded_call(error: &AuditError) -> ToolError {
    ToolError::new(
        ToolErrorCode::Unavailable,
        format!("the call was not made, because it could not be recorded: {error}"),
    )
}

/// Returns the size of the arguments as JSON, in bytes.
fn json_size(value: &serde_json::Value) -> u64 {
    struct SizeCounter(u64);
    impl std::io::Write for SizeCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = SizeCounter(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => 0,
    }
}
