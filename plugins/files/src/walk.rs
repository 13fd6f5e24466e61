//! Directory walks, which do not follow links.

use std::fs::{self, DirEntry, FileType, Metadata};

use mimir_sdk::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workspace_path::WorkspacePath;

/// Type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe, a socket.
    Other,
    /// An entry whose name is not UTF-8. It is listed, but no tool can name it.
    Unreadable,
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        if file_type.is_symlink() {
            Self::Symlink
        } else if file_type.is_dir() {
            Self::Directory
        } else if file_type.is_file() {
            Self::File
        } else {
            Self::Other
        }
    }
}

impl From<&Metadata> for Kind {
    fn from(metadata: &Metadata) -> Self {
        metadata.file_type().into()
    }
}

/// Returns the name and type of an entry. `None` if the entry was removed in the meantime.
fn entry(entry: &DirEntry) -> Option<(String, Kind)> {
    let name = entry.file_name();
    let exact = name.to_str().is_some();
    let name = name.to_string_lossy().into_owned();
    // WASI replaces the invalid bytes of a name that is not UTF-8, and gives no type. Querying the type by the replaced
    // name would find another entry or none.
    let replaced = !exact || name.contains(char::REPLACEMENT_CHARACTER);
    let kind = match entry.file_type().map(Kind::from) {
        _ if !exact => Kind::Unreadable,
        Ok(Kind::Other) | Err(_) if replaced => Kind::Unreadable,
        Ok(kind) => kind,
        Err(_) => return None,
    };
    Some((name, kind))
}

/// Returns the names and types of the entries of a folder, sorted by name.
pub fn entries(folder: &WorkspacePath) -> Result<Vec<(String, Kind)>> {
    let failed = |error: std::io::Error| folder.io_error(&error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.absolute()).map_err(failed)? {
        names.extend(self::entry(&entry.map_err(failed)?));
    }
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Visits `location` and everything below it, the contents of a folder before the folder itself, which is the order for
/// deleting a tree. Stops at the first error of `visit`.
pub fn bottom_up(
    location: &WorkspacePath,
    kind: Kind,
    visit: &mut dyn FnMut(&WorkspacePath, Kind) -> Result<()>,
) -> Result<()> {
    // The open folders, each with the entries not visited yet.
    let mut open: Vec<(WorkspacePath, Vec<(String, Kind)>)> = Vec::new();
    let mut next = Some((location.clone(), kind));
    loop {
        match next.take() {
            Some((location, Kind::Directory)) => {
                let mut inside = entries(&location)?;
                inside.reverse();
                open.push((location, inside));
            }
            Some((location, kind)) => visit(&location, kind)?,
            None => {}
        }
        let Some((folder, inside)) = open.last_mut() else {
            return Ok(());
        };
        match inside.pop() {
            Some((name, kind)) => next = Some((folder.join(&name), kind)),
            None => {
                if let Some((folder, _)) = open.pop() {
                    visit(&folder, Kind::Directory)?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Workspace;

    #[cfg(target_os = "linux")]
    #[test]
    fn walk_shows_names_that_are_not_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let workspace = Workspace::with(&[("t/a", ""), ("t/whole\u{fffd}", "")]);
        let odd = std::ffi::OsStr::from_bytes(b"b\xff");
        fs::create_dir(workspace.root().join("t").join(odd)).unwrap();
        let file_type = entries(&WorkspacePath::new(&workspace.cx(), "t").unwrap()).unwrap();
        let expected = [
            ("a", Kind::File),
            ("b\u{fffd}", Kind::Unreadable),
            ("whole\u{fffd}", Kind::File),
        ];
        assert_eq!(
            file_type,
            expected.map(|(name, kind)| (name.to_owned(), kind))
        );
    }

    #[test]
    fn walk_bottom_up_visits_children_first() {
        let workspace =
            Workspace::with(&[("t/a", ""), ("t/b/c", ""), ("t/b/d/e", ""), ("t/f", "")]);
        let location = WorkspacePath::new(&workspace.cx(), "t").unwrap();
        let mut seen = Vec::new();
        bottom_up(&location, Kind::Directory, &mut |location, _| {
            seen.push(location.exact().to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(
            seen,
            ["t/a", "t/b/c", "t/b/d/e", "t/b/d", "t/b", "t/f", "t"]
        );
    }
}
