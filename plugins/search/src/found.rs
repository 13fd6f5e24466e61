//! What a search found, as data and as text.

use std::fmt::Write;

use mimir_sdk::prelude::*;
use mimir_sdk::{pieces, text};

/// Longest line in a result, in bytes: enough to recognise it, whatever a minified file holds.
const LINE_MAX: usize = 400;

/// Most characters of all lines together. Data and text twin each stay below what a host hands on.
const TOTAL_MAX: usize = 60_000;

/// The result of a search.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The matching lines, in the order of path and line; none in `glob` mode.
    pub matches: Vec<Hit>,
    /// The files with matches, or the files whose name matches.
    pub files: Vec<String>,
    /// How many files were looked at.
    pub files_searched: u64,
    /// How many files or directories could not be read.
    pub skipped: u64,
    /// Whether there is more than this.
    pub truncated: bool,
    #[serde(skip)]
    size: usize,
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// The character in the line where the match begins, from 1.
    pub column: u64,
    /// The line's text; of a long one what is around the match.
    pub text: String,
    /// Lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub before: Vec<String>,
    /// Lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub after: Vec<String>,
}

/// A line as a result shows it: without its end, and of a long one the part that `at` is in. It is cut where no secret
/// is, which the host could not mask.
pub fn line(bytes: &[u8], at: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let part = pieces::excerpt(text, at, LINE_MAX);
    let before = if part.start > 0 { "…" } else { "" };
    let after = if part.end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", &text[part])
}

impl Found {
    /// Counts what a result would grow by. Says whether there is still room.
    pub fn has_room(&mut self, more: usize) -> bool {
        self.size += more;
        self.truncated |= self.size > TOTAL_MAX;
        !self.truncated
    }

    /// Puts everything in the order of the paths; a walk comes by in another one.
    pub fn sort(&mut self) {
        self.matches.sort_by(|a, b| a.path.cmp(&b.path));
        self.files.sort_unstable();
    }

    /// The result as a model reads it: like ripgrep's output, with a last line that says what it is.
    pub fn text(&self) -> String {
        let mut twin = String::new();
        let with_context = self
            .matches
            .iter()
            .any(|hit| !hit.before.is_empty() || !hit.after.is_empty());
        for hit in &self.matches {
            let path = text::name(&hit.path);
            let mut put = |line: u64, mark: char, text: &str| {
                // A lone carriage return would begin a line that has no number.
                let text = text.replace('\r', "\\r");
                let _ = writeln!(twin, "{path}{mark}{line}{mark}{text}");
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
                twin.push_str("--\n");
            }
        }
        if self.matches.is_empty() {
            for file in &self.files {
                twin.push_str(&text::name(file));
                twin.push('\n');
            }
        }
        twin + &self.summary()
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
