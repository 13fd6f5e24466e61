//! The tool: finds the format of a document, and returns the requested lines of its Markdown.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, text};

use crate::{open_document, package, pdf, sheets, slides, word};

/// Maximum size of a document in bytes.
const MAX_BYTES: u64 = 32 << 20;

/// Maximum length of the text without requested lines, in bytes. The rest is read by lines.
const MAX_TEXT: usize = 64 << 10;

/// Maximum length of requested lines in bytes.
const MAX_LINES_TEXT: usize = 1 << 20;

/// Reads a PDF or office document as Markdown. Called by read_file and file_operations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadDocument {
    /// The operation of file_operations, which returns the result under `result`.
    pub operation: Option<ReadOperation>,
    /// The document, relative to the workspace root.
    pub path: String,
    /// `utf-8`: the Markdown is text.
    #[serde(default)]
    #[schemars(extend("const" = "utf-8"))]
    pub encoding: Option<String>,
    /// First line of the Markdown, from 1.
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line of the Markdown.
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
}

/// The operation of file_operations that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "variants without docs make a plain `enum` in the schema"
)]
pub enum ReadOperation {
    Read,
}

/// Result in the form of the called tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum ReadResult {
    /// Result of read_file.
    Content(DocumentContent),
    /// Result of file_operations.
    Operation {
        /// The operation.
        operation: ReadOperation,
        /// The content.
        result: DocumentContent,
    },
}

/// The Markdown of a document, in the form of read_file's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentContent {
    /// The document.
    pub path: String,
    /// The Markdown, or the requested lines of it.
    pub content: String,
    /// Always `utf-8`.
    pub encoding: &'static str,
    /// Size of the document in bytes.
    pub size: u64,
    /// Time of the last change, ISO 8601.
    pub modified: String,
    /// The first line in `content`, if it is not all of the Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_line: Option<u64>,
    /// The last line in `content`, if it is not all of the Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u64>,
    /// Number of lines of the Markdown.
    pub total_lines: u64,
}

impl Tool for ReadDocument {
    type Output = Worded<ReadResult>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Read document");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().read(".", "to read the documents of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let start = self.start_line.unwrap_or(1);
        if start == 0 || self.end_line.is_some_and(|end| end < start) {
            return Err(Error::invalid_input(
                "`startLine` and `endLine` are not valid: lines count from 1, and `endLine` must not be before `startLine`",
            ));
        }
        let name = normalize(&self.path)?;
        let (bytes, modified) = read_bytes(&cx.workspace().join(&name), &name)?;
        let size = bytes.len() as u64;
        let markdown = convert(bytes, &name)?;
        // The host detects a private key by its first line, which may not be among the requested lines.
        let markdown = pieces::mask_keys(&markdown);
        let lines = select_lines(&markdown, self.start_line, self.end_line, &name)?;
        let text = lines.text();
        let content = DocumentContent {
            path: name,
            content: lines.content.to_owned(),
            encoding: "utf-8",
            size,
            modified,
            start_line: lines.is_part.then_some(lines.start),
            end_line: lines.is_part.then_some(lines.end),
            total_lines: lines.total,
        };
        let result = match self.operation {
            None => ReadResult::Content(content),
            Some(operation) => ReadResult::Operation {
                operation,
                result: content,
            },
        };
        Ok(Json(result).worded(text))
    }
}

/// Resolves a path in the workspace. Links are resolved by the host, which refuses those that lead out.
fn normalize(written: &str) -> Result<String> {
    let mut path = PathBuf::new();
    let quoted = text::brief(written);
    for part in Path::new(written).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::invalid_path(format_args!(
                    "`{quoted}` leads out of the workspace; paths are relative to its root, such as `docs/report.pdf`"
                )));
            }
        }
    }
    match path.to_str() {
        Some(path) if !path.is_empty() => Ok(path.to_owned()),
        _ => Err(Error::invalid_path(format_args!(
            "`{quoted}` does not name a document"
        ))),
    }
}

/// Reads a document with the time of its last change.
fn read_bytes(path: &Path, name: &str) -> Result<(Vec<u8>, String)> {
    let failed = |error: std::io::Error| Error::io(&error, name);
    let quoted = text::brief(name);
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::invalid_input(format_args!(
            "`{quoted}` is not a regular file; list_directory lists directories"
        )));
    }
    let mut bytes = Vec::new();
    file.by_ref()
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::limit_exceeded(format_args!(
            "`{quoted}` has {} MiB, and documents of at most {} MiB are read; split it, or convert it to text with a command",
            metadata.len() >> 20,
            MAX_BYTES >> 20
        )));
    }
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map(|time| time.to_string())
        .unwrap_or_default();
    Ok((bytes, modified))
}

