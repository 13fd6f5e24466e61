//! Classification of a body: a page, other text, or binary.

use crate::charset;

/// A decoded body.
#[derive(Debug)]
pub(super) enum Body {
    /// HTML.
    Page { text: String, charset: &'static str },
    /// Any other text.
    Text { text: String, charset: &'static str },
    /// Binary data.
    Binary(Vec<u8>),
}

/// Subtypes of `application` that are text, apart from those that end in `+json` and the like.
const TEXT_SUBTYPES: [&str; 14] = [
    "json",
    "ld+json",
    "jsonl",
    "ndjson",
    "x-ndjson",
    "xml",
    "javascript",
    "ecmascript",
    "yaml",
    "x-yaml",
    "toml",
    "x-sh",
    "sql",
    "x-www-form-urlencoded",
];

/// Decodes a body according to its content type, or to its first bytes if the type is missing.
pub(super) fn decode(bytes: Vec<u8>, content_type: Option<&str>) -> Body {
    let content_type = content_type.unwrap_or_default();
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let essence = essence.trim().to_ascii_lowercase();
    let charset = charset_of(parameters);
    let is_page = match essence.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => looks_like_html(&bytes),
        _ => false,
    };
    if !is_page && !is_text(&essence, &bytes) {
        return Body::Binary(bytes);
    }
    let (text, charset) = charset::decode(&bytes, charset);
    if is_page {
        Body::Page { text, charset }
    } else {
        Body::Text { text, charset }
    }
}

fn is_text(essence: &str, bytes: &[u8]) -> bool {
    match essence.split_once('/') {
        Some(("text" | "message", _)) => true,
        Some(("application", "octet-stream")) | None => {
            std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'))
        }
        Some(("application", subtype)) => {
            let suffix = subtype.rsplit('+').next().unwrap_or_default();
            TEXT_SUBTYPES.contains(&subtype) || matches!(suffix, "json" | "xml" | "yaml")
        }
        Some(("image", "svg+xml")) => true,
        Some(_) => bytes.is_empty(),
    }
}

fn charset_of(parameters: &str) -> Option<&str> {
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches(['"', '\'']))
    })
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]);
    let start = start.trim_start_matches('\u{feff}').trim_start();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}
