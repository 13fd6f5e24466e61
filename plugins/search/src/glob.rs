//! Search for files by name.

use std::ops::ControlFlow;

use globset::GlobBuilder;
use mimir_sdk::{Error, Result, text};

use crate::results::SearchResult;
use crate::start::SearchStart;
use crate::tree::Folder;
use crate::{FileSearch, walk};

/// Finds the files below `start` whose path matches. A glob without `/` matches a name at any depth.
pub fn search(search: &FileSearch, root: &Folder, start: &SearchStart) -> Result<SearchResult> {
    let query = search.query.trim_start_matches("./");
    let anywhere = if query.contains('/') {
        query.to_owned()
    } else {
        format!("**/{query}")
    };
    let glob = GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .case_insensitive(search.ignore_case)
        .build()
        .map_err(|error| {
            let query = text::brief(&search.query);
            Error::invalid_input(format!("`{query}` is not a valid glob: {}", error.kind()))
        })?
        .compile_matcher();
    let mut found = SearchResult::default();
    let skipped = walk::files(search, root, start, |file| {
        found.files_searched += 1;
        // A glob may be relative to the start of the search or to the root.
        if !glob.is_match(file.path) && !glob.is_match(start.below(file.path)) {
            return ControlFlow::Continue(());
        }
        if found.files.len() == search.max_results || !found.reserve(file.path.len()) {
            found.truncated = true;
            return ControlFlow::Break(());
        }
        found.files.push(file.path.to_owned());
        ControlFlow::Continue(())
    })?;
    found.skipped = skipped.unreadable;
    Ok(found)
}
