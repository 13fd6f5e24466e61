//! Files by name.

use std::path::Path;

use globset::GlobBuilder;
use mimir_sdk::{Error, Result};

use crate::found::Found;
use crate::{FileSearch, place, walk};

/// The files below `start` whose path matches. A glob without `/` matches a name at any depth.
pub fn search(search: &FileSearch, root: &Path, start: &Path) -> Result<Found> {
    let query = search.query.trim_start_matches("./");
    let anywhere = if query.contains('/') { query.to_owned() } else { format!("**/{query}") };
    let glob = GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .case_insensitive(search.ignore_case)
        .build()
        .map_err(|error| Error::invalid_input(format!("`{}` is no glob: {}", search.query, error.kind())))?
        .compile_matcher();
    let mut found = Found::default();
    let mut skipped = 0;
    for entry in walk::files(search, start, &mut skipped)? {
        found.files_searched += 1;
        let shown = place::shown(root, entry.path());
        // A glob may be meant from where the search begins or from the root.
        if !glob.is_match(&shown) && !glob.is_match(place::shown(start, entry.path())) {
            continue;
        }
        if found.files.len() == search.max_results || !found.has_room(shown.len()) {
            found.truncated = true;
            break;
        }
        found.files.push(shown);
    }
    found.skipped = skipped;
    Ok(found)
}
