//! An outcome in the protocol's words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::config::Marks;
use mimir_core::mark::Mark;
use mimir_core::outcome::{Output, TrustLevel};
use mimir_core::{Code, Content, Outcome, Schema, ToolError};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, ResourceContents};
use serde_json::{Value, json};

use crate::marks::{self, Seen};

/// Where a result's `_meta` has what MCP has no words for: code, label, receipt and what was masked or cut.
pub const OUTCOME_META: &str = "mimir/outcome";

/// Characters of all files of a result together, as they are in it: as many as its text has by default
/// (`limits.outputChars`). Clients put what is in a result before the model, and most of it as text.
const FILES_MOST: usize = 100_000;

/// Characters of one picture or sound, which a model sees and hears and does not read: what the makers of models take.
const MEDIUM_MOST: usize = 5 << 20;

/// The form in which a structured result is sent.
#[derive(Clone, Copy)]
pub(crate) struct Structure<'a> {
    /// The output schema of the tool, which clients hold the result to.
    pub(crate) schema: Option<&'a Schema>,
    /// The untrusted content that is marked.
    pub(crate) marks: Marks,
}

/// The result of a call.
pub(crate) fn result(outcome: &Outcome, structure: Structure<'_>) -> CallToolResult {
    let mark = mark(outcome);
    let mut result = match outcome.result() {
        Ok(output) => success(output, mark.as_ref(), structure),
        Err(error) => failure(error, mark.as_ref()),
    };
    let mut meta = JsonObject::new();
    meta.insert(OUTCOME_META.to_owned(), facts(outcome));
    result.meta = Some(MetaObject(meta));
    result
}

/// The mark of what strangers wrote; none where nobody did.
pub(crate) fn mark(outcome: &Outcome) -> Option<Mark> {
    let label = outcome.label();
    (label.trust == TrustLevel::Untrusted).then(|| Mark::new(&label.origin))
}

fn success(output: &Output, mark: Option<&Mark>, structure: Structure<'_>) -> CallToolResult {
    let mut content = Vec::new();
    let mut room = FILES_MOST;
    for part in &output.content {
        match fits(part, &mut room) {
            true => block(part, mark, &mut content),
            false => text(&left_out(part), mark, &mut content),
        }
    }
    let has_text = |part: &Content| matches!(part, Content::Text { .. });
    let structured = output.structured.as_ref();
    if let Some(value) = structured
        && !output.content.iter().any(has_text)
    {
        // Most clients show a model the text alone.
        text(&value.to_string(), mark, &mut content);
    }
    let structured = structured.filter(|value| value.is_object());
    match structured.map(|value| structure.shown(value, mark)) {
        Some(Ok(shown)) => {
            let mut result = CallToolResult::success(content);
            result.structured_content = shown;
            result
        }
        Some(Err(error)) => {
            let mut result = failure(&error, None);
            result.content.extend(content);
            result
        }
        None => CallToolResult::success(content),
    }
}

impl Structure<'_> {
    /// The structured result as clients get it. Some show their model this and not the text.
    fn shown(&self, value: &Value, mark: Option<&Mark>) -> Result<Option<Value>, ToolError> {
        let Some(mark) = mark else {
            return Ok(Some(value.clone()));
        };
        match (self.marks, self.schema) {
            (Marks::Minimal, _) => Ok(Some(value.clone())),
            // Nothing demands it, and its text is marked.
            (Marks::Text, _) | (Marks::All, None) => Ok(None),
            (Marks::All, Some(schema)) => {
                let seen = Seen::of(schema.to_value());
                let marked = marks::marked(value, mark, &seen);
                marked.map(Some).ok_or_else(|| {
                    let message = "the call was made, but its structured result has too many strings to mark each of them; its text follows. Ask for less at a time; with `mcp: {marks: text}` in the user's settings results are text only";
                    ToolError::new(Code::LimitExceeded, message)
                })
            }
        }
    }
}

/// Marks what was read of a resource, in place.
pub(crate) fn mark_resource(contents: &mut ResourceContents, mark: &Mark) {
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
        // Clients decode what says that it is a text.
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
        // With marks it is not JSON any more.
        if mime_type
            .as_ref()
            .is_some_and(|kind| !kind.starts_with("text/"))
        {
            *mime_type = Some("text/plain".to_owned());
        }
    }
}

