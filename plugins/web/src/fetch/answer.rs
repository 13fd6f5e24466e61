//! Result of a fetch.

use std::collections::BTreeMap;

use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, serde_json, text};
use serde_json::Value;
use url::Url;

/// Result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Fetched {
    /// URL of the response, after all redirects.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// URLs of the redirects, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<String>,
    /// The response headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The encoding of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
    /// The title of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `markdown` or `text` converted from a page, `raw` as it was sent, `file` for an attached file.
    pub form: Form,
    /// The text, or the requested part of it.
    pub body: String,
    /// Offset at which `body` begins, in characters: at a line or member, at or before the requested one.
    pub offset: usize,
    /// Offset of the next part, unless this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Characters of the whole text, or bytes of the file.
    pub length: usize,
}

/// Form of a body in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Form {
    // Variants without docs make a plain `enum` in the schema.
    #[expect(missing_docs, reason = "see above")]
    Raw,
    #[expect(missing_docs, reason = "see above")]
    Text,
    #[expect(missing_docs, reason = "see above")]
    Markdown,
    #[expect(missing_docs, reason = "see above")]
    File,
}

/// The result, with the file if the body is one.
#[derive(Debug)]
pub struct Answer {
    fetched: Fetched,
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    name: String,
    kind: String,
    data: Vec<u8>,
}

/// Maximum number of headers in the result, and maximum number of characters of a header.
const MAX_HEADERS: usize = 60;
const MAX_HEADER_CHARS: usize = 500;

/// Headers that are shown in the text form of the result.
const SHOWN_HEADERS: [&str; 6] = [
    "content-type",
    "last-modified",
    "location",
    "retry-after",
    "www-authenticate",
    "allow",
];

/// Converts headers to a map. Values of the same name are joined to a list, as HTTP defines.
pub(super) fn headers(all: &[(String, String)]) -> BTreeMap<String, String> {
    let mut map: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in all {
        if map.len() == MAX_HEADERS && !map.contains_key(name) {
            continue;
        }
        let joined = map.entry(name.clone()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(value);
    }
    for value in map.values_mut() {
        if let Some((end, _)) = value.char_indices().nth(MAX_HEADER_CHARS) {
            value.truncate(end);
            value.push('…');
        }
    }
    map
}

impl Fetched {
    /// Selects the part of the text that begins at about `offset` and has about `max_chars` characters.
    pub(super) fn select_part(&mut self, text: &str, offset: usize, max_chars: usize) {
        self.length = text.chars().count();
        let from = char_offset(text, offset);
        let part = pieces::piece(text, from, char_offset(&text[from..], max_chars));
        self.offset = text[..part.start].chars().count();
        self.body = text[part.clone()].to_owned();
        if part.end < text.len() {
            self.next_offset = Some(self.offset + self.body.chars().count());
        }
    }

    /// Formats the result for a model: the status, the source and the text.
    fn text(&self) -> String {
        let mut out = format!("HTTP {} {}\n", self.status, self.url);
        for before in &self.redirects {
            out.push_str(&format!("redirected from {before}\n"));
        }
        for name in SHOWN_HEADERS {
            if let Some(value) = self.headers.get(name) {
                out.push_str(&format!("{name}: {}\n", text::name(value)));
            }
        }
        if let Some(title) = &self.title {
            out.push_str(&format!("title: {}\n", text::name(title)));
        }
        if self.form == Form::File {
            out.push_str(&format!("{} bytes, as a file\n", self.length));
            return out;
        }
        if self.offset > 0 || self.next_offset.is_some() {
            let end = self.next_offset.unwrap_or(self.length);
            out.push_str(&format!(
                "characters {} to {end} of {}",
                self.offset, self.length
            ));
            if let Some(next) = self.next_offset {
                out.push_str(&format!("; the next part has offset {next}"));
            }
            out.push('\n');
        }
        if !self.body.is_empty() {
            out.push('\n');
            out.push_str(&self.body);
        }
        out
    }
}

/// Returns the byte offset of the character with this number.
fn char_offset(text: &str, number: usize) -> usize {
    text.char_indices()
        .nth(number)
        .map_or(text.len(), |(at, _)| at)
}

impl Answer {
    pub(super) fn text(fetched: Fetched) -> Self {
        Self {
            fetched,
            file: None,
        }
    }

    pub(super) fn file(
        mut fetched: Fetched,
        url: &Url,
        kind: Option<String>,
        data: Vec<u8>,
    ) -> Self {
        fetched.length = data.len();
        fetched.offset = 0;
        let kind = kind.as_deref().and_then(|kind| kind.split(';').next());
        let file = File {
            name: file_name(url),
            kind: kind.unwrap_or("application/octet-stream").trim().to_owned(),
            data,
        };
        Self {
            fetched,
            file: Some(file),
        }
    }

    /// Returns the result without the file.
    pub fn fetched(&self) -> &Fetched {
        &self.fetched
    }
}

/// Derives a file name from the last segment of the URL, with characters that are safe on every system.
fn file_name(url: &Url) -> String {
    let last = url.path_segments().and_then(|mut parts| parts.next_back());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = last
        .unwrap_or_default()
        .chars()
        .filter(|c| plain(*c))
        .collect();
    let name = name.trim_start_matches('.');
    // Some file systems refuse longer names.
    let name = &name[name.len().saturating_sub(100)..];
    match name {
        "" => "download".to_owned(),
        name => name.to_owned(),
    }
}

impl IntoOutput for Answer {
    fn schema() -> Option<Value> {
        Worded::<Fetched>::schema()
    }

    fn into_output(self) -> Result<Output> {
        // Text and structured content both contain the body: some clients show a model only one of them.
        let text = self.fetched.text();
        let output = Json(self.fetched).worded(text).into_output()?;
        Ok(match self.file {
            Some(file) => output.artifact(file.name, file.kind, file.data),
            None => output,
        })
    }
}
