//! Makes a result safe to show: its text can no longer control a terminal or contain invisible characters. In
//! structured values, nothing is removed, only escaped.

use crate::error::ToolError;
use crate::outcome::{Content, ToolOutput};
use crate::text;

/// Maximum length of a media type in bytes, which RFC 6838 allows for each of its two parts.
const MIME_MAX: usize = 127;
/// Maximum length of a file name in bytes, as in common file systems.
const NAME_MAX: usize = 255;

/// Escapes the output. Returns true if the structured part has changed.
pub(super) fn escape_output(output: &mut ToolOutput) -> bool {
    for part in &mut output.content {
        match part {
            Content::Text { text } => *text = text::sanitize(std::mem::take(text)),
            Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => {
                normalize_media_type(mime_type)
            }
            Content::File {
                mime_type, name, ..
            } => {
                normalize_media_type(mime_type);
                normalize_file_name(name);
            }
        }
    }
    output.structured.as_mut().is_some_and(text::escape_value)
}

/// Escapes the message, the details and the remedies of an error.
pub(super) fn escape_error(error: &mut ToolError) {
    for line in &mut error.remedies {
        *line = text::visible(line);
    }
    error.message = text::sanitize(std::mem::take(&mut error.message));
    if let Some(details) = &mut error.details {
        text::escape_value(details);
    }
}

/// Replaces a media type that is not `type/subtype` in plain ASCII with the type for arbitrary bytes.
fn normalize_media_type(mime: &mut String) {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&c))
    };
    let is_valid = mime.len() <= MIME_MAX
        && mime
            .split_once('/')
            .is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    if !is_valid {
        "application/octet-stream".clone_into(mime);
    }
}

/// Removes the folders from a file name, so that a client does not save the file elsewhere.
fn normalize_file_name(name: &mut String) {
    let last = name.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let shown = text::visible(last);
    let shown = text::prefix_bytes(shown.trim(), NAME_MAX);
    *name = match shown {
        "" | "." | ".." => "file".to_owned(),
        shown => shown.to_owned(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn escape_output_covers_structured_values_at_any_depth() {
        let mut item = json!({"a\u{202e}b": [{"name": "x\u{9b}31m\u{e0041}\nline"}], "n": 1});
        text::escape_value(&mut item);
        assert_eq!(
            item,
            json!({r"a\u{202e}b": [{"name": "x\\u{9b}31m\\u{e0041}\nline"}], "n": 1})
        );
    }

    #[test]
    fn escape_output_covers_media_types_and_file_names() {
        let shown = |mime: &str, name: &str| {
            let part = Content::File {
                data: vec![],
                mime_type: mime.into(),
                name: name.into(),
            };
            let mut out = ToolOutput {
                content: vec![part],
                ..ToolOutput::default()
            };
            super::escape_output(&mut out);
            match out.content.remove(0) {
                Content::File {
                    mime_type, name, ..
                } => (mime_type, name),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            shown("image/svg+xml", "a b.svg"),
            ("image/svg+xml".into(), "a b.svg".into())
        );
        for mime in [
            "",
            "text",
            "text/html; charset=\u{1b}",
            "a/b/c",
            &"a/".repeat(99),
        ] {
            assert_eq!(shown(mime, "x").0, "application/octet-stream", "{mime:?}");
        }
        for (name, safe) in [
            ("../../.bashrc", ".bashrc"),
            ("..", "file"),
            ("C:\\x\\y.txt", "y.txt"),
            ("a\nb\u{202e}", "a b\\u{202e}"),
        ] {
            assert_eq!(shown("text/plain", name).1, safe);
        }
    }
}
