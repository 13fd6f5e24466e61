//! Masks secrets in the progress, log lines and results of a call.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::approval::Approver;
use crate::backend::BoxFuture;
use crate::call::{CallObserver, CallProgress, LogLevel, LogLine};
use crate::client_name::ClientName;
use crate::command::CommandStream;
use crate::error::{ToolError, ToolErrorCode};
use crate::outcome::{Content, ToolOutput};
use crate::redact::{LineMasker, MaskSummary, Redactor};
use crate::trace_context::TraceContext;
use crate::upstream_request::{UpstreamRequest, UpstreamRequestHandler, UpstreamRequestKind};

mod output_reports;

pub(super) use output_reports::OutputReports;

/// Forwards progress and log lines to another observer, with secrets masked.
pub(super) struct MaskingObserver {
    inner: Arc<dyn CallObserver>,
    redactor: Redactor,
    lines: Mutex<Option<LineMasker<LogLevel>>>,
    reports: Mutex<ReportMaskers>,
    masks: Mutex<MaskSummary>,
    /// The span of the call, if traces are exported.
    span: Option<TraceContext>,
    /// The reports to consoles.
    reports_to_consoles: Option<OutputReports>,
}

/// The maskers of progress reports. Each stream has its own, because output of the other one may arrive between two
/// pieces of a secret.
#[derive(Default)]
struct ReportMaskers {
    stdout: Option<LineMasker<CallProgress>>,
    stderr: Option<LineMasker<CallProgress>>,
    /// For reports that are not output of a program.
    other: Option<LineMasker<CallProgress>>,
}

impl ReportMaskers {
    fn of_stream(
        &mut self,
        stream: Option<CommandStream>,
    ) -> &mut Option<LineMasker<CallProgress>> {
        match stream {
            Some(CommandStream::Stdout) => &mut self.stdout,
            Some(CommandStream::Stderr) => &mut self.stderr,
            None => &mut self.other,
        }
    }
}

impl MaskingObserver {
    pub(super) fn new(
        inner: Arc<dyn CallObserver>,
        redactor: Redactor,
        span: Option<TraceContext>,
        reports_to_consoles: Option<OutputReports>,
    ) -> Self {
        Self {
            inner,
            lines: Mutex::default(),
            reports: Mutex::default(),
            redactor,
            masks: Mutex::default(),
            span,
            reports_to_consoles,
        }
    }

    /// Ends the call: forwards the lines that were held back. Returns the masks of the whole call.
    pub(super) fn finish(&self) -> MaskSummary {
        let lines = self.lines.lock().take();
        if let Some(lines) = lines {
            self.show(lines.finish());
        }
        let mut reports = std::mem::take(&mut *self.reports.lock());
        for stream in [
            Some(CommandStream::Stdout),
            Some(CommandStream::Stderr),
            None,
        ] {
            if let Some(masker) = reports.of_stream(stream).take() {
                self.report(stream, masker.finish());
            }
        }
        std::mem::take(&mut *self.masks.lock())
    }

    fn count(&self, masks: MaskSummary) {
        self.masks.lock().add(masks);
    }

    fn show(&self, (lines, masks): (Vec<(LogLevel, String)>, MaskSummary)) {
        self.count(masks);
        for (level, text) in lines {
            let line = LogLine { level, text };
            if let Some(reports) = &self.reports_to_consoles {
                reports.log(&line);
            }
            self.inner.log(line);
        }
    }

    fn report(
        &self,
        stream: Option<CommandStream>,
        (reports, masks): (Vec<(CallProgress, String)>, MaskSummary),
    ) {
        self.count(masks);
        for (report, text) in reports {
            let report = CallProgress {
                message: Some(text),
                ..report
            };
            self.forward(stream, report);
        }
    }

    fn forward(&self, stream: Option<CommandStream>, report: CallProgress) {
        if let Some(reports) = &self.reports_to_consoles {
            reports.progress(stream, &report);
        }
        match stream {
            Some(stream) => self.inner.output(stream, report),
            None => self.inner.progress(report),
        }
    }

    fn add_report(&self, stream: Option<CommandStream>, mut report: CallProgress) {
        // A message is held back only while it may end with the beginning of a secret that the next one continues.
        match report.message.take() {
            Some(message) => {
                let mut reports = self.reports.lock();
                let complete = reports
                    .of_stream(stream)
                    .get_or_insert_with(|| self.redactor.line_masker())
                    .push(report, message);
                // Forwarded under the lock, so that reports stay in order.
                self.report(stream, complete);
            }
            None => self.forward(None, report),
        }
    }
}

