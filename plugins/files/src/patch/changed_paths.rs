//! The paths that a patch changes. Two paths may name one file: through a folder that is a symbolic link, or in another
//! case where the file system folds case. Only the change that is written last would remain.

use std::collections::BTreeMap;
use std::fs;

use mimir_sdk::prelude::*;

use crate::workspace_path::WorkspacePath;

/// Maximum number of linked folders in a path.
const MAX_LINKS: usize = 16;

/// A path of an earlier change.
struct ChangedPath {
    written: WorkspacePath,
    /// The path without links.
    real: WorkspacePath,
    line: usize,
}

/// The paths of a patch so far, by their lowercase form.
#[derive(Default)]
pub struct ChangedPaths(BTreeMap<String, Vec<ChangedPath>>);

impl ChangedPaths {
    /// Adds a path at a line of the patch. Fails if an earlier path names the same file.
    pub fn insert(&mut self, location: &WorkspacePath, line: usize) -> Result<()> {
        let real = resolve_folders(location)?;
        let similar = self.0.entry(real.exact().to_lowercase()).or_default();
        for earlier in &*similar {
            if is_other_file(&earlier.real, &real)? {
                continue;
            }
            let (path, number) = (&earlier.written, earlier.line);
            let fault = if path == location {
                format!("is already changed at line {number}; combine both changes")
            } else if earlier.real == real {
                format!(
                    "is the same file as `{path}`, which is changed at line {number}; combine both changes"
                )
            } else {
                format!(
                    "differs from `{path}` at line {number} only in case, so both may be the same file; combine both changes, or send them in two calls"
                )
            };
            return Err(Error::invalid_input(format_args!(
                "line {line} of the patch: `{location}` {fault}"
            )));
        }
        similar.push(ChangedPath {
            written: location.clone(),
            real,
            line,
        });
        Ok(())
    }
}

/// Follows the links of the folders of a path, but not of its last component, which the caller has resolved.
fn resolve_folders(location: &WorkspacePath) -> Result<WorkspacePath> {
    let mut resolved = location.clone();
    for _ in 0..=MAX_LINKS {
        let Some((link, rest)) = first_linked_folder(&resolved)? else {
            return Ok(resolved);
        };
        resolved = link.resolve_links()?.join(&rest);
    }
    Err(Error::invalid_path(format_args!(
        "`{location}` leads through more than {MAX_LINKS} symbolic links"
    )))
}

/// Returns the outermost folder of a path that is a link, and the rest of the path.
fn first_linked_folder(location: &WorkspacePath) -> Result<Option<(WorkspacePath, String)>> {
    let mut rest = location.file_name().to_owned();
    let mut found = None;
    let mut folder = location.parent();
    while !folder.is_root() {
        let metadata = folder.metadata()?;
        if metadata.is_some_and(|metadata| metadata.is_symlink()) {
            found = Some((folder.clone(), rest.clone()));
        }
        rest = format!("{}/{rest}", folder.file_name());
        folder = folder.parent();
    }
    Ok(found)
}

/// Returns true if two paths without links, which are equal apart from case, name different files.
fn is_other_file(one: &WorkspacePath, other: &WorkspacePath) -> Result<bool> {
    let parts: Vec<&str> = one.exact().split('/').collect();
    let others: Vec<&str> = other.exact().split('/').collect();
    let Some(at) = (0..parts.len().min(others.len())).find(|&at| parts[at] != others[at]) else {
        return Ok(one != other);
    };
    let mut folder = one.clone();
    for _ in at..parts.len() {
        folder = folder.parent();
    }
    let exists = [folder.join(parts[at]), folder.join(others[at])]
        .map(|path| path.metadata().map(|metadata| metadata.is_some()));
    let [one_exists, other_exists] = exists;
    if one_exists? != other_exists? {
        return Ok(true);
    }
    let entries = fs::read_dir(folder.absolute());
    let mut has = [false; 2];
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        for (has, name_at) in has.iter_mut().zip([parts[at], others[at]]) {
            *has |= name.to_str() == Some(name_at);
        }
    }
    Ok(has == [true; 2])
}
