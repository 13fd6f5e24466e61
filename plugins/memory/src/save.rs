//! `memory_save`.

use mimir_sdk::prelude::*;

use crate::folder::{FOLDER, MAX_FILE_SIZE, MAX_FILES, MAX_TOTAL, MemoryFolder};
use crate::lines::{counted, lines};
use crate::name::Name;
use crate::store::{HostStorage, Store};
use crate::taint_marks;

/// Stores a note for later sessions, as Markdown under a name: facts about the project, decisions and why, what the
/// user prefers. `memory_search` finds it again. Store no secrets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct MemorySave {
    /// Name of the memory, such as `build-notes`: letters, digits, `-`, `_` and dots. Use one name for related notes.
    pub name: String,
    /// The text to store.
    pub content: String,
    /// `append` (default) adds it at the end, `replace` overwrites the whole memory.
    #[serde(default)]
    pub mode: Mode,
}

/// Handling of the existing content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Mode {
    /// Keep the old text and append.
    #[default]
    Append,
    /// Overwrite the old text.
    Replace,
}

/// Result of saving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Saved {
    /// Name of the memory.
    pub name: String,
    /// True if the memory did not exist before.
    pub created: bool,
    /// The line at which the new content begins.
    pub start_line: usize,
    /// Number of lines in the memory now.
    pub lines: usize,
}

impl Tool for MemorySave {
    type Output = Worded<Saved>;
    const GROUP: Group = Group::Memory;
    const TITLE: Option<&'static str> = Some("Save memory");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(FOLDER, "to save memories")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        self.save(&MemoryFolder::in_workspace(cx), &HostStorage)
    }
}

impl Assess for MemorySave {
    /// Asks only before a memory is replaced: replacing loses the old text, while appended text can be removed by hand.
    fn assess(&self, cx: &Context) -> Assessment {
        let old =
            Name::parse(&self.name).and_then(|name| MemoryFolder::in_workspace(cx).read(&name));
        match (self.mode, old) {
            (Mode::Replace, Ok(Some(old))) if old != with_line_end(&self.content) => {
                Assessment::ask(format!(
                    "replaces the memory `{}` ({})",
                    mimir_sdk::text::brief(&self.name),
                    counted(lines(&old).count(), "line", "lines")
                ))
                .because("the current text is lost")
            }
            _ => Assessment::allow(format!(
                "adds to the memory `{}`",
                mimir_sdk::text::brief(&self.name)
            )),
        }
    }
}

impl MemorySave {
    pub(crate) fn save(&self, folder: &MemoryFolder, store: &impl Store) -> Result<Worded<Saved>> {
        let name = Name::parse(&self.name)?;
        if self.content.trim().is_empty() {
            return Err(Error::invalid_input(
                "`content` is empty: expected the text to save",
            ));
        }
        let lock = folder.lock()?;
        let old = folder.read(&name)?;
        let preserved = match (&old, self.mode) {
            (Some(old), Mode::Append) => {
                // An append keeps the old text, so this call counts as having read it.
                taint_marks::record_read(store, &name)?;
                with_line_end(old)
            }
            _ => String::new(),
        };
        let content = format!("{preserved}{}", with_line_end(&self.content));
        check_limits(folder, &name, old.as_deref(), &content)?;
        taint_marks::set_mark(store, folder, &name)?;
        folder.write(&name, &content, &lock)?;
        let saved = Saved {
            name: name.to_string(),
            created: old.is_none(),
            start_line: lines(&preserved).count() + 1,
            lines: lines(&content).count(),
        };
        let verb = match (&old, self.mode) {
            (None, _) => "Saved",
            (Some(_), Mode::Append) => "Added to",
            (Some(_), Mode::Replace) => "Replaced",
        };
        let text = format!(
            "{verb} `{name}` ({})",
            counted(saved.lines, "line", "lines")
        );
        Ok(Json(saved).worded(text))
    }
}

/// Adds a line break to the last line of a text if it has none.
fn with_line_end(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

/// Checks the size limits, and that no other memory has a name that differs only in case, which some file systems treat
/// as equal.
fn check_limits(
    folder: &MemoryFolder,
    name: &Name,
    old: Option<&str>,
    content: &str,
) -> Result<()> {
    if content.len() as u64 > MAX_FILE_SIZE {
        return Err(Error::limit_exceeded(format_args!(
            "`{name}` would have {} KB, but a memory may have at most {}; use another name, or replace it with a shorter text",
            content.len().div_ceil(1 << 10),
            MAX_FILE_SIZE >> 10
        )));
    }
    let listing = folder.list()?;
    let similar = listing.entries.iter().find(|entry| {
        let (name, other) = (name.as_str(), entry.name.as_str());
        name != other && name.eq_ignore_ascii_case(other)
    });
    if let Some(similar) = similar {
        return Err(Error::already_exists(format_args!(
            "the name `{name}` differs from the existing memory `{0}` only in case: use `{0}`, or a different name",
            similar.name
        )));
    }
    let count = listing.entries.len() + listing.invalid;
    if old.is_none() && count >= MAX_FILES {
        return Err(Error::limit_exceeded(format_args!(
            "there are {count} memories, but at most {MAX_FILES} are allowed; add to one of them, or ask your user to remove some from {FOLDER}"
        )));
    }
    let total: u64 = listing.entries.iter().map(|entry| entry.size).sum();
    let after = total + content.len() as u64 - old.map_or(0, |old| old.len() as u64).min(total);
    if after > MAX_TOTAL {
        return Err(Error::limit_exceeded(format_args!(
            "all memories together may have at most {} MB; ask your user to remove some from {FOLDER}",
            MAX_TOTAL >> 20
        )));
    }
    Ok(())
}
