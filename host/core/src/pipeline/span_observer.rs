//! Passes the span of a call on to the process that runs it.

use std::sync::Arc;

use crate::approval::Approver;
use crate::audit::RequestOrigin;
use crate::call::{CallObserver, CallProgress, LogLine};
use crate::client_name::ClientName;
use crate::command::CommandStream;
use crate::trace_context::TraceContext;
use crate::upstream_request::UpstreamRequestHandler;

/// Forwards everything to another observer, and has the trace context of the call's own span.
pub(super) struct SpanObserver {
    inner: Arc<dyn CallObserver>,
    context: TraceContext,
    traceparent: String,
}

impl SpanObserver {
    pub(super) fn new(inner: Arc<dyn CallObserver>, context: TraceContext) -> Self {
        Self {
            inner,
            traceparent: context.traceparent(),
            context,
        }
    }
}

impl CallObserver for SpanObserver {
    fn progress(&self, progress: CallProgress) {
        self.inner.progress(progress);
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        self.inner.output(stream, progress);
    }

    fn log(&self, line: LogLine) {
        self.inner.log(line);
    }

    fn waiting(&self, tool: &str) {
        self.inner.waiting(tool);
    }

    fn approver(&self) -> Option<&dyn Approver> {
        self.inner.approver()
    }

    fn trace(&self) -> Option<&str> {
        Some(&self.traceparent)
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        Some(&self.context)
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
