//! `list_directory`.

use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::formatting;
use crate::walk::{self, Kind};
use crate::workspace_path::WorkspacePath;

/// Maximum number of entries in one result. Each entry is queried for its metadata.
const MAX_SHOWN: usize = 1_000;

/// Maximum number of entries that are counted in a recursive listing. The listing of a larger tree is truncated.
const MAX_COUNTED: u64 = 200_000;

/// Lists a directory, with the type, size and time of the last change of each entry.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListDirectory {
    /// The directory, relative to the workspace root. Default: the root.
    #[serde(default = "root")]
    pub path: String,
    /// Also list subdirectories recursively. Symbolic links are not followed.
    #[serde(default)]
    pub recursive: bool,
    /// Also list entries whose name begins with a dot.
    #[serde(default)]
    pub include_hidden: bool,
}

fn root() -> String {
    ".".to_owned()
}

/// Contents of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The directory.
    pub path: String,
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Number of entries.
    pub total: u64,
    /// True if not all entries are listed.
    pub truncated: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// Path relative to the listed directory.
    pub name: String,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Size in bytes; 0 unless it is a file.
    pub size: u64,
    /// Time of the last change, ISO 8601; absent for unreadable entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// True for a directory that could not be opened, so its contents are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

impl Entry {
    /// Reads the metadata of an entry. `None` if it was removed in the meantime or access is denied.
    fn at(location: &WorkspacePath, name: &str, kind: Kind) -> Option<Self> {
        let (size, modified) = match kind {
            // A name that is not UTF-8 cannot be queried.
            Kind::Unreadable => (0, None),
            _ => {
                let metadata = location.metadata().ok()??;
                let size = if metadata.is_file() {
                    metadata.len()
                } else {
                    0
                };
                (size, Some(formatting::modified(&metadata)))
            }
        };
        Some(Self {
            name: name.to_owned(),
            kind,
            size,
            modified,
            closed: false,
        })
    }
}

impl Listing {
    /// Formats one line per entry, with escaped names; directories end with `/`, links with `@`.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for entry in &self.entries {
            let name = text::name(&entry.name);
            let line = match entry.kind {
                Kind::File => {
                    let size = formatting::bytes(entry.size);
                    let modified = entry.modified.as_deref().unwrap_or_default();
                    format!("{name}  {size}  {modified}\n")
                }
                Kind::Directory if entry.closed => format!("{name}/  (cannot be opened)\n"),
                Kind::Directory => format!("{name}/\n"),
                Kind::Symlink => format!("{name}@\n"),
                Kind::Other => format!("{name}  (special)\n"),
                Kind::Unreadable => {
                    format!("{name}  (the name is not UTF-8, so no tool can open it)\n")
                }
            };
            out.push_str(&line);
        }
        let total = formatting::counted(self.total, "entry", "entries");
        match (self.truncated, self.entries.len()) {
            (true, shown) => {
                out + &format!(
                    "{shown} of {total}; list a subdirectory or use file_search for the rest"
                )
            }
            (false, 0) => out + "The directory is empty",
            (false, _) => out + &total,
        }
    }
}

impl Tool for ListDirectory {
    type Output = Worded<Listing>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("List directory");
    const APPROVAL: Option<Approval> = Some(Approval::Allow);
    const HINTS: Hints = Hints::NONE.read_only().idempotent();

    fn needs() -> Needs {
        Needs::none().read(".", "to list the directories of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let folder = WorkspacePath::new(cx, &self.path)?.resolve_links()?;
        if !folder.existing_metadata()?.is_dir() {
            return Err(Error::invalid_input(format_args!(
                "`{folder}` is not a directory; file_info reports its type"
            )));
        }
        let mut listing = Listing {
            path: folder.exact().to_owned(),
            entries: Vec::new(),
            total: 0,
            truncated: false,
        };
        self.add_entries(&folder, &mut listing)?;
        listing.truncated |= listing.total > listing.entries.len() as u64;
        let text = listing.text();
        Ok(Json(listing).worded(text))
    }
}

impl ListDirectory {
    /// Adds the entries sorted by name, each folder followed by its contents.
    fn add_entries(&self, folder: &WorkspacePath, listing: &mut Listing) -> Result<()> {
        let mut open = vec![self.visible_entries(folder, "")?];
        while let Some(entries) = open.last_mut() {
            let Some((name, kind)) = entries.pop() else {
                open.pop();
                continue;
            };
            listing.total += 1;
            let location = folder.join(&name);
            let mut entry = if listing.entries.len() < MAX_SHOWN {
                Entry::at(&location, &name, kind)
            } else {
                None
            };
            if self.recursive && kind == Kind::Directory {
                if listing.total > MAX_COUNTED {
                    listing.entries.extend(entry);
                    listing.truncated = true;
                    return Ok(());
                }
                match (self.visible_entries(&location, &name), &mut entry) {
                    (Ok(entries), _) => open.push(entries),
                    (Err(_), Some(entry)) => entry.closed = true,
                    // The directory itself is not listed either.
                    (Err(_), None) => {}
                }
            }
            listing.entries.extend(entry);
        }
        Ok(())
    }

    /// Returns the visible entries of a folder in reverse order, with paths relative to the listed folder.
    fn visible_entries(&self, folder: &WorkspacePath, above: &str) -> Result<Vec<(String, Kind)>> {
        let mut entries = walk::entries(folder)?;
        entries.retain(|(name, _)| self.include_hidden || !name.starts_with('.'));
        entries.reverse();
        if !above.is_empty() {
            entries
                .iter_mut()
                .for_each(|(name, _)| *name = format!("{above}/{name}"));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
