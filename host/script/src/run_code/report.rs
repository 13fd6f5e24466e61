//! The result of `run_code`, as structured content and as text for a model.

use mimir_core::ToolError;
use mimir_core::command::{CapturedOutput, CommandOutput};
use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::text::sanitize;
use mimir_core::{ToolErrorCode, text};
use mimir_wasm::program::CodeSession;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum length of a stream in structured content, in characters: as in `exec`.
const MAX_STREAM_CHARS: usize = 30_000;

/// Maximum length of both streams as text, in characters: about 10,000 tokens.
const MAX_TEXT_CHARS: usize = 40_000;

/// Result of running code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunReport {
    /// Output on stdout, without terminal escape codes.
    stdout: String,
    /// Output on stderr, without terminal escape codes.
    stderr: String,
    /// Exit code; 128 plus the signal number if a signal killed the process.
    exit_code: i32,
    /// Run time in milliseconds.
    duration: u64,
    /// True if the middle of a stream was left out.
    truncated: bool,
    /// Backend: `wasm`, or the name of the interpreter's sandbox.
    backend: String,
    /// Reason for this backend, or its limitations.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    note: String,
    /// Python session in which the code ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<CodeSession>,
    #[serde(skip)]
    #[schemars(skip)]
    text: String,
}

/// A tool output, which may be truncated.
pub(super) struct RunOutput {
    pub(super) output: ToolOutput,
    /// True if output was left out.
    pub(super) truncated: bool,
}

impl RunReport {
    pub(super) fn new(finished: &CommandOutput, backend: &str, note: String) -> Self {
        let (stdout, stdout_truncated) = truncated_text(&finished.stdout, MAX_STREAM_CHARS);
        let (stderr, stderr_truncated) = truncated_text(&finished.stderr, MAX_STREAM_CHARS);
        let (mut text, _) = truncated_text(&finished.combined, MAX_TEXT_CHARS);
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if finished.exit_code != 0 {
            append_line(&mut text, &format!("exit code {}", finished.exit_code));
        }
        if !note.is_empty() {
            append_line(&mut text, &format!("({note})"));
        }
        Self {
            stdout,
            stderr,
            exit_code: finished.exit_code,
            duration: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            truncated: stdout_truncated || stderr_truncated,
            backend: backend.to_owned(),
            note,
            session: None,
            text,
        }
    }

    /// Adds the session. The text mentions it only if the session began or has ended.
    pub(super) fn in_session(mut self, session: Option<CodeSession>) -> Self {
        if let Some(session) = &session {
            let state = match (session.fresh, session.ended) {
                (_, true) => "has ended",
                (true, false) => "began",
                (false, false) => "continues",
            };
            let status = format!(
                "(the session {} {state}; open sessions: {})",
                session.name,
                if session.open.is_empty() {
                    "none".to_owned()
                } else {
                    session.open.join(", ")
                }
            );
            if session.fresh || session.ended {
                append_line(&mut self.text, &status);
            }
        }
        self.session = session;
        self
    }

    /// Converts the report to a tool output: the text, and the report as structured content.
    pub(super) fn into_output(self) -> Result<RunOutput, ToolError> {
        let structured = serde_json::to_value(&self)
            .map_err(|error| ToolError::new(ToolErrorCode::Internal, error.to_string()))?;
        Ok(RunOutput {
            truncated: self.truncated,
            output: ToolOutput {
                content: vec![Content::text(self.text)],
                structured: Some(structured),
                exit_code: Some(self.exit_code),
            },
        })
    }
}

/// Converts output to sanitized text of about `max_chars` characters, leaving out the middle of longer output. The flag
/// is true if output is missing.
fn truncated_text(captured: &CapturedOutput, max_chars: usize) -> (String, bool) {
    let text = sanitize(String::from_utf8_lossy(&captured.bytes).into_owned());
    let count = text.chars().count();
    if count <= max_chars {
        return (text, captured.omitted_bytes > 0);
    }
    // Two thirds come from the end, where error messages usually are.
    let head = text::prefix(&text, max_chars / 3);
    let skipped = count - (max_chars - max_chars / 3);
    let tail = text
        .char_indices()
        .nth(skipped)
        .map_or("", |(at, _)| &text[at..]);
    let left_out = skipped - max_chars / 3;
    (
        format!("{head}\n[… {left_out} characters left out …]\n{tail}"),
        true,
    )
}

fn append_line(text: &mut String, line: &str) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}
