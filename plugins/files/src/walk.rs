//! What is in a folder, and in the folders in it, without following links.

use std::fs::{self, FileType, Metadata};

use mimir_sdk::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// What something in a folder is.
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
}

impl From<FileType> for Kind {
    fn from(found: FileType) -> Self {
        if found.is_symlink() {
            Self::Symlink
        } else if found.is_dir() {
            Self::Directory
        } else if found.is_file() {
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

/// The names in a folder in their order, each with what it is.
pub fn entries(folder: &Place) -> Result<Vec<(String, Kind)>> {
    let failed = |error: std::io::Error| folder.failed(&error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Gone again in the meantime is as good as never there.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        names.push((
            entry.file_name().to_string_lossy().into_owned(),
            kind.into(),
        ));
    }
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Visits `place` and everything below it, what is in a folder before the folder itself: the order
/// in which a tree is taken down. Ends early when `visit` fails.
pub fn bottom_up(
    place: &Place,
    kind: Kind,
    visit: &mut dyn FnMut(&Place, Kind) -> Result<()>,
) -> Result<()> {
    // Folders that still have to be left, with what is still to visit in them.
    let mut open: Vec<(Place, Vec<(String, Kind)>)> = Vec::new();
    let mut next = Some((place.clone(), kind));
    loop {
        match next.take() {
            Some((place, Kind::Directory)) => {
                let mut inside = entries(&place)?;
                inside.reverse();
                open.push((place, inside));
            }
            Some((place, kind)) => visit(&place, kind)?,
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

    #[test]
    fn what_is_inside_comes_first() {
        let workspace =
            Workspace::with(&[("t/a", ""), ("t/b/c", ""), ("t/b/d/e", ""), ("t/f", "")]);
        let place = Place::new(&workspace.cx(), "t").unwrap();
        let mut seen = Vec::new();
        bottom_up(&place, Kind::Directory, &mut |place, _| {
            seen.push(place.shown().to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(
            seen,
            ["t/a", "t/b/c", "t/b/d/e", "t/b/d", "t/b", "t/f", "t"]
        );
    }
}
