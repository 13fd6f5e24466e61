//! Selection of the files to search.

use std::ops::ControlFlow;
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use mimir_sdk::{Error, Result, text};

use crate::FileSearch;
use crate::start::{SearchStart, join};
use crate::tree::{File, Folder};

mod rules;

use rules::Level;

/// Counter of entries that a walk had to skip.
#[derive(Debug, Default)]
pub struct SkippedEntries {
    /// Number of files or folders that could not be read.
    pub unreadable: u64,
}

/// A file that a walk visits.
pub struct WalkedFile<'a> {
    /// Path relative to the workspace root.
    pub path: &'a str,
    folder: &'a Folder,
    name: &'a str,
}

impl WalkedFile<'_> {
    /// Opens the file.
    pub fn open(&self) -> std::io::Result<File> {
        self.folder.file(self.name)
    }
}

/// Visits the files below `start`, the files of a folder before those of its subfolders. Skips files that are hidden,
/// or excluded by ignore files or by the arguments. Stops early if `visit` returns `Break`.
pub fn files(
    search: &FileSearch,
    root: &Folder,
    start: &SearchStart,
    mut visit: impl FnMut(WalkedFile<'_>) -> ControlFlow<()>,
) -> Result<SkippedEntries> {
    let filter = Filter::new(search)?;
    let mut skipped = SkippedEntries::default();
    if let SearchStart::File { folder, name, path } = start {
        if filter.includes(path, name) {
            let _ = visit(WalkedFile { path, folder, name });
        }
        return Ok(skipped);
    }
    let start_path = start.path();
    let mut pending = vec![(start_path.to_owned(), rules::rules_above(root, start_path))];
    while let Some((path, above)) = pending.pop() {
        let opened = if path.is_empty() {
            root.folder(".")
        } else {
            root.folder(&path)
        };
        let Ok((folder, entries)) =
            opened.and_then(|folder| folder.entries().map(|entries| (folder, entries)))
        else {
            skipped.unreadable += 1;
            continue;
        };
        skipped.unreadable += entries.unreadable;
        let level = Level::read(&folder, &path, &entries, above);
        let ignored = |path: &str, is_dir| {
            level
                .as_ref()
                .is_some_and(|level| level.ignores(path, is_dir))
        };
        for name in entries
            .files
            .iter()
            .filter(|name| search.include_hidden || !name.starts_with('.'))
        {
            let path = join(&path, name);
            let selected = filter.includes(&path, start.below(&path)) && !ignored(&path, false);
            if selected
                && visit(WalkedFile {
                    path: &path,
                    folder: &folder,
                    name,
                })
                .is_break()
            {
                return Ok(skipped);
            }
        }
        // The folder that is pushed last is visited next.
        for name in entries.folders.iter().rev() {
            let path = join(&path, name);
            let hidden = name == ".git" || name.starts_with('.') && !search.include_hidden;
            if !hidden && !filter.excludes(&path, start.below(&path)) && !ignored(&path, true) {
                pending.push((path, level.clone()));
            }
        }
    }
    Ok(skipped)
}

/// `include` and `exclude`. A glob may be relative to the start of the search or to the root.
struct Filter {
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
}

impl Filter {
    fn new(search: &FileSearch) -> Result<Self> {
        Ok(Self {
            include: build_globs("include", &search.include)?,
            exclude: build_globs("exclude", &search.exclude)?,
        })
    }

    fn includes(&self, path: &str, below: &str) -> bool {
        let included = self.include.as_ref().is_none_or(|globs| {
            // A glob that names a folder matches its contents.
            let inside = |path: &str| globs.matched_path_or_any_parents(path, false).is_ignore();
            inside(path) || path != below && inside(below)
        });
        included && !matches(self.exclude.as_ref(), path, below, false)
    }

    fn excludes(&self, path: &str, below: &str) -> bool {
        matches(self.exclude.as_ref(), path, below, true)
    }
}

fn matches(globs: Option<&Gitignore>, path: &str, below: &str, is_dir: bool) -> bool {
    globs.is_some_and(|globs| {
        globs.matched(path, is_dir).is_ignore()
            || path != below && globs.matched(below, is_dir).is_ignore()
    })
}

fn build_globs(option: &str, globs: &[String]) -> Result<Option<Gitignore>> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut builder = GitignoreBuilder::new("");
    for glob in globs {
        let quoted = text::brief(glob);
        let invalid = |reason: String| {
            Error::invalid_input(format!(
                "{option}: `{quoted}` is not a valid glob: {reason}"
            ))
        };
        if glob.starts_with('!') {
            return Err(invalid("a leading `!` is not supported here".into()));
        }
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        // The ignore file format reads an invalid character class as literal text; a glob with one is an error here.
        globset::Glob::new(glob).map_err(|error| invalid(error.kind().to_string()))?;
        // In this format `#` begins a comment and trailing spaces are dropped; in a glob both are literal.
        let line = if glob.starts_with('#') {
            format!("\\{glob}")
        } else {
            glob.to_owned()
        };
        builder
            .add_line(None, &line)
            .map_err(|error| invalid(error.to_string()))?;
    }
    let built = builder
        .build()
        .map_err(|error| Error::invalid_input(format!("{option}: {error}")))?;
    Ok(Some(built))
}

/// The rules of a folder, shared by all folders below that have no rules of their own.
type Rules = Option<Rc<Level>>;
