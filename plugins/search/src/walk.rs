//! Which files are looked at.

use std::path::Path;

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder};
use mimir_sdk::{Error, Result};

use crate::FileSearch;

/// The files below `start`, in the order of their names, without those that .gitignore, the
/// arguments or a hidden name take out. What cannot be read is counted and passed over.
pub fn files(search: &FileSearch, start: &Path, skipped: &mut u64) -> Result<impl Iterator<Item = DirEntry>> {
    let walk = WalkBuilder::new(start)
        .overrides(globs(search, start)?)
        .hidden(!search.include_hidden)
        .git_global(false)
        // A workspace need not be a repository for its .gitignore to mean something.
        .require_git(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    Ok(walk.filter_map(move |entry| match entry {
        Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => Some(entry),
        Ok(_) => None,
        Err(_) => {
            *skipped += 1;
            None
        }
    }))
}

/// `include` and `exclude` in the form of the walker, in which a `!` takes out.
fn globs(search: &FileSearch, start: &Path) -> Result<Override> {
    let mut globs = OverrideBuilder::new(start);
    let bad = |glob: &str, error: ignore::Error| Error::invalid_input(format!("`{glob}` is no glob: {error}"));
    for glob in &search.include {
        globs.add(glob).map_err(|error| bad(glob, error))?;
    }
    for glob in &search.exclude {
        globs.add(&format!("!{glob}")).map_err(|error| bad(glob, error))?;
    }
    globs.build().map_err(|error| bad("include", error))
}
