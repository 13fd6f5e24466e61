//! `memory_get`.

use mimir_sdk::prelude::*;

use crate::folder::{FOLDER, MemoryFolder};
use crate::lines::{counted, lines, without_key_material};
use crate::name::Name;
use crate::store::{HostStorage, Store};
use crate::taint_marks;

/// Reads a memory that was saved before; without a name, lists all memories.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub struct MemoryGet {
    /// Name of the memory, such as `build-notes`. Default: lists all memories.
    #[serde(default)]
    pub name: Option<String>,
    /// First line to read, from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub start_line: Option<usize>,
    /// Last line to read.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub end_line: Option<usize>,
}

/// One memory, or the list of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Got {
    /// The requested memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Content>,
    /// All memories, if no name was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memories: Option<Vec<Listed>>,
}

/// Content of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Content {
    /// Name of the memory.
    pub name: String,
    /// The requested lines.
    pub content: String,
    /// Line number of the first requested line, from 1.
    pub start_line: usize,
    /// Number of lines in the memory.
    pub lines: usize,
}

/// A memory in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Listed {
    /// Name of the memory.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, ISO 8601.
    pub modified: String,
}

impl Tool for MemoryGet {
    type Output = Worded<Got>;
    const GROUP: Group = Group::Memory;
    const TITLE: Option<&'static str> = Some("Read memory");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().read(FOLDER, "to read the saved memories")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        self.get(&MemoryFolder::in_workspace(cx), &HostStorage)
    }
}

impl MemoryGet {
    pub(crate) fn get(&self, folder: &MemoryFolder, store: &impl Store) -> Result<Worded<Got>> {
        match &self.name {
            Some(name) => self.get_lines(&Name::parse(name)?, folder, store),
            None if self.start_line.is_some() || self.end_line.is_some() => Err(
                Error::invalid_input("`startLine` and `endLine` need a `name`"),
            ),
            None => list(folder, store),
        }
    }

    fn get_lines(
        &self,
        name: &Name,
        folder: &MemoryFolder,
        store: &impl Store,
    ) -> Result<Worded<Got>> {
        let Some(text) = folder.read(name)? else {
            return Err(not_found(name, folder, store)?);
        };
        taint_marks::record_read(store, name)?;
        let count = lines(&text).count();
        let (first, last) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(count));
        if first > last.max(1) || (first > count && first > 1) {
            return Err(Error::invalid_input(format_args!(
                "`{name}` has {}, but lines {first} to {last} were requested",
                counted(count, "line", "lines")
            )));
        }
        let whole = first == 1 && last >= count;
        let content = if whole {
            text.clone()
        } else {
            let selected = lines(&text).skip(first - 1).take(last + 1 - first);
            selected.fold(String::new(), |content, line| {
                content + without_key_material(&text, line) + "\n"
            })
        };
        let head = if whole {
            String::new()
        } else {
            format!("lines {first} to {} of {count}\n", last.min(count))
        };
        let got = Got {
            memory: Some(Content {
                name: name.to_string(),
                content: content.clone(),
                start_line: first,
                lines: count,
            }),
            memories: None,
        };
        Ok(Json(got).worded(head + &content))
    }
}

fn list(folder: &MemoryFolder, store: &impl Store) -> Result<Worded<Got>> {
    let listing = folder.list()?;
    taint_marks::record_names_read(store)?;
    let mut text = String::new();
    for entry in &listing.entries {
        text += &format!("{}  {} bytes  {}\n", entry.name, entry.size, entry.modified);
    }
    text += &match listing.entries.len() {
        0 => "nothing is saved yet".to_owned(),
        count => counted(count, "memory", "memories"),
    };
    if listing.invalid > 0 {
        text += &format!(
            "; {} in {FOLDER} cannot be read as a memory: a link, a file that is too large, or an invalid name",
            counted(listing.invalid, "file", "files")
        );
    }
    let listed = listing.entries.into_iter().map(|entry| Listed {
        name: entry.name.to_string(),
        size: entry.size,
        modified: entry.modified,
    });
    let got = Got {
        memory: None,
        memories: Some(listed.collect()),
    };
    Ok(Json(got).worded(text))
}

/// Maximum number of existing names in the error for a missing memory, so that a caller can correct a typo.
const MAX_LISTED_NAMES: usize = 8;

fn not_found(name: &Name, folder: &MemoryFolder, store: &impl Store) -> Result<Error> {
    let listing = folder.list()?;
    taint_marks::record_names_read(store)?;
    let names = listing.entries.iter().take(MAX_LISTED_NAMES);
    let names: Vec<String> = names.map(|entry| format!("`{}`", entry.name)).collect();
    let existing = match listing.entries.len() {
        0 => "nothing is saved yet".to_owned(),
        count if count > MAX_LISTED_NAMES => format!("existing memories: {}, …", names.join(", ")),
        _ => format!("existing memories: {}", names.join(", ")),
    };
    Ok(Error::not_found(format_args!(
        "memory `{name}` does not exist; {existing}"
    )))
}
