//! The files that a search may find.

use std::io::ErrorKind;

use cap_std::fs::Dir;
use globset::{GlobBuilder, GlobMatcher};
use mimir_core::paths::PathRules;
use mimir_core::{ToolError, ToolErrorCode};

use crate::index::IndexedFile;
use crate::language::SourceLanguage;

/// Selects files.
pub(crate) struct SearchFilter<'f> {
    rules: &'f PathRules,
    /// The directories that the call may read; `.` is the whole workspace.
    granted: Vec<&'f str>,
    path: Option<PathSelector>,
    language: Option<SourceLanguage>,
}

/// A file, a folder or a glob.
enum PathSelector {
    Path(String),
    Glob(GlobMatcher),
}

impl<'f> SearchFilter<'f> {
    pub(crate) fn new(
        rules: &'f PathRules,
        granted: Vec<&'f str>,
        path: Option<&str>,
        language: Option<SourceLanguage>,
    ) -> Result<Self, ToolError> {
        let path = match path {
            Some(path) => parse_path(path)?,
            None => None,
        };
        Ok(Self {
            rules,
            granted,
            path,
            language,
        })
    }

    /// Checks that the selected file or folder exists, unless the call may not read it. Links are not followed: the
    /// index contains nothing behind them.
    pub(crate) fn check_exists(&self, root: &Dir) -> Result<(), ToolError> {
        let Some(PathSelector::Path(path)) = &self.path else {
            return Ok(());
        };
        if !self.may_read(path) {
            return Ok(());
        }
        let mut folder = String::new();
        for name in path.split('/') {
            folder = crate::source_tree::join(&folder, name);
            match root.symlink_metadata(&folder) {
                Ok(found) if found.is_symlink() => return Ok(()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
                {
                    let shown = mimir_core::text::visible(mimir_core::text::prefix(path, 200));
                    let message = format!("`{shown}` does not exist");
                    return Err(ToolError::new(ToolErrorCode::FileNotFound, message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns true if a search may find the file.
    pub(crate) fn accepts(&self, file: &IndexedFile) -> bool {
        let path = &*file.path;
        let is_selected = match &self.path {
            None => true,
            Some(PathSelector::Path(selected)) => is_at_or_below(path, selected),
            Some(PathSelector::Glob(glob)) => glob.is_match(path),
        };
        is_selected
            && !file.is_skipped
            && self
                .language
                .is_none_or(|language| file.language == Some(language))
            && self.may_read(path)
    }

    fn may_read(&self, path: &str) -> bool {
        self.granted
            .iter()
            .any(|granted| *granted == "." || is_at_or_below(path, granted))
            && self.rules.check(path).against_reading().is_none()
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parses a file, a folder or a glob. `None` for the whole workspace.
fn parse_path(written: &str) -> Result<Option<PathSelector>, ToolError> {
    let shown = mimir_core::text::visible(mimir_core::text::prefix(written, 200));
    if written.contains(['*', '?', '[', '{']) {
        let glob = written.trim_start_matches("./");
        let anywhere = if glob.contains('/') {
            glob.to_owned()
        } else {
            format!("**/{glob}")
        };
        let built = GlobBuilder::new(&anywhere).literal_separator(true).build();
        let built = built.map_err(|error| {
            ToolError::invalid_input(format!(
                "path: `{shown}` is not a valid glob: {}",
                error.kind()
            ))
        })?;
        return Ok(Some(PathSelector::Glob(built.compile_matcher())));
    }
    let mut path = String::new();
    let is_absolute = written.starts_with(['/', '\\']) || written.contains(':');
    for name in written
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
    {
        if name == ".." || is_absolute {
            return Err(ToolError::new(
                ToolErrorCode::InvalidPath,
                format!(
                    "`{shown}` leaves the workspace; paths are relative to its root, such as `src`"
                ),
            ));
        }
        path = crate::source_tree::join(&path, name);
    }
    Ok((!path.is_empty()).then_some(PathSelector::Path(path)))
}
