//! `delete_file`.

use std::{fs, io};

use mimir_sdk::prelude::*;

use crate::walk::{self, Kind};
use crate::workspace_path::WorkspacePath;
use crate::write::warn_without_backup;
use crate::{default_true, formatting, undo_record};

/// Maximum number of paths listed in a result.
const MAX_LISTED_PATHS: usize = 500;

/// Maximum number of entries that are counted for the approval prompt.
const MAX_COUNTED: u64 = 10_000;

/// Deletes a file, or a directory with everything in it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteFile {
    /// The file or directory, relative to the workspace root.
    pub path: String,
    /// Delete a directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
    /// Keep the deleted content, so that `mimir undo` can restore it.
    #[serde(default = "default_true")]
    pub backup: bool,
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// The paths in the order of their deletion.
    pub deleted: Vec<String>,
    /// Number of deleted paths.
    pub total: usize,
    /// True if `deleted` lists only some of the paths.
    pub truncated: bool,
    /// Id of the record from which `mimir undo` restores the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

impl Tool for DeleteFile {
    type Output = Worded<Deleted>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Delete file");
    const RISK: Risk = Risk::High;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(".", "to delete files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (location, kind) = resolve_target(cx, &self.path)?;
        if kind == Kind::Directory && !self.recursive {
            let inside = walk::entries(&location)?.len() as u64;
            if inside > 0 {
                let inside = formatting::counted(inside, "entry", "entries");
                return Err(Error::invalid_input(format_args!(
                    "`{location}` is a directory with {inside}; `recursive: true` deletes it with everything in it"
                )));
            }
        }
        let mut targets = Vec::new();
        walk::bottom_up(&location, kind, &mut |location, kind| {
            targets.push((location.clone(), kind));
            match kind {
                Kind::Unreadable => Err(unnameable_error(location)),
                _ => Ok(()),
            }
        })?;
        if targets.len() > 1 {
            check_can_be_emptied(&location)?;
        }
        remove_all(&targets)?;
        let total = targets.len();
        let text = match (kind, total) {
            (Kind::Directory, 2..) => {
                format!(
                    "Deleted {} with {} in it",
                    location.escaped(),
                    formatting::counted(total as u64 - 1, "entry", "entries")
                )
            }
            _ => format!("Deleted {}", location.escaped()),
        };
        let deleted = targets
            .iter()
            .take(MAX_LISTED_PATHS)
            .map(|(location, _)| location.exact().to_owned())
            .collect();
        Ok(Json(Deleted {
            deleted,
            total,
            truncated: total > MAX_LISTED_PATHS,
            backup: undo_record(cx, self.backup),
        })
        .worded(text))
    }
}

impl Assess for DeleteFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let summary = match resolve_target(cx, &self.path) {
            Err(error) => error.to_string(),
            Ok((location, Kind::Directory)) => match count_entries(&location) {
                0 => format!("deletes the empty directory {}", location.escaped()),
                MAX_COUNTED.. => format!(
                    "deletes {} with more than {MAX_COUNTED} entries in it",
                    location.escaped()
                ),
                inside => {
                    format!(
                        "deletes {} with {} in it",
                        location.escaped(),
                        formatting::counted(inside, "entry", "entries")
                    )
                }
            },
            Ok((location, _)) => {
                let size = location
                    .metadata()
                    .ok()
                    .flatten()
                    .map_or(0, |metadata| metadata.len());
                format!(
                    "deletes {} ({})",
                    location.escaped(),
                    formatting::bytes(size)
                )
            }
        };
        warn_without_backup(
            Assessment::ask(summary).risk(Risk::High),
            self.backup,
            "the deleted content is lost",
        )
    }
}

/// Returns the error for a name that is not UTF-8, which no tool can pass to the host. Nothing is deleted in this case,
/// because a half-deleted folder would be worse.
fn unnameable_error(location: &WorkspacePath) -> Error {
    Error::unavailable(format_args!(
        "the name of `{location}` is not UTF-8, so no tool can delete it, and nothing was deleted; rename or remove it by hand first"
    ))
}

/// Resolves the path to delete. A link is not followed: the link itself is deleted.
fn resolve_target(cx: &Context, path: &str) -> Result<(WorkspacePath, Kind)> {
    let location = WorkspacePath::new(cx, path)?;
    if location.is_root() {
        return Err(Error::invalid_path("the workspace root cannot be deleted"));
    }
    let kind = Kind::from(&location.existing_metadata()?);
    Ok((location, kind))
}

/// Counts the readable entries below a folder, up to [`MAX_COUNTED`].
fn count_entries(folder: &WorkspacePath) -> u64 {
    let mut inside = 0;
    // The error stops the walk at the limit. An unreadable folder stops it as well.
    let _ = walk::bottom_up(folder, Kind::Directory, &mut |location, _| {
        inside += u64::from(location != folder);
        if inside < MAX_COUNTED {
            Ok(())
        } else {
            Err(Error::limit_exceeded("stop"))
        }
    });
    inside
}

/// Checks that the host allows every deletion below a folder, to avoid half-deleted folders. The check tries to remove
/// the non-empty folder. The host refuses, and reports if a rule forbids emptying the folder, or if its contents are
/// too large to be recorded for undo.
fn check_can_be_emptied(folder: &WorkspacePath) -> Result<()> {
    match fs::remove_dir(folder.absolute()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(nothing_deleted_error(folder, &error))
        }
        // The removal succeeds if the folder has been emptied in the meantime, which is the desired result.
        _ => Ok(()),
    }
}

fn nothing_deleted_error(location: &WorkspacePath, error: &io::Error) -> Error {
    let error = location.io_error(error);
    Error::new(
        error.code().clone(),
        format_args!("{error}; nothing was deleted"),
    )
}

/// Removes the paths one by one. If a removal fails, the previous removals can still be undone.
fn remove_all(targets: &[(WorkspacePath, Kind)]) -> Result<()> {
    for (removed_count, (location, kind)) in targets.iter().enumerate() {
        let removed = match kind {
            Kind::Directory => fs::remove_dir(location.absolute()),
            _ => fs::remove_file(location.absolute()),
        };
        let Err(error) = removed else { continue };
        if removed_count > 0 && error.kind() == io::ErrorKind::NotFound {
            // Another process has removed it in the meantime.
            continue;
        }
        let removed: Vec<&str> = targets[..removed_count]
            .iter()
            .take(MAX_LISTED_PATHS)
            .map(|(location, _)| location.exact())
            .collect();
        return Err(match removed_count {
            0 => nothing_deleted_error(location, &error),
            _ => {
                let before = formatting::counted(removed_count as u64, "path was", "paths were");
                let error = location.io_error(&error);
                Error::new(
                    error.code().clone(),
                    format_args!("{error}; {before} deleted before that"),
                )
                .with_details(serde_json::json!({ "deleted": removed }))
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