impl CallObserver for MaskingObserver {
    fn progress(&self, progress: CallProgress) {
        self.add_report(None, progress);
    }

    fn output(&self, stream: CommandStream, progress: CallProgress) {
        self.add_report(Some(stream), progress);
    }

    fn log(&self, line: LogLine) {
        let mut lines = self.lines.lock();
        let complete = lines
            .get_or_insert_with(|| self.redactor.line_masker())
            .push(line.level, line.text);
        // Forwarded under the lock, so that lines stay in order.
        self.show(complete);
        drop(lines);
    }

    fn waiting(&self, tool: &str) {
        self.inner.waiting(tool);
    }

    fn approver(&self) -> Option<&dyn Approver> {
        self.inner.approver()
    }

    fn trace_context(&self) -> Option<&TraceContext> {
        self.span.as_ref().or_else(|| self.inner.trace_context())
    }

    fn client_name(&self) -> Option<&ClientName> {
        self.inner.client_name()
    }

    fn upstream_handler(&self) -> Option<&dyn UpstreamRequestHandler> {
        self.inner
            .upstream_handler()
            .map(|_| self as &dyn UpstreamRequestHandler)
    }
}

/// Masks secrets in both directions: in a server's requests to the client, and in the client's responses.
impl UpstreamRequestHandler for MaskingObserver {
    fn supports(&self, kind: UpstreamRequestKind) -> bool {
        self.inner
            .upstream_handler()
            .is_some_and(|client| client.supports(kind))
    }

    fn handle_requests(
        &self,
        mut requests: Vec<UpstreamRequest>,
    ) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        Box::pin(async move {
            let mask = |value: &mut Value| {
                self.count(self.redactor.mask_all([], Some(value)));
            };
            requests
                .iter_mut()
                .for_each(|request| mask(&mut request.params));
            let Some(client) = self.inner.upstream_handler() else {
                let message =
                    "the client that made the call does not support requests from servers";
                return Err(ToolError::new(ToolErrorCode::Unavailable, message));
            };
            let mut answers = client.handle_requests(requests).await?;
            answers.iter_mut().for_each(mask);
            Ok(answers)
        })
    }
}

/// Masks a result. In binary content, only the values of stored secrets are masked. This damages an image that contains
/// a value, which could otherwise leak the secret.
pub(super) fn mask_output(redactor: &Redactor, output: &mut ToolOutput) -> MaskSummary {
    let mut masks = MaskSummary::default();
    for part in &mut output.content {
        match part {
            Content::File { data, .. }
            | Content::Image { data, .. }
            | Content::Audio { data, .. } => {
                masks.add(redactor.mask_bytes(data));
            }
            Content::Text { .. } => {}
        }
    }
    let texts = output.content.iter_mut().filter_map(|part| match part {
        Content::Text { text } => Some(text),
        Content::File { name, .. } => Some(name),
        Content::Image { .. } | Content::Audio { .. } => None,
    });
    masks.add(redactor.mask_all(texts, output.structured.as_mut()));
    masks
}

/// Masks the message and the details of an error.
pub(super) fn mask_error(redactor: &Redactor, error: &mut ToolError) -> MaskSummary {
    redactor.mask_all([&mut error.message], error.details.as_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_covers_image_and_audio_data() {
        let redactor = Redactor::new().with_values([("HOARD", "my-own-hoard-of-gold")]);
        let data = b"\x89PNG my-own-hoard-of-gold".to_vec();
        let mime_type = "image/png".to_owned();
        let content = vec![
            Content::Image {
                data: data.clone(),
                mime_type: mime_type.clone(),
            },
            Content::Audio { data, mime_type },
        ];
        let mut masked = ToolOutput {
            content,
            structured: None,
            exit_code: None,
        };
        assert_eq!(mask_output(&redactor, &mut masked).count(), 2);
        for part in masked.content {
            let (Content::Image { data, .. } | Content::Audio { data, .. }) = part else {
                panic!("{part:?}")
            };
            assert_eq!(data, b"\x89PNG [REDACTED:secret:HOARD]");
        }
    }
}
