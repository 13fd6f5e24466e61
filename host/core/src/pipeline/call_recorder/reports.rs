//! Reports of a recorded call to consoles, and its registration for cancellation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde_json::Value;

use crate::audit::StopCause;
use crate::call::{Call, CallObserver, RequestId};
use crate::call_monitor::{
    CallFacts, CallReport, CallTracker, CalledTool, LiveEffect, MonitoredCall, ReportedArguments,
    RunningCalls,
};
use crate::client_name::ClientName;
use crate::decision::{Decision, PolicyEvaluation};
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::Outcome;
use crate::pipeline::PipelineSnapshot;
use crate::pipeline::mask::OutputReports;

use super::CallRecorder;

/// The reports of a call to consoles.
pub(in crate::pipeline) struct CallReporter {
    tracker: CallTracker,
    /// The id of the calling tool's call.
    parent: Option<RequestId>,
    /// The name of the program that made the call.
    client: Option<ClientName>,
    /// Reason why the arguments are not shown.
    withheld: Option<&'static str>,
    /// The cause of the call's end, if its error does not tell.
    stop: Option<StopCause>,
}

impl CallReporter {
    /// Creates the reports of a call, and reports its arrival if a console watches.
    pub(super) fn start(
        call: &Call,
        snapshot: &PipelineSnapshot,
        calls: &Arc<RunningCalls>,
        recorder: &CallRecorder,
    ) -> Self {
        let is_unmaskable = recorder.vault_error.is_some();
        let mut reporter = Self {
            tracker: CallTracker::new(Arc::clone(calls)),
            parent: call.parent.as_ref().map(|parent| parent.request_id.clone()),
            client: call.observer.client_name().cloned(),
            withheld: is_unmaskable
                .then_some("not shown, because the secrets to mask could not be read"),
            stop: None,
        };
        if calls.watcher().is_some_and(|monitor| monitor.takes_call()) {
            let tool = snapshot.registry.get(&call.tool);
            if let Some(tool) = tool {
                reporter.set_logging(snapshot.policy.logs_arguments(tool, None));
            }
            let tool = tool.map_or_else(
                || CalledTool::Unknown(call.tool.clone()),
                |tool| CalledTool::Known(Arc::clone(tool)),
            );
            let size = recorder.event.bytes_in;
            let share = || Arc::new(call.arguments.clone());
            let arguments = reporter.arguments(&call.arguments, size, share);
            reporter.tracker.register(|| {
                reporter.describe(recorder, &call.context.request_id, tool, arguments)
            });
        }
        reporter
    }

    /// Notes whether the settings allow to record the arguments.
    pub(super) fn set_logging(&mut self, logs_arguments: Option<bool>) {
        if logs_arguments == Some(false) {
            self.withheld = Some("not shown, because `audit.logArgs` is off for this tool");
        }
    }

    fn arguments(
        &self,
        arguments: &Value,
        size: Option<u64>,
        share: impl FnOnce() -> Arc<Value>,
    ) -> ReportedArguments {
        match self.withheld {
            Some(reason) => ReportedArguments::Withheld(reason),
            None => ReportedArguments::new(arguments, size, share),
        }
    }

    fn describe(
        &self,
        recorder: &CallRecorder,
        id: &RequestId,
        tool: CalledTool,
        arguments: ReportedArguments,
    ) -> MonitoredCall {
        let event = &recorder.event;
        let facts = CallFacts {
            id: id.clone(),
            session: event.session.clone(),
            user: event.user.clone(),
            client: self.client.clone(),
            tool,
            parent: self.parent.clone(),
            arguments,
        };
        MonitoredCall::new(
            facts,
            event.time,
            recorder.stopwatch.clone(),
            recorder.redactor.clone(),
            event.trace.clone(),
        )
    }

    /// Reports the end of the call.
    pub(in crate::pipeline) fn finish(self, outcome: &Outcome) {
        self.tracker.finish(outcome, self.stop);
    }
}

/// The report of an effect to consoles.
pub(super) struct EffectReport {
    calls: Arc<RunningCalls>,
    id: RequestId,
    effect: LiveEffect,
}

impl EffectReport {
    pub(super) fn send(self, at: SystemTime, subject: String, decision: Decision) {
        if let Some(monitor) = self.calls.watcher() {
            let report = CallReport::effect(self.id, at, self.effect, subject, decision);
            monitor.report(report);
        }
    }
}

impl CallRecorder {
    /// Registers the call, so that a person can cancel it, and reports it if a console watches.
    pub(in crate::pipeline) fn register(
        &self,
        arguments: &Arc<Value>,
    ) -> Option<Arc<MonitoredCall>> {
        self.register_with(arguments, || Arc::clone(arguments))
    }

