//! `edit_file`.

use std::borrow::Cow;
use std::fs;

use mimir_sdk::prelude::*;

use crate::diff::{Diff, diff};
use crate::workspace_path::WorkspacePath;
use crate::write::{target, warn_without_backup};
use crate::{atomic, default_true, formatting, undo_record};

mod matches;

use matches::{Needle, Replaced};

/// Maximum size of an edited file in bytes. The old, new and normalized texts are in memory at the same time.
const MAX_BYTES: u64 = 16 << 20;

/// Maximum number of line numbers listed when a pattern is not unique.
const MAX_LISTED_LINES: usize = 20;

/// Replaces text in a file. The pattern must match exactly once, unless `all` is true; include enough of the
/// surrounding lines to make it unique.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditFile {
    /// The file, relative to the workspace root.
    pub path: String,
    /// The text to replace, exactly as it is in the file; may span lines.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// Replacement text. With `regex`, `${1}` stands for the first group.
    pub replacement: String,
    /// `pattern` is a regular expression (Rust syntax; `^` and `$` match at lines).
    #[serde(default)]
    pub regex: bool,
    /// Replace every match.
    #[serde(default)]
    pub all: bool,
    /// Keep the old content, so that `mimir undo` can restore it.
    #[serde(default = "default_true")]
    pub backup: bool,
}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edited {
    /// The file.
    pub path: String,
    /// Number of matches that were replaced.
    pub replacements: usize,
    /// The file's size in bytes.
    pub size: u64,
    /// Difference between the old and the new text.
    pub diff: Diff,
    /// Id of the record from which `mimir undo` restores the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

impl Tool for EditFile {
    type Output = Worded<Edited>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Edit file");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(".", "to edit the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (location, metadata) = target(cx, &self.path)?;
        let Some(metadata) = metadata else {
            return Err(missing_file_error(&location));
        };
        if metadata.len() > MAX_BYTES {
            let (size, max_size) = (
                formatting::bytes(metadata.len()),
                formatting::bytes(MAX_BYTES),
            );
            return Err(Error::limit_exceeded(format_args!(
                "`{location}` has {size}, but only files of at most {max_size} can be edited"
            )));
        }
        let bytes = fs::read(location.absolute()).map_err(|error| location.io_error(&error))?;
        let original = String::from_utf8(bytes).map_err(|_| {
            Error::invalid_input(format_args!(
                "`{location}` is not UTF-8 text, so it can't be edited"
            ))
        })?;
        let text = Text::of(&original);
        let new = self.replace(&text, &location)?;
        let content = text.restore(&new.text);
        let replacements = new.count;
        let changes = diff(location.exact(), &text.plain, &new.text, &new.spans);
        drop(new);
        let changed = content != original;
        if changed {
            atomic::write(&location, content.as_bytes(), Some(&metadata))?;
        }
        let count_text = formatting::counted(replacements as u64, "replacement", "replacements");
        let summary_text = if !changed {
            format!(
                "{count_text} in {}, which left the file unchanged",
                location.escaped()
            )
        } else {
            let more = if changes.truncated {
                "… and more\n"
            } else {
                ""
            };
            format!(
                "{count_text} in {}\n{}{more}",
                location.escaped(),
                changes.unified
            )
        };
        let size = content.len() as u64;
        let edited = Edited {
            path: location.exact().to_owned(),
            replacements,
            size,
            diff: changes,
            backup: undo_record(cx, self.backup && changed),
        };
        Ok(Json(edited).worded(summary_text))
    }
}

impl Assess for EditFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let summary = match target(cx, &self.path) {
            Ok((location, Some(metadata))) => {
                format!(
                    "edits {} ({})",
                    location.escaped(),
                    formatting::bytes(metadata.len())
                )
            }
            Ok((location, None)) => missing_file_error(&location).to_string(),
            Err(error) => error.to_string(),
        };
        warn_without_backup(
            Assessment::ask(summary),
            self.backup,
            "the old content is lost",
        )
    }
}

fn missing_file_error(location: &WorkspacePath) -> Error {
    Error::file_not_found(format_args!(
        "`{location}` does not exist: create it with write_file"
    ))
}

/// A text with line ends normalized to LF, so that a pattern with LF also matches in a file with CRLF.
struct Text<'a> {
    plain: Cow<'a, str>,
    crlf: bool,
}

impl<'a> Text<'a> {
    fn of(original: &'a str) -> Self {
        let ends = memchr::memchr_iter(b'\n', original.as_bytes()).count();
        let crlf =
            ends > 0 && memchr::memmem::find_iter(original.as_bytes(), "\r\n").count() == ends;
        Self {
            plain: if crlf {
                original.replace("\r\n", "\n").into()
            } else {
                original.into()
            },
            crlf,
        }
    }

    /// Normalizes the line ends of a pattern or replacement in the same way.
    fn adapt<'p>(&self, text: &'p str) -> Cow<'p, str> {
        if self.crlf && text.contains("\r\n") {
            text.replace("\r\n", "\n").into()
        } else {
            text.into()
        }
    }

    /// Restores the file's own line ends.
    fn restore(&self, new: &str) -> String {
        if self.crlf {
            new.replace('\n', "\r\n")
        } else {
            new.to_owned()
        }
    }
}

impl EditFile {
    /// Returns the new text and the positions that differ.
    fn replace(&self, text: &Text<'_>, location: &WorkspacePath) -> Result<Replaced> {
        if self.pattern.is_empty() {
            return Err(Error::invalid_input(
                "the pattern is empty: expected the text to replace",
            ));
        }
        let (pattern, replacement) = (text.adapt(&self.pattern), text.adapt(&self.replacement));
        let needle = Needle::new(&pattern, self.regex)?;
        let mut found = needle.ranges(&text.plain);
        if found.next().is_none() {
            let hint = matches::hint(&text.plain, &pattern).filter(|_| !self.regex);
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            return Err(Error::not_found(format_args!(
                "the pattern does not match anything in `{location}`{hint}"
            )));
        }
        if !self.all && found.next().is_some() {
            return Err(ambiguous_match_error(&needle, text, location));
        }
        needle.replace(&text.plain, &replacement)
    }
}

/// Returns the error for a pattern with several matches, with the lines of the matches.
fn ambiguous_match_error(needle: &Needle<'_>, text: &Text<'_>, location: &WorkspacePath) -> Error {
    let (mut lines, mut line, mut at) = (Vec::new(), 1, 0);
    for found in needle.ranges(&text.plain).take(MAX_LISTED_LINES + 1) {
        line += memchr::memchr_iter(b'\n', &text.plain.as_bytes()[at..found.start]).count();
        at = found.start;
        lines.push(line);
    }
    let more = if lines.len() > MAX_LISTED_LINES {
        " and more"
    } else {
        ""
    };
    lines.truncate(MAX_LISTED_LINES);
    let line_list = lines
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    Error::invalid_input(format_args!(
        "the pattern matches more than once in `{location}`, at lines {line_list}{more}; include more of the surrounding text, or pass `all: true`"
    ))
    .with_details(serde_json::json!({ "lines": lines }))
}

#[cfg(test)]
mod tests;
