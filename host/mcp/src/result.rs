//! Conversion of a call's outcome to an MCP result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::UntrustedMarking;
use mimir_core::outcome::{ToolOutput, TrustLevel};
use mimir_core::untrusted_mark::UntrustedMark;
use mimir_core::{Content, Outcome, Schema, ToolError, ToolErrorCode};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, ResourceContents};
use serde_json::{Value, json};

use crate::client::login_step;
use crate::untrusted_marks::{self, SchemaVocabulary};

/// Key in a result's `_meta` for the code, label and receipt, and for masked and truncated parts, for which MCP has no
/// fields.
pub const OUTCOME_META: &str = "mimir/outcome";

/// Maximum total size of the files in a result, in encoded characters: the default limit of the text
/// (`limits.outputChars`), because clients pass most content to the model as text.
const MAX_FILES_CHARS: usize = 100_000;

/// Maximum size of an image or audio clip in encoded characters: the limit of model providers. A model does not read
/// them as text.
const MAX_MEDIUM_SIZE: usize = 5 << 20;

/// The form of a structured result.
#[derive(Clone, Copy)]
pub(crate) struct StructuredFormat<'a> {
    /// Output schema of the tool, against which clients validate the result.
    pub(crate) schema: Option<&'a Schema>,
    /// Parts of the result in which untrusted content is marked.
    pub(crate) marks: UntrustedMarking,
}

/// Converts the outcome of a call to an MCP result. `login_url` is the URL of the link of mimir in the error, if there is
/// one.
pub(crate) fn to_tool_result(
    outcome: &Outcome,
    structure: StructuredFormat<'_>,
    login_url: Option<&str>,
) -> CallToolResult {
    let mark = untrusted_mark(outcome);
    let mut result = match outcome.result() {
        Ok(output) => success_result(output, mark.as_ref(), structure),
        Err(error) => failure_result(error, mark.as_ref(), login_url),
    };
    let mut meta = JsonObject::new();
    meta.insert(OUTCOME_META.to_owned(), outcome_meta(outcome));
    result.meta = Some(MetaObject(meta));
    result
}

/// Returns the MCP result for a call that has ended without an outcome at this server.
pub(crate) fn error_result(error: &ToolError) -> CallToolResult {
    let mut result = failure_result(error, None, None);
    let mut meta = JsonObject::new();
    let outcome = json!({"code": error.code.as_str(), "details": error.details});
    meta.insert(OUTCOME_META.to_owned(), outcome);
    result.meta = Some(MetaObject(meta));
    result
}

/// Returns the mark for the content of an untrusted outcome, or `None` if the outcome is trusted.
pub(crate) fn untrusted_mark(outcome: &Outcome) -> Option<UntrustedMark> {
    let label = outcome.label();
    (label.trust == TrustLevel::Untrusted).then(|| UntrustedMark::new(&label.origin))
}

fn success_result(
    output: &ToolOutput,
    mark: Option<&UntrustedMark>,
    structure: StructuredFormat<'_>,
) -> CallToolResult {
    let mut content = Vec::new();
    let mut remaining = MAX_FILES_CHARS;
    for part in &output.content {
        if fits(part, &mut remaining) {
            push_block(part, mark, &mut content);
        } else {
            push_text(&omission_note(part), mark, &mut content);
        }
    }
    let has_text = |part: &Content| matches!(part, Content::Text { .. });
    let structured = output.structured.as_ref();
    if let Some(value) = structured
        && !output.content.iter().any(has_text)
    {
        // Most clients pass only the text to their model.
        push_text(&value.to_string(), mark, &mut content);
    }
    let structured = structured.filter(|value| value.is_object());
    match structured.map(|value| structure.structured_content(value, mark)) {
        Some(Ok(shown)) => {
            let mut result = CallToolResult::success(content);
            result.structured_content = shown;
            result
        }
        Some(Err(error)) => {
            let mut result = failure_result(&error, None, None);
            result.content.extend(content);
            result
        }
        None => CallToolResult::success(content),
    }
}

