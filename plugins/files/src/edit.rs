//! `edit_file`.

use std::borrow::Cow;
use std::fs;

use mimir_sdk::prelude::*;
use regex::{Captures, Regex, RegexBuilder};

use crate::backup::{Backup, State, guarded};
use crate::diff::{Diff, Span, diff};
use crate::place::Place;
use crate::walk::Kind;
use crate::write::{kept, target};
use crate::{atomic, words, yes};

/// Largest file that is edited, in bytes: old, new and normalised text are in memory together.
const BYTES_MAX: u64 = 16 << 20;

/// So many lines are named when a pattern is not unique.
const LINES_NAMED: usize = 20;

/// Replaces text in a file. The pattern must match exactly once, unless `all` is true; include enough of the lines
/// around the place to make it unique.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditFile {
    /// The file, relative to the workspace root.
    pub path: String,
    /// The text to replace, exactly as it is in the file; may span lines.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// What to put there. With `regex`, `${1}` stands for the first group.
    pub replacement: String,
    /// `pattern` is a regular expression (Rust syntax; `^` and `$` match at lines).
    #[serde(default)]
    pub regex: bool,
    /// Replace every match.
    #[serde(default)]
    pub all: bool,
    /// Keep the old content, so that `mimir undo` brings it back.
    #[serde(default = "yes")]
    pub backup: bool,
}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edited {
    /// The file.
    pub path: String,
    /// How many matches were replaced.
    pub replacements: usize,
    /// The file's size in bytes.
    pub size: u64,
    /// What changed.
    pub diff: Diff,
    /// The record by which `mimir undo` takes it back.
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
        let (place, there) = target(cx, &self.path)?;
        let Some(there) = there else {
            return Err(missing(&place));
        };
        if there.len() > BYTES_MAX {
            let (size, most) = (words::bytes(there.len()), words::bytes(BYTES_MAX));
            return Err(Error::limit_exceeded(format_args!(
                "{}: {size}, at most {most} are edited",
                place.shown()
            )));
        }
        let bytes = fs::read(place.path()).map_err(|error| place.failed(&error))?;
        let original = String::from_utf8(bytes).map_err(|_| {
            Error::invalid_input(format_args!(
                "`{}` is not UTF-8 text, so it can't be edited",
                place.shown()
            ))
        })?;
        let text = Text::of(&original);
        let (new, spans) = self.replace(&text, &place)?;
        let content = text.restore(&new);
        let replacements = spans.len();
        let changes = diff(place.shown(), &text.plain, &new, &spans);
        let backup = if content == original {
            None
        } else {
            guarded(
                Backup::begin(cx, "edit_file", self.backup)?,
                |backup| backup.change(&place, Some(Kind::File), State::of(content.as_bytes())),
                || atomic::write(&place, content.as_bytes(), Some(&there)),
            )?
        };
        let times = words::counted(replacements as u64, "replacement", "replacements");
        let twin = if content == original {
            format!("{times} in {}, and nothing changed by it", place.shown())
        } else {
            let more = if changes.truncated {
                "… and more\n"
            } else {
                ""
            };
            format!("{times} in {}\n{}{more}", place.shown(), changes.unified)
        };
        let size = content.len() as u64;
        let edited = Edited {
            path: place.shown().to_owned(),
            replacements,
            size,
            diff: changes,
            backup,
        };
        Ok(Json(edited).worded(twin))
    }
}

impl Assess for EditFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let summary = match target(cx, &self.path) {
            Ok((place, Some(there))) => {
                format!("edits {} ({})", place.shown(), words::bytes(there.len()))
            }
            Ok((place, None)) => missing(&place).to_string(),
            Err(error) => error.to_string(),
        };
        kept(
            Assessment::ask(summary),
            self.backup,
            "the old content is lost",
        )
    }
}

fn missing(place: &Place) -> Error {
    Error::file_not_found(format_args!(
        "`{}` does not exist; write_file creates it",
        place.shown()
    ))
}