fn failure(error: &ToolError, mark: Option<&Mark>) -> CallToolResult {
    let mut content = Vec::new();
    let mut words = error.to_string();
    if !error.way_out.is_empty() {
        // The way itself is not for the model, which would ask for it.
        words.push_str(". Whoever runs mimir reads in its log what would allow it.");
    }
    text(&words, mark, &mut content);
    if let Some(details) = &error.details {
        text(&details.to_string(), mark, &mut content);
    }
    CallToolResult::error(content)
}

/// Whether a part can be handed over; a file takes of the room that is left for files.
fn fits(part: &Content, room: &mut usize) -> bool {
    let packed = |data: &[u8]| data.len().div_ceil(3) * 4;
    match part {
        Content::Text { .. } => true,
        Content::Image { data, .. } | Content::Audio { data, .. } => packed(data) <= MEDIUM_MOST,
        Content::File {
            data, mime_type, ..
        } => {
            let size = match words(data, mime_type) {
                Some(text) => text.chars().count(),
                None => packed(data),
            };
            let left = room.checked_sub(size);
            *room = left.unwrap_or(*room);
            left.is_some()
        }
    }
}

/// What stands in the place of a part that is too large to be handed over.
fn left_out(part: &Content) -> String {
    let (what, kind, most) = match part {
        Content::File {
            name, mime_type, ..
        } => {
            let what = format!("the file `{}`", mimir_core::text::visible(name));
            (what, mime_type.as_str(), FILES_MOST)
        }
        Content::Image { mime_type, .. } => {
            ("a picture".to_owned(), mime_type.as_str(), MEDIUM_MOST)
        }
        Content::Audio { mime_type, .. } => ("a sound".to_owned(), mime_type.as_str(), MEDIUM_MOST),
        Content::Text { .. } => ("a text".to_owned(), "text/plain", FILES_MOST),
    };
    let kind = mimir_core::text::visible(kind);
    let size = part.len();
    format!(
        "[left out: {what} ({kind}, {size} bytes), of which a result holds at most {most} characters. The call was made; ask for a smaller part, or ask your user to run it by `mimir call … --json`, which has all of it]"
    )
}

fn text(text: &str, mark: Option<&Mark>, to: &mut Vec<ContentBlock>) {
    to.push(ContentBlock::text(match mark {
        Some(mark) => mark.around(text),
        None => text.to_owned(),
    }));
}

fn block(part: &Content, mark: Option<&Mark>, to: &mut Vec<ContentBlock>) {
    if let Some(mark) = mark
        && !matches!(part, Content::Text { .. })
    {
        to.push(ContentBlock::text(mark.before()));
    }
    match part {
        Content::Text { text: words } => text(words, mark, to),
        Content::Image { data, mime_type } => {
            to.push(ContentBlock::image(STANDARD.encode(data), mime_type));
        }
        Content::Audio { data, mime_type } => {
            to.push(ContentBlock::audio(STANDARD.encode(data), mime_type));
        }
        Content::File {
            data,
            mime_type,
            name,
        } => to.push(ContentBlock::resource(file(
            data,
            mime_type,
            name,
            to.len(),
        ))),
    }
}

/// A file inside the result. Its address names it in this result and leads nowhere else.
fn file(data: &[u8], mime_type: &str, name: &str, at: usize) -> ResourceContents {
    let uri = format!("mimir:///files/{at}/{}", escaped(name));
    let words = words(data, mime_type);
    let mime_type = Some(mime_type.to_owned());
    match words {
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

/// What a file says, if it is a text.
fn words<'a>(data: &'a [u8], mime_type: &str) -> Option<&'a str> {
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

/// A name as a segment of a URI.
fn escaped(name: &str) -> String {
    let mut all = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                all.push(char::from(byte));
            }
            _ => all.push_str(&format!("%{byte:02X}")),
        }
    }
    all
}

/// What the outcome says beside its content.
pub(crate) fn facts(outcome: &Outcome) -> Value {
    let mut facts = json!({
        "label": outcome.label(),
        "truncated": outcome.truncated(),
        "redactions": outcome.redactions(),
        "receipt": outcome.receipt(),
    });
    match outcome.result() {
        Ok(output) => {
            if let Some(code) = output.exit_code {
                facts["exitCode"] = code.into();
            }
        }
        Err(error) => {
            facts["code"] = error.code.as_str().into();
            if let Some(details) = &error.details {
                facts["details"] = details.clone();
            }
        }
    }
    facts
}
