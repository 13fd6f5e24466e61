//! The calls of a pipeline that wait or run, so that consoles can list and cancel them, and stop sessions.
//!
//! A call that completes at once is registered only while a console watches.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::audit::{OutcomeKind, StopCause};
use crate::call::RequestId;
use crate::call_switch::SessionStops;
use crate::decision::{Decision, PolicyEvaluation};
use crate::outcome::Outcome;
use crate::redact::Redactor;

use super::monitored_call::MonitoredCall;
use super::{CallMonitor, CallReport, LiveCallState, LiveEffect, ReportedArguments};

/// The calls of a pipeline and its views that wait or run.
#[derive(Default)]
pub struct RunningCalls {
    monitor: OnceLock<Arc<dyn CallMonitor>>,
    calls: Mutex<HashMap<RequestId, Arc<MonitoredCall>>>,
    stops: SessionStops,
}

impl RunningCalls {
    /// Returns reports about all calls, for a console that was opened after they had started.
    pub fn reports(&self) -> Vec<CallReport> {
        let calls: Vec<_> = self.calls.lock().values().cloned().collect();
        let reports = calls.into_iter().flat_map(|call| {
            let decided = CallReport::state(&call);
            std::iter::once(CallReport::started(call)).chain(decided)
        });
        reports.collect()
    }

    /// Cancels a call that waits or runs. `by` names the person who does it. Returns false if there is no such call, or if
    /// it was cancelled already.
    pub fn cancel(&self, id: &RequestId, by: &str) -> bool {
        let call = self.calls.lock().get(id).cloned();
        call.is_some_and(|call| call.cancel(by))
    }

    /// Returns the sessions whose calls are refused.
    pub fn stops(&self) -> &SessionStops {
        &self.stops
    }

    /// Sets the monitor. Only the first call has an effect.
    pub(crate) fn set_monitor(&self, monitor: Arc<dyn CallMonitor>) {
        let _ = self.monitor.set(monitor);
    }

    /// Returns true if consoles can be opened.
    pub(crate) fn has_monitor(&self) -> bool {
        self.monitor.get().is_some()
    }

    /// Returns the monitor if a console watches.
    pub(crate) fn watcher(&self) -> Option<&dyn CallMonitor> {
        let monitor = self.monitor.get()?;
        monitor.is_watched().then_some(&**monitor)
    }

    /// Marks a call as waiting for a person, until the guard is dropped.
    pub(crate) fn mark_waiting(&self, id: &RequestId) -> WaitingGuard<'_> {
        let call = self.calls.lock().get(id).cloned();
        let guard = WaitingGuard { calls: self, call };
        guard.set_waiting(true);
        guard
    }
}

impl RunningCalls {
    /// Reports the arguments of a call that a person has edited.
    pub(crate) fn report_edit(
        &self,
        call: &Arc<MonitoredCall>,
        arguments: impl FnOnce() -> ReportedArguments,
    ) {
        if let Some(monitor) = self.watcher() {
            monitor.report(CallReport::edited(Arc::clone(call), arguments()));
        }
    }

    /// Reports changed files of a call. `mask` masks secrets in a path.
    pub(crate) fn report_changed_files(
        &self,
        id: &RequestId,
        has_undo: bool,
        paths: &[String],
        mask: impl Fn(&str) -> String,
    ) {
        let Some(monitor) = self.watcher() else {
            return;
        };
        let Some(call) = self.calls.lock().get(id).cloned() else {
            return;
        };
        if has_undo {
            call.set_undo();
        }
        let now = call.stopwatch.now();
        let report = |what: &str| {
            let subject = format!("changed {what}");
            let (effect, decision) = (LiveEffect::File, Decision::Allow);
            monitor.report(CallReport::effect(
                id.clone(),
                now,
                effect,
                subject,
                decision,
            ));
        };
        for path in paths.iter().take(FILES_MAX) {
            report(&mask(path));
        }
        if let Some(more) = paths.len().checked_sub(FILES_MAX).filter(|more| *more > 0) {
            report(&format!("{more} more files"));
        }
    }
}

/// Maximum number of changed files that are reported one by one.
const FILES_MAX: usize = 50;

/// Marks a call as waiting for a person until it is dropped.
pub(crate) struct WaitingGuard<'a> {
    calls: &'a RunningCalls,
    call: Option<Arc<MonitoredCall>>,
}

impl WaitingGuard<'_> {
    fn set_waiting(&self, is_waiting: bool) {
        let Some(call) = &self.call else {
            return;
        };
        call.set_waiting(is_waiting);
        if let Some(monitor) = self.calls.watcher()
            && let Some(report) = CallReport::state(call)
        {
            monitor.report(report);
        }
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

/// Registers a call while it waits or runs, and reports its steps while a console watches.
pub(crate) struct CallTracker {
    calls: Arc<RunningCalls>,
    registered: OnceLock<Arc<MonitoredCall>>,
    is_finished: bool,
}

impl CallTracker {
    pub(crate) fn new(calls: Arc<RunningCalls>) -> Self {
        Self {
            calls,
            registered: OnceLock::new(),
            is_finished: false,
        }
    }

    /// Returns the calls of the pipeline.
    pub(crate) fn calls(&self) -> &Arc<RunningCalls> {
        &self.calls
    }

    /// Registers the call, unless it is registered already.
    pub(crate) fn register(&self, describe: impl FnOnce() -> MonitoredCall) -> &Arc<MonitoredCall> {
        self.registered.get_or_init(|| {
            let call = Arc::new(describe());
            let mut calls = self.calls.calls.lock();
            calls.insert(call.facts.id.clone(), Arc::clone(&call));
            drop(calls);
            // After the call was added: a console that is opened in between gets a second report, not none.
            if let Some(monitor) = self.calls.watcher() {
                monitor.report(CallReport::started(Arc::clone(&call)));
            }
            call
        })
    }

    /// Returns the call, if it is registered.
    pub(crate) fn registered(&self) -> Option<&Arc<MonitoredCall>> {
        self.registered.get()
    }

    /// Reports the decision of the rules.
    pub(crate) fn report_decision(&self, evaluation: &PolicyEvaluation, redactor: &Redactor) {
        let Some(call) = self.registered.get() else {
            return;
        };
        let rule = evaluation.decisive().map(|reason| reason.rule.clone());
        call.set_decision(evaluation.decision(), rule);
        if let Some(monitor) = self.calls.watcher() {
            let (evaluation, redactor) = (evaluation.clone(), redactor.clone());
            monitor.report(CallReport::decided(
                Arc::clone(call),
                evaluation,
                LiveCallState::Running,
                redactor,
            ));
        }
    }

    /// Reports the end of the call.
    pub(crate) fn finish(mut self, outcome: &Outcome, stop: Option<StopCause>) {
        self.is_finished = true;
        if let Some(monitor) = self.calls.watcher()
            && let Some(call) = self.registered.get()
        {
            let code = outcome.result().err().map(|error| error.code);
            let kind = OutcomeKind::derive(code.is_none(), code, stop);
            monitor.report(CallReport::finished(Arc::clone(call), outcome, kind));
        }
    }
}

impl Drop for CallTracker {
    fn drop(&mut self) {
        let Some(call) = self.registered.take() else {
            return;
        };
        let mut calls = self.calls.calls.lock();
        if calls
            .get(&call.facts.id)
            .is_some_and(|found| Arc::ptr_eq(found, &call))
        {
            calls.remove(&call.facts.id);
        }
        drop(calls);
        if !self.is_finished
            && let Some(monitor) = self.calls.watcher()
        {
            monitor.report(CallReport::cancelled(call));
        }
    }
}
