//! Reports of the masked output of a call to consoles.

use std::sync::Arc;

use crate::approval::Approver;
use crate::audit::RequestOrigin;
use crate::call::{CallObserver, CallProgress, LogLine, RequestId};
use crate::call_monitor::{CallReport, RunningCalls};
use crate::client_name::ClientName;
use crate::command::CommandStream;
use crate::trace_context::TraceContext;
use crate::upstream_request::UpstreamRequestHandler;

/// Reports the output of a call while a console watches.
pub(in crate::pipeline) struct OutputReports {
    calls: Arc<RunningCalls>,
    id: RequestId,
}

impl OutputReports {
    pub(in crate::pipeline) fn new(calls: Arc<RunningCalls>, id: RequestId) -> Self {
        Self { calls, id }
    }

    /// Returns an observer that reports what it receives, which must be masked, and forwards it.
    pub(in crate::pipeline) fn wrap(self, inner: Arc<dyn CallObserver>) -> Arc<dyn CallObserver> {
        Arc::new(ReportingObserver {
            inner,
            reports: self,
        })
    }

    /// Reports progress, or a piece of the output of a program.
    pub(super) fn progress(&self, stream: Option<CommandStream>, progress: &CallProgress) {
        let Some(monitor) = self.calls.watcher() else {
            return;
        };
        let id = self.id.clone();
        monitor.report(match (stream, &progress.message) {
            (Some(stream), Some(text)) => CallReport::output(id, stream, text.clone()),
            _ => CallReport::progress(id, progress.clone()),
        });
    }

    /// Reports a log line.
    pub(super) fn log(&self, line: &LogLine) {
        if let Some(monitor) = self.calls.watcher() {
            let text = line.text.clone();
            monitor.report(CallReport::log(self.id.clone(), line.level, text));
        }
    }
}

/// Forwards everything to another observer, and reports it to consoles.
struct ReportingObserver {
    inner: Arc<dyn CallObserver>,
    reports: OutputReports,
}

impl CallObserver for ReportingObserver {
    fn progress(&self, progress: CallProgress) {
        self.reports.progress(None, &progress);
        self.inner.progress(progress);
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        self.reports.progress(Some(stream), &progress);
        self.inner.output(stream, progress);
    }

    fn log(&self, line: LogLine) {
        self.reports.log(&line);
        self.inner.log(line);
    }

    fn waiting(&self, tool: &str) {
        self.inner.waiting(tool);
    }

    fn approver(&self) -> Option<&dyn Approver> {
        self.inner.approver()
    }

    fn trace(&self) -> Option<&str> {
        self.inner.trace()
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        self.inner.trace_context()
    }

    fn request_origin(&self) -> Option<&RequestOrigin> {
        self.inner.request_origin()
    }

    fn client_name(&self) -> Option<&ClientName> {
        self.inner.client_name()
    }

    fn upstream_handler(&self) -> Option<&dyn UpstreamRequestHandler> {
        self.inner.upstream_handler()
    }
}