impl StructuredFormat<'_> {
    /// Returns the structured result for clients, some of which pass it to their model instead of the text.
    fn structured_content(
        &self,
        value: &Value,
        mark: Option<&UntrustedMark>,
    ) -> Result<Option<Value>, ToolError> {
        let Some(mark) = mark else {
            return Ok(Some(value.clone()));
        };
        match (self.marks, self.schema) {
            (UntrustedMarking::Minimal, _) => Ok(Some(value.clone())),
            // No schema requires a structured result, and the text contains its content with marks.
            (UntrustedMarking::Text, _) | (UntrustedMarking::All, None) => Ok(None),
            (UntrustedMarking::All, Some(schema)) => {
                let vocabulary = SchemaVocabulary::from_schema(schema.to_value());
                let marked = untrusted_marks::mark_value(value, mark, &vocabulary);
                marked.map(Some).ok_or_else(|| {
                    let message = "the call was made, but its structured result has too many strings to mark each of them: its text follows. Ask for less at a time, or set `mcp: {marks: text}` in the user's settings to get results as text only";
                    ToolError::limit_exceeded(message)
                })
            }
        }
    }
}

/// Marks the content of a resource, in place.
pub(crate) fn mark_resource(contents: &mut ResourceContents, mark: &UntrustedMark) {
    if let ResourceContents::BlobResourceContents {
        uri,
        mime_type: Some(mime_type),
        blob,
        meta,
    } = contents
        && is_text(mime_type)
        && let Ok(data) = STANDARD.decode(blob.trim())
        && let Ok(text) = String::from_utf8(data)
    {
        // Clients decode the blob of a resource with a text type.
        *contents = ResourceContents::TextResourceContents {
            uri: std::mem::take(uri),
            mime_type: Some(std::mem::take(mime_type)),
            text,
            meta: meta.take(),
        };
    }
    if let ResourceContents::TextResourceContents {
        mime_type, text, ..
    } = contents
    {
        *text = mark.around(text);
        // With marks it is no longer valid JSON.
        if mime_type
            .as_ref()
            .is_some_and(|kind| !kind.starts_with("text/"))
        {
            *mime_type = Some("text/plain".to_owned());
        }
    }
}

fn failure_result(
    error: &ToolError,
    mark: Option<&UntrustedMark>,
    login_url: Option<&str>,
) -> CallToolResult {
    let mut content = Vec::new();
    let mut message = error.to_string();
    // The step of the user is mimir's own text. Between the marks, a model would take it for text of the server, and not
    // pass it on.
    let step = login_url.map(login_step);
    if let Some(step) = &step {
        let rest = message.strip_suffix(step.as_str());
        let rest = rest.and_then(|rest| rest.strip_suffix("; "));
        if let Some(rest) = rest.map(str::to_owned) {
            message = rest;
        }
    }
    // A message with the step needs no reference to another one.
    if step.is_none() && !error.remedies.is_empty() {
        // The remedy itself is withheld from the model, which could talk the user into it.
        message.push_str(match error.code {
            ToolErrorCode::ApprovalDenied
            | ToolErrorCode::PolicyDenied
            | ToolErrorCode::PermissionDenied => ". The mimir log tells the user how to allow it.",
            _ => ". The mimir log tells the user what can be done.",
        });
    }
    push_text(&message, mark, &mut content);
    if let Some(step) = step {
        push_text(&format!("mimir: {step}"), None, &mut content);
    }
    if let Some(details) = &error.details {
        push_text(&details.to_string(), mark, &mut content);
    }
    CallToolResult::error(content)
}

/// Returns true if a part can be included. Subtracts the size of a file from `remaining`.
fn fits(part: &Content, remaining: &mut usize) -> bool {
    let base64_size = |data: &[u8]| data.len().div_ceil(3) * 4;
    match part {
        Content::Text { .. } => true,
        Content::Image { data, .. } | Content::Audio { data, .. } => {
            base64_size(data) <= MAX_MEDIUM_SIZE
        }
        Content::File {
            data, mime_type, ..
        } => {
            let size = match file_text(data, mime_type) {
                Some(text) => text.chars().count(),
                None => base64_size(data),
            };
            let rest = remaining.checked_sub(size);
            *remaining = rest.unwrap_or(*remaining);
            rest.is_some()
        }
    }
}

