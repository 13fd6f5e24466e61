//! `delete_file`.

use std::{fs, io};

use mimir_sdk::prelude::*;

use crate::place::Place;
use crate::walk::{self, Kind};
use crate::write::kept;
use crate::{undo_record, words, yes};

/// Maximum number of paths listed in a result.
const MAX_LISTED_NAMES: usize = 500;

/// Maximum number of entries that are counted for the approval prompt.
const MAX_COUNTED: u64 = 10_000;

/// Deletes a file, or a directory with everything in it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteFile {
    /// The file or directory, relative to the workspace root.
    pub path: String,
    /// Delete a directory although there is something in it.
    #[serde(default)]
    pub recursive: bool,
    /// Keep what is deleted, so that `mimir undo` brings it back.
    #[serde(default = "yes")]
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
    /// True if `deleted` lists only a part of them.
    pub truncated: bool,
    /// Record from which `mimir undo` restores it.
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
        let (place, kind) = victim(cx, &self.path)?;
        if kind == Kind::Directory && !self.recursive {
            let inside = walk::entries(&place)?.len() as u64;
            if inside > 0 {
                let inside = words::counted(inside, "entry", "entries");
                return Err(Error::invalid_input(format_args!(
                    "`{place}` is a directory with {inside}; `recursive: true` deletes it with everything in it"
                )));
            }
        }
        let mut victims = Vec::new();
        walk::bottom_up(&place, kind, &mut |place, kind| {
            victims.push((place.clone(), kind));
            match kind {
                Kind::Unreadable => Err(cannot_name(place)),
                _ => Ok(()),
            }
        })?;
        if victims.len() > 1 {
            may_be_emptied(&place)?;
        }
        remove(&victims)?;
        let total = victims.len();
        let text = match (kind, total) {
            (Kind::Directory, 2..) => {
                format!(
                    "Deleted {} with {} in it",
                    place.shown(),
                    words::counted(total as u64 - 1, "entry", "entries")
                )
            }
            _ => format!("Deleted {}", place.shown()),
        };
        let deleted = victims
            .iter()
            .take(MAX_LISTED_NAMES)
            .map(|(place, _)| place.exact().to_owned())
            .collect();
        Ok(Json(Deleted {
            deleted,
            total,
            truncated: total > MAX_LISTED_NAMES,
            backup: undo_record(cx, self.backup),
        })
        .worded(text))
    }
}

impl Assess for DeleteFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let summary = match victim(cx, &self.path) {
            Err(error) => error.to_string(),
            Ok((place, Kind::Directory)) => match count(&place) {
                0 => format!("deletes the empty directory {}", place.shown()),
                MAX_COUNTED.. => format!(
                    "deletes {} with more than {MAX_COUNTED} entries in it",
                    place.shown()
                ),
                inside => {
                    format!(
                        "deletes {} with {} in it",
                        place.shown(),
                        words::counted(inside, "entry", "entries")
                    )
                }
            },
            Ok((place, _)) => {
                let size = place
                    .look()
                    .ok()
                    .flatten()
                    .map_or(0, |metadata| metadata.len());
                format!("deletes {} ({})", place.shown(), words::bytes(size))
            }
        };
        kept(
            Assessment::ask(summary).risk(Risk::High),
            self.backup,
            "what is deleted is lost",
        )
    }
}

/// Error for a name that no tool can express. Nothing is deleted then, because half a folder is worse than all of it.
fn cannot_name(place: &Place) -> Error {
    Error::unavailable(format_args!(
        "the name of `{place}` is not UTF-8, so no tool can delete it, and nothing was deleted; rename or remove it by hand first"
    ))
}

/// Resolves the path to delete: a link itself, not its target.
fn victim(cx: &Context, path: &str) -> Result<(Place, Kind)> {
    let place = Place::new(cx, path)?;
    if place.is_root() {
        return Err(Error::invalid_path(
            "that is the workspace itself, which is not deleted",
        ));
    }
    let kind = Kind::from(&place.must_exist()?);
    Ok((place, kind))
}

/// Counts the entries below a folder, as far as they are readable.
fn count(folder: &Place) -> u64 {
    let mut inside = 0;
    // Failing stops the walk early, as does an unreadable folder.
    let _ = walk::bottom_up(folder, Kind::Directory, &mut |place, _| {
        inside += u64::from(place != folder);
        if inside < MAX_COUNTED {
            Ok(())
        } else {
            Err(Error::limit_exceeded("enough"))
        }
    });
    inside
}

/// Checks that the host allows every deletion below a folder, because half a folder is worse than all of it. It tries
/// to remove the folder as it is: that fails since the folder is not empty, and the host reports any rule against
/// emptying it, and contents that are too much to be recorded for undo.
fn may_be_emptied(folder: &Place) -> Result<()> {
    match fs::remove_dir(folder.path()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(nothing_deleted(folder, &error))
        }
        // The removal can succeed if someone has emptied the folder by now, which is the desired result.
        _ => Ok(()),
    }
}

fn nothing_deleted(place: &Place, error: &io::Error) -> Error {
    let error = place.failed(error);
    Error::new(
        error.code().clone(),
        format_args!("{error}; nothing was deleted"),
    )
}

/// Removes the paths one by one. If one fails, those removed before it can still be undone.
fn remove(victims: &[(Place, Kind)]) -> Result<()> {
    for (done, (place, kind)) in victims.iter().enumerate() {
        let removed = match kind {
            Kind::Directory => fs::remove_dir(place.path()),
            _ => fs::remove_file(place.path()),
        };
        let Err(error) = removed else { continue };
        if done > 0 && error.kind() == io::ErrorKind::NotFound {
            // Removed by someone else in the meantime.
            continue;
        }
        let gone: Vec<&str> = victims[..done]
            .iter()
            .take(MAX_LISTED_NAMES)
            .map(|(place, _)| place.exact())
            .collect();
        return Err(match done {
            0 => nothing_deleted(place, &error),
            _ => {
                let before = words::counted(done as u64, "path was", "paths were");
                let error = place.failed(&error);
                Error::new(
                    error.code().clone(),
                    format_args!("{error}; {before} deleted before that"),
                )
                .with_details(serde_json::json!({ "deleted": gone }))
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
