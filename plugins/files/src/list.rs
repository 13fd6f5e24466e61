//! `list_directory`.

use mimir_sdk::prelude::*;

use crate::place::Place;
use crate::walk::{self, Kind};
use crate::words;

/// Most entries in one result: what a model can read, and few enough to look at each.
const SHOWN_MAX: usize = 1_000;

/// Most entries that are counted when listing recursively; a tree beyond that is only said to have more.
const COUNTED_MAX: u64 = 200_000;

/// Lists a directory, with the type, size and last change of each entry.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListDirectory {
    /// The directory, relative to the workspace root. Default: the root.
    #[serde(default = "root")]
    pub path: String,
    /// Also list what is in the directories in it. Symbolic links are not followed.
    #[serde(default)]
    pub recursive: bool,
    /// Also list entries whose name begins with a dot.
    #[serde(default)]
    pub include_hidden: bool,
}

fn root() -> String {
    ".".to_owned()
}

/// What is in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    /// The directory.
    pub path: String,
    /// The entries in the order of their names.
    pub entries: Vec<Entry>,
    /// How many entries there are.
    pub total: u64,
    /// Whether there are more than are listed.
    pub truncated: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its name, relative to the directory that is listed.
    pub name: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Size in bytes; 0 for what is no file.
    pub size: u64,
    /// When it was last changed, ISO 8601.
    pub modified: String,
}

impl Listing {
    /// One line per entry; directories end with `/`, links with `@`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let line = match entry.kind {
                Kind::File => format!(
                    "{}  {}  {}\n",
                    entry.name,
                    words::bytes(entry.size),
                    entry.modified
                ),
                Kind::Directory => format!("{}/\n", entry.name),
                Kind::Symlink => format!("{}@\n", entry.name),
                Kind::Other => format!("{}  (special)\n", entry.name),
            };
            text.push_str(&line);
        }
        let total = words::counted(self.total, "entry", "entries");
        match (self.truncated, self.entries.len()) {
            (true, shown) => {
                text + &format!(
                    "{shown} of {total}; list a subdirectory or use file_search for the rest"
                )
            }
            (false, 0) => text + "The directory is empty",
            (false, _) => text + &total,
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
        let folder = Place::new(cx, &self.path)?.follow()?;
        if !folder.must_exist()?.is_dir() {
            let path = folder.shown();
            return Err(Error::invalid_input(format_args!(
                "`{path}` is not a directory; file_info tells what it is"
            )));
        }
        let mut listing = Listing {
            path: folder.shown().to_owned(),
            entries: Vec::new(),
            total: 0,
            truncated: false,
        };
        self.fill(&folder, &mut listing)?;
        listing.truncated |= listing.total > listing.entries.len() as u64;
        let text = listing.text();
        Ok(Json(listing).worded(text))
    }
}

impl ListDirectory {
    /// Folders in the order of their names, each followed by what is in it.
    fn fill(&self, folder: &Place, listing: &mut Listing) -> Result<()> {
        let mut open = vec![self.visible(folder, "")?];
        while let Some(inside) = open.last_mut() {
            let Some((name, kind)) = inside.pop() else {
                open.pop();
                continue;
            };
            listing.total += 1;
            let place = folder.join(&name);
            if listing.entries.len() < SHOWN_MAX
                // Gone in the meantime, or not for us to see: not there.
                && let Ok(Some(metadata)) = place.look()
            {
                let size = if metadata.is_file() {
                    metadata.len()
                } else {
                    0
                };
                let modified = words::modified(&metadata);
                listing.entries.push(Entry {
                    name: name.clone(),
                    kind,
                    size,
                    modified,
                });
            }
            if self.recursive && kind == Kind::Directory {
                if listing.total > COUNTED_MAX {
                    listing.truncated = true;
                    return Ok(());
                }
                // What can't be opened is listed and stays closed.
                open.push(self.visible(&place, &name).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The entries of a folder, last first, named from the folder that is listed.
    fn visible(&self, folder: &Place, above: &str) -> Result<Vec<(String, Kind)>> {
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
mod tests {
    use mimir_sdk::Code;

    use super::*;
    use crate::kit::Workspace;

    fn list(
        workspace: &Workspace,
        path: &str,
        recursive: bool,
        include_hidden: bool,
    ) -> Worded<Listing> {
        ListDirectory {
            path: path.into(),
            recursive,
            include_hidden,
        }
        .run(&workspace.cx())
        .unwrap()
    }

    fn names(listing: &Worded<Listing>) -> Vec<&str> {
        listing
            .value
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect()
    }

    #[test]
    fn names_are_sorted_and_hidden_ones_left_out() {
        let workspace = Workspace::with(&[("b.txt", "12"), ("a/c.txt", ""), (".hidden", "")]);
        let listing = list(&workspace, ".", false, false);
        assert_eq!(names(&listing), ["a", "b.txt"]);
        assert_eq!((listing.value.entries[1].size, listing.value.total), (2, 2));
        assert!(
            listing.text.starts_with("a/\nb.txt  2 bytes  "),
            "{}",
            listing.text
        );
        assert_eq!(
            names(&list(&workspace, ".", false, true)),
            [".hidden", ".mimir", "a", "b.txt"]
        );
        assert_eq!(
            names(&list(&workspace, ".", true, false)),
            ["a", "a/c.txt", "b.txt"]
        );
        assert_eq!(names(&list(&workspace, "a", false, false)), ["c.txt"]);
    }

    #[test]
    fn a_large_directory_is_bounded_and_counted() {
        let workspace = Workspace::new();
        for number in 0..SHOWN_MAX + 5 {
            workspace.put(&format!("many/{number:05}"), b"");
        }
        for recursive in [false, true] {
            let listing = list(&workspace, "many", recursive, false);
            assert_eq!(
                (listing.value.entries.len(), listing.value.total),
                (SHOWN_MAX, SHOWN_MAX as u64 + 5)
            );
            assert!(listing.value.truncated && listing.text.contains("1000 of 1,005 entries"));
        }
    }

    #[test]
    fn what_is_no_directory_has_a_code() {
        let workspace = Workspace::with(&[("a.txt", "")]);
        for (path, code) in [
            ("a.txt", Code::InvalidInput),
            ("b", Code::FileNotFound),
            ("..", Code::InvalidPath),
        ] {
            let tool = ListDirectory {
                path: path.into(),
                ..ListDirectory::default()
            };
            assert_eq!(
                *tool.run(&workspace.cx()).unwrap_err().code(),
                code,
                "{path}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_shown_and_not_followed() {
        let workspace = Workspace::with(&[("a/b", "")]);
        std::os::unix::fs::symlink("..", workspace.root().join("a/up")).unwrap();
        let listing = list(&workspace, ".", true, false);
        assert_eq!(names(&listing), ["a", "a/b", "a/up"]);
        assert_eq!(listing.value.entries[2].kind, Kind::Symlink);
    }
}