/// Returns the note that replaces a part that is too large.
fn omission_note(part: &Content) -> String {
    let (what, kind, limit) = match part {
        Content::File {
            name, mime_type, ..
        } => {
            let what = format!("the file `{}`", mimir_core::text::visible(name));
            (what, mime_type.as_str(), MAX_FILES_CHARS)
        }
        Content::Image { mime_type, .. } => {
            ("an image".to_owned(), mime_type.as_str(), MAX_MEDIUM_SIZE)
        }
        Content::Audio { mime_type, .. } => (
            "an audio clip".to_owned(),
            mime_type.as_str(),
            MAX_MEDIUM_SIZE,
        ),
        Content::Text { .. } => ("a text".to_owned(), "text/plain", MAX_FILES_CHARS),
    };
    let kind = mimir_core::text::visible(kind);
    let size = part.len();
    format!(
        "[left out: {what} ({kind}, {size} bytes): the limit in a result is {limit} characters. The call was made: ask for a smaller part, or ask your user to run it with `mimir call … --json`, which returns everything]"
    )
}

fn push_text(text: &str, mark: Option<&UntrustedMark>, content: &mut Vec<ContentBlock>) {
    content.push(ContentBlock::text(match mark {
        Some(mark) => mark.around(text),
        None => text.to_owned(),
    }));
}

fn push_block(part: &Content, mark: Option<&UntrustedMark>, content: &mut Vec<ContentBlock>) {
    if let Some(mark) = mark
        && !matches!(part, Content::Text { .. })
    {
        content.push(ContentBlock::text(mark.before()));
    }
    match part {
        Content::Text { text } => push_text(text, mark, content),
        Content::Image { data, mime_type } => {
            content.push(ContentBlock::image(STANDARD.encode(data), mime_type));
        }
        Content::Audio { data, mime_type } => {
            content.push(ContentBlock::audio(STANDARD.encode(data), mime_type));
        }
        Content::File {
            data,
            mime_type,
            name,
        } => content.push(ContentBlock::resource(file_resource(
            data,
            mime_type,
            name,
            content.len(),
        ))),
    }
}

/// Returns a file as an embedded resource, with a URI that is unique only within this result.
fn file_resource(data: &[u8], mime_type: &str, name: &str, index: usize) -> ResourceContents {
    let uri = format!("mimir:///files/{index}/{}", escape_uri_segment(name));
    let text = file_text(data, mime_type);
    let mime_type = Some(mime_type.to_owned());
    match text {
        Some(text) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.to_owned(),
            meta: None,
        },
        None => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: STANDARD.encode(data),
            meta: None,
        },
    }
}

/// Returns the content of a file as text, or `None` if the file is not text.
fn file_text<'a>(data: &'a [u8], mime_type: &str) -> Option<&'a str> {
    let text = is_text(mime_type).then(|| std::str::from_utf8(data).ok());
    text.flatten()
}

fn is_text(mime_type: &str) -> bool {
    let kind = mime_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind,
            "application/json" | "application/xml" | "application/yaml"
        )
}

/// Escapes a name for use as a URI segment.
fn escape_uri_segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

/// Returns the metadata of an outcome: code, label, receipt, and masked or truncated parts.
pub(crate) fn outcome_meta(outcome: &Outcome) -> Value {
    let mut meta = json!({
        "label": outcome.label(),
        "truncated": outcome.truncated(),
        "redactions": outcome.redactions(),
        "receipt": outcome.receipt(),
    });
    match outcome.result() {
        Ok(output) => {
            if let Some(code) = output.exit_code {
                meta["exitCode"] = code.into();
            }
        }
        Err(error) => {
            meta["code"] = error.code.as_str().into();
            if let Some(details) = &error.details {
                meta["details"] = details.clone();
            }
        }
    }
    meta
}
