//! Search results, as data and as text.

use std::fmt::Write;

use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, text};

/// Maximum length of a line in a result, in bytes: enough to recognize the line, even in a minified file.
const MAX_LINE: usize = 400;

/// Maximum size of all lines and paths together, in bytes. Structured content and text each stay below the host's
/// limit.
const MAX_TOTAL: usize = 60_000;

/// The result of a search.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    /// The matching lines, sorted by path and line; empty in `glob` mode.
    pub matches: Vec<LineMatch>,
    /// The files with matches, or in `glob` mode the files whose name matches.
    pub files: Vec<String>,
    /// Number of files searched.
    pub files_searched: u64,
    /// Number of files or directories that could not be read.
    pub skipped: u64,
    /// True if there are more matches.
    pub truncated: bool,
    #[serde(skip)]
    size: usize,
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineMatch {
    /// The file.
    pub path: String,
    /// Line number, from 1.
    pub line: u64,
    /// Column at which the match begins, in characters from 1.
    pub column: u64,
    /// The line's text; for a long line, the part around the match.
    pub text: String,
    /// Lines before the match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub before: Vec<String>,
    /// Lines after the match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub after: Vec<String>,
}

/// Formats a line for a result: without its line break, and for a long line only the part around `at`. The line is not
/// cut inside a secret, because the host could not redact a partial secret.
pub fn line(bytes: &[u8], at: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let part = pieces::excerpt(text, at, MAX_LINE);
    let before = if part.start > 0 { "…" } else { "" };
    let after = if part.end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", &text[part])
}

impl SearchResult {
    /// Reserves bytes for an addition to the result. Returns false, and marks the result as truncated, if they exceed
    /// the limit.
    pub fn reserve(&mut self, more: usize) -> bool {
        self.size += more;
        self.truncated |= self.size > MAX_TOTAL;
        !self.truncated
    }

    /// Sorts matches and files by path, which is not the order of the walk.
    pub fn sort(&mut self) {
        self.matches.sort_by(|a, b| a.path.cmp(&b.path));
        self.files.sort_unstable();
    }

    /// Formats the result for a model: like ripgrep's output, followed by a summary line.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let with_context = self
            .matches
            .iter()
            .any(|hit| !hit.before.is_empty() || !hit.after.is_empty());
        for hit in &self.matches {
            let path = text::name(&hit.path);
            let mut put = |line: u64, mark: char, text: &str| {
                // A lone carriage return would look like a new line without a number.
                let text = text.replace('\r', "\\r");
                let _ = writeln!(out, "{path}{mark}{line}{mark}{text}");
            };
            let first = hit.line - hit.before.len() as u64;
            (first..)
                .zip(&hit.before)
                .for_each(|(line, text)| put(line, '-', text));
            put(hit.line, ':', &hit.text);
            (hit.line + 1..)
                .zip(&hit.after)
                .for_each(|(line, text)| put(line, '-', text));
            if with_context {
                out.push_str("--\n");
            }
        }
        if self.matches.is_empty() {
            for file in &self.files {
                out.push_str(&text::name(file));
                out.push('\n');
            }
        }
        out + &self.summary()
    }

    fn summary(&self) -> String {
        let count =
            |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let mut summary = match (self.matches.len(), self.files.len()) {
            (0, 0) => format!(
                "Nothing found in {}",
                count(self.files_searched as usize, "file", "files")
            ),
            (0, files) => count(files, "file", "files"),
            (matches, files) => {
                format!(
                    "{} in {}",
                    count(matches, "match", "matches"),
                    count(files, "file", "files")
                )
            }
        };
        if self.truncated {
            summary += "; there are more: narrow the search with `path` or `include`, or raise `maxResults`";
        }
        if self.skipped > 0 {
            let _ = write!(summary, "; {} could not be read", self.skipped);
        }
        summary
    }
}
