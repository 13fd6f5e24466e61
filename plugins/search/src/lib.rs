//! `file_search`: finds text and files in the workspace with ripgrep's own crates.
//!
//! A call of [`file_search`](crate::FileSearch) returns a [`SearchResult`]: `walk` selects the files, `grep` and
//! `glob` search them, and `tree` reads them with few host calls.
//!
//! Out of scope: changing files.

mod glob;
mod grep;
mod results;
mod start;
mod tree;
mod walk;

use mimir_sdk::prelude::*;
use start::SearchStart;
use tree::Folder;

pub use results::{LineMatch, SearchResult};

/// Searches the files of the workspace: `grep` finds a literal text, `regex` a regular expression, `glob` finds
/// files by name. Honours .gitignore, skips binary files. Paths in the result are relative to the workspace root.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct FileSearch {
    /// `grep`: literal text; `regex`: regular expression; `glob`: file names.
    pub mode: Mode,
    /// The text, the regular expression (Rust syntax), or the glob (`*.rs`, `src/**/mod.rs`).
    pub query: String,
    /// Directory or file to search, relative to the workspace root. Default: the whole workspace.
    #[serde(default)]
    pub path: Option<String>,
    /// Only search files that match one of these globs.
    #[serde(default)]
    pub include: Vec<String>,
    /// Skip files that match one of these globs.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Ignore case. Default: false.
    #[serde(default)]
    pub ignore_case: bool,
    /// Search hidden files too. Default: false.
    #[serde(default)]
    pub include_hidden: bool,
    /// Lines of context shown before and after each match. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 10))]
    pub context_lines: u8,
    /// Maximum number of matches, or of files in `glob` mode. Default: 200.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = 2000))]
    pub max_results: usize,
}

/// Kind of search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Mode {
    /// A literal text.
    Grep,
    /// File names.
    Glob,
    /// A regular expression.
    Regex,
}

/// Default number of matches: enough to see the uses of a name.
fn default_results() -> usize {
    200
}

impl Tool for FileSearch {
    type Output = Worded<SearchResult>;
    const GROUP: Group = Group::Fs;
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();
    const TITLE: Option<&'static str> = Some("Search files");

    fn needs() -> Needs {
        Needs::none().read(".", "to search the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        if self.query.is_empty() {
            return Err(Error::invalid_input(
                "the query is empty: expected a text to search for",
            ));
        }
        let root = Folder::root(cx.workspace()).map_err(|error| Error::io(&error, "."))?;
        let start = SearchStart::resolve(&root, self.path.as_deref())?;
        let mut found = match self.mode {
            Mode::Grep | Mode::Regex => grep::search(&self, &root, &start)?,
            Mode::Glob => glob::search(&self, &root, &start)?,
        };
        found.sort();
        let text = found.text();
        Ok(Json(found).worded(text))
    }
}

mimir_sdk::export!(FileSearch);

#[cfg(test)]
mod tests;