/// Converts a document to Markdown. The format is recognized by the content, not by the name.
fn convert(bytes: Vec<u8>, name: &str) -> Result<String> {
    let quoted = text::brief(name);
    let fault = |error: ReadError| match error {
        ReadError::Damaged(message) => Error::invalid_input(format_args!(
            "`{quoted}` cannot be read: {message}; `encoding: base64` reads its bytes"
        )),
        ReadError::TooLarge(message) => Error::limit_exceeded(format_args!(
            "`{quoted}` is too large to be read: {message}"
        )),
    };
    // The header of a PDF may follow other bytes.
    let start = &bytes[..bytes.len().min(1024)];
    if start.windows(5).any(|window| window == b"%PDF-") {
        return pdf::to_markdown(&bytes).map_err(fault);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0") {
        if name.to_ascii_lowercase().ends_with(".xls") {
            return sheets::to_markdown(bytes).map_err(fault);
        }
        return Err(fault(ReadError::Damaged(
            "it has the format of Office before 2007, or is encrypted; save it without a password in a current format"
                .to_owned(),
        )));
    }
    let package = package::DocumentPackage::open(&bytes).map_err(fault)?;
    let kind = package.kind();
    let markdown = match kind {
        Some(package::DocumentKind::Word) => word::to_markdown(package),
        Some(package::DocumentKind::Slides) => slides::to_markdown(package),
        Some(package::DocumentKind::OpenDocument) => open_document::to_markdown(package),
        Some(package::DocumentKind::Sheets) => {
            drop(package);
            sheets::to_markdown(bytes)
        }
        None => Err(ReadError::Damaged(
            "it is not a PDF, Word, Excel, PowerPoint or OpenDocument file".to_owned(),
        )),
    };
    markdown.map_err(fault)
}

/// A reason why a document is not read.
#[derive(Debug)]
pub enum ReadError {
    /// The content is not valid, or not supported.
    Damaged(String),
    /// The content needs more than a limit.
    TooLarge(String),
}

/// Selected lines of a text.
struct SelectedLines<'t> {
    content: &'t str,
    start: u64,
    end: u64,
    total: u64,
    is_part: bool,
    is_numbered: bool,
}

fn select_lines<'t>(
    markdown: &'t str,
    start: Option<u64>,
    end: Option<u64>,
    name: &str,
) -> Result<SelectedLines<'t>> {
    let total = markdown.lines().count() as u64;
    let is_numbered = start.is_some() || end.is_some();
    let first = start.unwrap_or(1);
    let quoted = text::brief(name);
    if first > total.max(1) {
        return Err(Error::invalid_input(format_args!(
            "the Markdown of `{quoted}` has only {total} lines"
        )));
    }
    let (mut from, mut to, mut last) = (0, 0, first - 1);
    let limit = if is_numbered {
        MAX_LINES_TEXT
    } else {
        MAX_TEXT
    };
    for (number, line) in (1u64..).zip(markdown.split_inclusive('\n')) {
        if number < first {
            from += line.len();
            to = from;
            continue;
        }
        if end.is_some_and(|end| number > end) {
            break;
        }
        if to + line.len() - from > limit {
            if is_numbered || number == first {
                return Err(Error::limit_exceeded(format_args!(
                    "the lines have more than {limit} bytes; request fewer lines, up to line {}",
                    last.max(first)
                )));
            }
            break;
        }
        to += line.len();
        last = number;
    }
    Ok(SelectedLines {
        content: &markdown[from..to],
        start: first,
        end: last,
        total,
        is_part: is_numbered || last < total,
        is_numbered,
    })
}

impl SelectedLines<'_> {
    /// Returns the lines as text: numbered if they were requested, else with a note about the rest.
    fn text(&self) -> String {
        if self.is_numbered {
            let mut text = String::with_capacity(self.content.len() + 512);
            for (number, line) in (self.start..).zip(self.content.lines()) {
                text.push_str(&format!("{number}|{line}\n"));
            }
            return text;
        }
        if self.end < self.total {
            return format!(
                "{}\n[lines {} to {} of {}; `startLine: {}` continues]\n",
                self.content,
                self.start,
                self.end,
                self.total,
                self.end + 1
            );
        }
        self.content.to_owned()
    }
}
