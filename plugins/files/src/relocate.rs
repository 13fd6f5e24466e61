//! `move_file`.

use std::fs::{self, Metadata};

use mimir_sdk::prelude::*;

use crate::walk::{self, Kind};
use crate::workspace_path::WorkspacePath;
use crate::write::{missing_parents, with_new_folders};
use crate::{formatting, undo_record};

/// Maximum number of bytes that the host copies for `mimir undo` of a move. Of a larger move, the host records only the
/// paths; as long as nothing was overwritten, moving back undoes it.
const MAX_UNDO_BYTES: u64 = 64 << 20;

/// Maximum number of paths that the host records for a move.
const MAX_UNDO_PATHS: usize = 2_000;

/// Moves or renames a file or directory.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveFile {
    /// Path to move, relative to the workspace root.
    pub from: String,
    /// New path, including the file name.
    pub to: String,
    /// Replace the file that is at `to`.
    #[serde(default)]
    pub overwrite: bool,
    /// Create missing parent directories.
    #[serde(default)]
    pub create_dirs: bool,
}

/// Result of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// The old path.
    pub from: String,
    /// The new path.
    pub to: String,
    /// True if a file was replaced.
    pub overwrote: bool,
    /// Id of the record from which `mimir undo` restores the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

impl Tool for MoveFile {
    type Output = Worded<Moved>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Move file");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(".", "to move files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (from, to) = (
            WorkspacePath::new(cx, &self.from)?,
            WorkspacePath::new(cx, &self.to)?,
        );
        let source = from.existing_metadata()?;
        let kind = Kind::from(&source);
        let existing = to.metadata()?;
        self.check(&from, &to, kind, existing.as_ref())?;
        let missing = missing_parents(&to, self.create_dirs)?;
        let undoable = is_undoable(&from, kind, &source)?;
        if !undoable && existing.is_some() {
            return Err(Error::limit_exceeded(format_args!(
                "moving `{from}` over `{to}` could not be undone, because `{from}` is too large: delete `{to}` first"
            )));
        }
        with_new_folders(&missing, || {
            fs::rename(from.absolute(), to.absolute()).map_err(|error| from.io_error(&error))
        })?;
        let overwrote = existing.is_some();
        let replaced = if overwrote {
            ", replacing the existing file"
        } else {
            ""
        };
        let undo_note = if undoable {
            ""
        } else {
            "; `mimir undo` cannot undo this move: to undo it, move the path back"
        };
        let (source, target) = (from.escaped(), to.escaped());
        let text = format!("Moved {source} to {target}{replaced}{undo_note}");
        let (from, to) = (from.exact().to_owned(), to.exact().to_owned());
        Ok(Json(Moved {
            from,
            to,
            overwrote,
            backup: undo_record(cx, undoable),
        })
        .worded(text))
    }
}

impl Assess for MoveFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let locations = WorkspacePath::new(cx, &self.from)
            .and_then(|from| Ok((from, WorkspacePath::new(cx, &self.to)?)));
        match locations.and_then(|(from, to)| Ok((to.metadata()?, from, to))) {
            Err(error) => Assessment::allow(error.to_string()),
            Ok((Some(old), from, to)) if self.overwrite => {
                let (from, to, size) = (from.escaped(), to.escaped(), formatting::bytes(old.len()));
                Assessment::ask(format!("moves {from} over {to} ({size})"))
                    .because(format!("{to} is replaced"))
            }
            Ok((_, from, to)) => {
                Assessment::allow(format!("moves {} to {}", from.escaped(), to.escaped()))
            }
        }
    }
}

impl MoveFile {
    fn check(
        &self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        kind: Kind,
        existing: Option<&Metadata>,
    ) -> Result<()> {
        if from.is_root() || to.is_root() {
            return Err(Error::invalid_path(
                "the workspace root cannot be moved or replaced",
            ));
        }
        if from.contains_path(to) {
            return Err(Error::invalid_input(if from == to {
                format!("`{from}` is already there")
            } else {
                format!("`{from}` can't be moved into itself")
            }));
        }
        let Some(existing) = existing else {
            return Ok(());
        };
        if existing.is_dir() {
            return Err(Error::already_exists(format_args!(
                "`{to}` is a directory; to move into it, name the new path, such as `{}`",
                to.join(from.file_name())
            )));
        }
        if kind == Kind::Directory {
            return Err(Error::already_exists(format_args!(
                "`{to}` is a file, which a directory can't replace"
            )));
        }
        if !self.overwrite {
            return Err(Error::already_exists(format_args!(
                "`{to}` exists: pass `overwrite: true` to replace it"
            )));
        }
        Ok(())
    }
}

/// Returns true if the host records all moved objects.
fn is_undoable(from: &WorkspacePath, kind: Kind, source: &Metadata) -> Result<bool> {
    if kind != Kind::Directory {
        return Ok(source.len() <= MAX_UNDO_BYTES && recordable(from, kind));
    }
    let (mut paths, mut bytes, mut is_too_large) = (0, 0, false);
    let walked = walk::bottom_up(from, kind, &mut |location, kind| {
        if kind == Kind::File {
            bytes += location.metadata()?.map_or(0, |metadata| metadata.len());
        }
        paths += 1;
        is_too_large =
            bytes > MAX_UNDO_BYTES || paths > MAX_UNDO_PATHS || !recordable(location, kind);
        if is_too_large {
            Err(Error::limit_exceeded("stop"))
        } else {
            Ok(())
        }
    });
    match walked {
        _ if is_too_large => Ok(false),
        Ok(()) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns true if the host can record an object of this kind.
fn recordable(location: &WorkspacePath, kind: Kind) -> bool {
    match kind {
        Kind::File | Kind::Directory => true,
        Kind::Symlink => {
            fs::read_link(location.absolute()).is_ok_and(|target| target.to_str().is_some())
        }
        Kind::Other | Kind::Unreadable => false,
    }
}

#[cfg(test)]
mod tests;