    /// Registers a call whose arguments are only copied if they can be shown.
    pub(in crate::pipeline) fn register_copy(
        &self,
        arguments: &Value,
    ) -> Option<Arc<MonitoredCall>> {
        self.register_with(arguments, || Arc::new(arguments.clone()))
    }

    fn register_with(
        &self,
        arguments: &Value,
        share: impl FnOnce() -> Arc<Value>,
    ) -> Option<Arc<MonitoredCall>> {
        let reporter = self.reporter.as_ref()?;
        if let Some(call) = reporter.tracker.registered() {
            return Some(Arc::clone(call));
        }
        let id = RequestId::parse(&self.event.id)?;
        let call = reporter.tracker.register(|| {
            let tool = match &self.tool {
                Some(tool) => CalledTool::Known(Arc::clone(tool)),
                None => CalledTool::Unknown(self.event.tool.clone()),
            };
            let arguments = reporter.arguments(arguments, self.event.bytes_in, share);
            reporter.describe(self, &id, tool, arguments)
        });
        if let Some(decision) = self.event.decision {
            call.set_decision(decision, self.event.rule.clone());
        }
        Some(Arc::clone(call))
    }

    /// Creates the error of a call that a person has cancelled.
    pub(in crate::pipeline) fn cancelled_error(&self) -> ToolError {
        self.cancelled_error_if(self.may_have_run())
    }

    /// Creates the error of a call that a person has cancelled while another process ran it.
    pub(in crate::pipeline) fn remotely_cancelled_error(&self) -> ToolError {
        self.cancelled_error_if(true)
    }

    fn cancelled_error_if(&self, may_have_run: bool) -> ToolError {
        let registered = self
            .reporter
            .as_ref()
            .and_then(|it| it.tracker.registered());
        match registered {
            Some(call) => call.cancelled_error(may_have_run),
            None => ToolError::new(ToolErrorCode::Cancelled, "the call was cancelled"),
        }
    }

    /// Returns the person who has cancelled the call.
    pub(super) fn cancelled_by(&self) -> Option<String> {
        self.reporter.as_ref()?.tracker.registered()?.cancelled_by()
    }

    /// Reports the decision of the rules to consoles.
    pub(in crate::pipeline) fn report_decision(&self, evaluation: &PolicyEvaluation) {
        if let Some(reporter) = &self.reporter {
            reporter.tracker.report_decision(evaluation, &self.redactor);
        }
    }

    /// Reports the arguments that a person has edited to consoles.
    pub(super) fn report_edit(&self, arguments: &Value) {
        let Some(reporter) = &self.reporter else {
            return;
        };
        if let Some(call) = reporter.tracker.registered() {
            let share = || Arc::new(arguments.clone());
            let size = self.event.bytes_in;
            let reported = || reporter.arguments(arguments, size, share);
            reporter.tracker.calls().report_edit(call, reported);
        }
    }

    /// Returns the reports of output for the observer of a call.
    pub(super) fn output_reports(&self, id: &RequestId) -> Option<OutputReports> {
        let calls = self.reporter.as_ref()?.tracker.calls();
        calls
            .has_monitor()
            .then(|| OutputReports::new(Arc::clone(calls), id.clone()))
    }

    /// Returns an observer that also reports output to consoles, for a call that another process masks.
    pub(in crate::pipeline) fn with_reports(
        &self,
        observer: Arc<dyn CallObserver>,
        id: &RequestId,
    ) -> Arc<dyn CallObserver> {
        match self.output_reports(id) {
            Some(reports) => reports.wrap(observer),
            None => observer,
        }
    }

    /// Takes the reports, to report the end of the call once it is recorded.
    pub(in crate::pipeline) fn take_reporter(&mut self) -> Option<CallReporter> {
        // The person is on record, too.
        if let Some(by) = self.cancelled_by() {
            self.event.detail = Some(format!("cancelled by {by}"));
        }
        let mut reporter = self.reporter.take()?;
        let has_lost_rights = self.has_lost_rights.load(Ordering::Relaxed);
        reporter.stop = (self.event.stop).or(has_lost_rights.then_some(StopCause::LostRights));
        Some(reporter)
    }

    /// Reports the recorded effect to consoles.
    pub(in crate::pipeline) fn report_effect_to(
        &mut self,
        calls: Arc<RunningCalls>,
        id: RequestId,
        effect: LiveEffect,
    ) {
        self.effect_report = Some(EffectReport { calls, id, effect });
    }
}
