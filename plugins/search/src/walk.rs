//! Selection of the files to search.

use std::ops::ControlFlow;
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use mimir_sdk::{Error, Result, text};

use crate::FileSearch;
use crate::place::{Start, join};
use crate::tree::{File, Folder};

mod rules;

use rules::Level;

/// Entries that a walk had to skip.
#[derive(Debug, Default)]
pub struct Missed {
    /// Number of files or folders that could not be read.
    pub unreadable: u64,
}

/// A file that a walk visits.
pub struct Found<'a> {
    /// Relative to the workspace root.
    pub path: &'a str,
    folder: &'a Folder,
    name: &'a str,
}

impl Found<'_> {
    /// Opens it.
    pub fn open(&self) -> std::io::Result<File> {
        self.folder.file(self.name)
    }
}

/// Visits the files below `start`, those of a folder before those of its subfolders, without those excluded by ignore
/// files, the arguments or a hidden name. Stops early if `visit` returns false.
pub fn files(
    search: &FileSearch,
    root: &Folder,
    start: &Start,
    mut visit: impl FnMut(Found<'_>) -> ControlFlow<()>,
) -> Result<Missed> {
    let filter = Filter::of(search)?;
    let mut missed = Missed::default();
    if let Start::File { folder, name, path } = start {
        if filter.takes(path, name) {
            let _ = visit(Found { path, folder, name });
        }
        return Ok(missed);
    }
    let top = start.path();
    let mut pending = vec![(top.to_owned(), rules::above(root, top))];
    while let Some((path, above)) = pending.pop() {
        let opened = if path.is_empty() {
            root.folder(".")
        } else {
            root.folder(&path)
        };
        let Ok((folder, entries)) =
            opened.and_then(|folder| folder.entries().map(|entries| (folder, entries)))
        else {
            missed.unreadable += 1;
            continue;
        };
        missed.unreadable += entries.odd;
        let level = Level::of(&folder, &path, &entries, above);
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
            let wanted = filter.takes(&path, start.below(&path)) && !ignored(&path, false);
            if wanted
                && visit(Found {
                    path: &path,
                    folder: &folder,
                    name,
                })
                .is_break()
            {
                return Ok(missed);
            }
        }
        // The last one pushed is visited next.
        for name in entries.folders.iter().rev() {
            let path = join(&path, name);
            let hidden = name == ".git" || name.starts_with('.') && !search.include_hidden;
            if !hidden && !filter.excludes(&path, start.below(&path)) && !ignored(&path, true) {
                pending.push((path, level.clone()));
            }
        }
    }
    Ok(missed)
}

/// `include` and `exclude`. A glob may be relative to the start of the search or to the root.
struct Filter {
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
}

impl Filter {
    fn of(search: &FileSearch) -> Result<Self> {
        Ok(Self {
            include: globs("include", &search.include)?,
            exclude: globs("exclude", &search.exclude)?,
        })
    }

    fn takes(&self, path: &str, below: &str) -> bool {
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

fn globs(what: &str, globs: &[String]) -> Result<Option<Gitignore>> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut builder = GitignoreBuilder::new("");
    for glob in globs {
        let said = text::brief(glob);
        let bad = |why: String| {
            Error::invalid_input(format!("{what}: `{said}` is not a valid glob: {why}"))
        };
        if glob.starts_with('!') {
            return Err(bad("a leading `!` has no meaning here".into()));
        }
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        // The ignore file format reads an invalid character class as literal text; a glob with one is an error here.
        globset::Glob::new(glob).map_err(|error| bad(error.kind().to_string()))?;
        // In this format `#` begins a comment and trailing spaces are dropped; in a glob both are literal.
        let line = if glob.starts_with('#') {
            format!("\\{glob}")
        } else {
            glob.to_owned()
        };
        builder
            .add_line(None, &line)
            .map_err(|error| bad(error.to_string()))?;
    }
    let built = builder
        .build()
        .map_err(|error| Error::invalid_input(format!("{what}: {error}")))?;
    Ok(Some(built))
}

/// The rules of a folder, shared by all folders below it without rules of their own.
type Rules = Option<Rc<Level>>;