/// A text with plain line ends, so that a pattern need not know which ones the file has.
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

    /// A pattern or replacement in the same form.
    fn adapt<'p>(&self, text: &'p str) -> Cow<'p, str> {
        if self.crlf && text.contains("\r\n") {
            text.replace("\r\n", "\n").into()
        } else {
            text.into()
        }
    }

    /// Puts the file's own line ends back.
    fn restore(&self, new: &str) -> String {
        if self.crlf {
            new.replace('\n', "\r\n")
        } else {
            new.to_owned()
        }
    }
}

impl EditFile {
    /// The new text and where it differs.
    fn replace(&self, text: &Text<'_>, place: &Place) -> Result<(String, Vec<Span>)> {
        if self.pattern.is_empty() {
            return Err(Error::invalid_input(
                "the pattern is empty; say what to replace",
            ));
        }
        let (pattern, replacement) = (text.adapt(&self.pattern), text.adapt(&self.replacement));
        let source = if self.regex {
            pattern.clone()
        } else {
            regex::escape(&pattern).into()
        };
        let regex = RegexBuilder::new(&source)
            .multi_line(true)
            .build()
            .map_err(|error| Error::invalid_input(format_args!("pattern: {error}")))?;
        let matches = regex
            .find_iter(&text.plain)
            .take(if self.all {
                usize::MAX
            } else {
                LINES_NAMED + 1
            })
            .count();
        match matches {
            0 => return Err(self.not_found(text, place, &pattern)),
            1 => {}
            _ if self.all => {}
            _ => return Err(ambiguous(&regex, text, place)),
        }
        Ok(splice(&regex, &text.plain, &replacement, self.regex))
    }

    fn not_found(&self, text: &Text<'_>, place: &Place, pattern: &str) -> Error {
        let near = near(&text.plain, pattern).filter(|_| !self.regex);
        let hint = near.map_or_else(String::new, |line| {
            format!(
                "; line {line} is the same but for spaces: copy it exactly as it is in the file"
            )
        });
        Error::not_found(format_args!(
            "the pattern does not match anything in `{}`{hint}",
            place.shown()
        ))
    }
}

/// The line at which `pattern` would match if indentation and spaces at the ends of lines didn't count.
fn near(text: &str, pattern: &str) -> Option<usize> {
    let wanted: Vec<&str> = pattern.trim().lines().map(str::trim).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if wanted.is_empty() {
        return None;
    }
    lines
        .windows(wanted.len())
        .position(|window| window == wanted)
        .map(|index| index + 1)
}

fn ambiguous(regex: &Regex, text: &Text<'_>, place: &Place) -> Error {
    let (mut lines, mut line, mut at) = (Vec::new(), 1, 0);
    for found in regex.find_iter(&text.plain).take(LINES_NAMED + 1) {
        line += memchr::memchr_iter(b'\n', &text.plain.as_bytes()[at..found.start()]).count();
        at = found.start();
        lines.push(line);
    }
    let more = lines.len() > LINES_NAMED;
    lines.truncate(LINES_NAMED);
    let named = lines
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let (path, more) = (place.shown(), if more { " and more" } else { "" });
    Error::invalid_input(format_args!(
        "the pattern matches more than once in `{path}`, at lines {named}{more}; include more of the text around the place, or pass `all: true`"
    ))
    .with_details(serde_json::json!({ "lines": lines }))
}

/// Replaces every match and remembers where.
fn splice(regex: &Regex, old: &str, replacement: &str, expand: bool) -> (String, Vec<Span>) {
    let mut new = String::with_capacity(old.len() + replacement.len());
    let (mut spans, mut at) = (Vec::new(), 0);
    let mut put = |range: std::ops::Range<usize>, captures: Option<&Captures<'_>>| {
        new.push_str(&old[at..range.start]);
        let from = new.len();
        match captures {
            Some(captures) => captures.expand(replacement, &mut new),
            None => new.push_str(replacement),
        }
        at = range.end;
        spans.push(Span {
            old: range,
            new: from..new.len(),
        });
    };
    if expand {
        for captures in regex.captures_iter(old) {
            let whole = captures.get_match();
            put(whole.range(), Some(&captures));
        }
    } else {
        regex
            .find_iter(old)
            .for_each(|found| put(found.range(), None));
    }
    new.push_str(&old[at..]);
    (new, spans)
}

#[cfg(test)]
mod tests;
