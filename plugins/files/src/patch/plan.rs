//! The changes of files that a patch makes, computed before anything is written.

use std::fs::{self, Metadata};

use mimir_patch::{FilePatch, Patch, PatchChange, PatchHunk};
use mimir_sdk::prelude::*;

use super::changed_paths::ChangedPaths;
use super::rejects::RejectedHunks;
use super::text_file::{AppliedHunk, FileText};
use crate::formatting;
use crate::walk::Kind;
use crate::workspace_path::WorkspacePath;
use crate::write::{missing_parents, target};

/// Maximum size of a patched file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum size of all patched files together in bytes: their old and new texts are in memory.
const MAX_TOTAL_BYTES: u64 = 32 << 20;

/// Kind of a file change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "variants without docs make a plain `enum` in the schema"
)]
pub enum PatchAction {
    Added,
    Updated,
    Deleted,
    Moved,
}

/// The change of one file.
pub struct PlannedChange {
    /// Kind of the change.
    pub action: PatchAction,
    /// The file before the change; the new file if it is added.
    pub location: WorkspacePath,
    /// The new path of a moved file.
    pub to: Option<WorkspacePath>,
    /// The old content and metadata. `None` for an added file.
    pub old: Option<(String, Metadata)>,
    /// The new content, if it differs from the old one.
    pub content: Option<String>,
    /// The applied hunks.
    pub hunks: Vec<AppliedHunk>,
}

/// Computes the changes. Fails if a path is not valid or a hunk does not match; then the error names every such hunk.
pub fn plan(cx: &Context, patch: &Patch) -> Result<Vec<PlannedChange>> {
    let mut named = ChangedPaths::default();
    let (mut changes, mut rejected) = (Vec::new(), RejectedHunks::default());
    let mut total = 0;
    for file in merge_updates(patch) {
        let mut change =
            PlannedChange::resolve(cx, &file).map_err(|error| at_patch_line(&error, file.line))?;
        for location in std::iter::once(&change.location).chain(&change.to) {
            named.insert(location, file.line)?;
        }
        total += change.old.as_ref().map_or(0, |(old, _)| old.len() as u64);
        if total > MAX_TOTAL_BYTES {
            return Err(Error::limit_exceeded(format_args!(
                "the files of the patch have more than {}: apply it in parts",
                formatting::bytes(MAX_TOTAL_BYTES)
            )));
        }
        change.apply(&file.change, &mut rejected);
        changes.push(change);
    }
    rejected.into_result()?;
    Ok(changes)
}

/// Combines updates of the same file, which some models write as several sections.
fn merge_updates(patch: &Patch) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    for file in &patch.files {
        let earlier = files.iter_mut().find(|earlier| earlier.path == file.path);
        match (earlier.map(|earlier| &mut earlier.change), &file.change) {
            (Some(PatchChange::Update(hunks)), PatchChange::Update(more)) => {
                hunks.extend(more.iter().cloned());
            }
            _ => files.push(file.clone()),
        }
    }
    files
}

/// Adds the line of the patch to an error.
fn at_patch_line(error: &Error, line: usize) -> Error {
    Error::new(
        error.code().clone(),
        format_args!("line {line} of the patch: {}", error.message()),
    )
}

impl PlannedChange {
    /// Resolves the paths of a change and reads the old content.
    fn resolve(cx: &Context, file: &FilePatch) -> Result<Self> {
        let mut change = Self {
            action: PatchAction::Added,
            location: WorkspacePath::new(cx, &file.path)?,
            to: None,
            old: None,
            content: None,
            hunks: Vec::new(),
        };
        match &file.change {
            PatchChange::Add(_) => {
                let (location, existing) = target(cx, &file.path)?;
                if existing.is_some() {
                    return Err(Error::already_exists(format_args!(
                        "`{location}` exists; change it with `*** Update File`, or replace it with write_file"
                    )));
                }
                missing_parents(&location, true)?;
                change.location = location;
            }
            PatchChange::Update(_) => {
                let (location, _) = target(cx, &file.path)?;
                change.action = PatchAction::Updated;
                change.location = location;
                change.old = Some(read(&change.location)?);
            }
            PatchChange::Delete(_) => {
                change.action = PatchAction::Deleted;
                change.old = Some(read(&change.location)?);
            }
            PatchChange::Move { to, .. } => {
                change.action = PatchAction::Moved;
                change.old = Some(read(&change.location)?);
                let to = WorkspacePath::new(cx, to)?;
                if to.is_root() || to.metadata()?.is_some() {
                    return Err(Error::already_exists(format_args!(
                        "`{to}` exists, and a patch does not replace it; delete it or choose another name"
                    )));
                }
                missing_parents(&to, true)?;
                change.to = Some(to);
            }
        }
        Ok(change)
    }

    /// Computes the new content.
    fn apply(&mut self, change: &PatchChange, rejected: &mut RejectedHunks) {
        let hunks: &[PatchHunk] = match change {
            PatchChange::Add(hunk) => {
                let text = FileText::from_added(hunk.as_ref());
                self.hunks.push(AppliedHunk {
                    notes: Vec::new(),
                    added: text.line_count(),
                    removed: 0,
                });
                self.content = Some(text.to_text());
                return;
            }
            change => change.hunks(),
        };
        let old = self.old.as_ref().map_or("", |(old, _)| old.as_str());
        let mut text = FileText::new(old);
        match text.apply(hunks) {
            Ok(applied) => self.hunks = applied,
            Err(hunks_rejected) => {
                let shown = text.mask_keys(old);
                rejected.add(&self.location, &shown, hunks, hunks_rejected);
                return;
            }
        }
        if self.action == PatchAction::Deleted {
            if !hunks.is_empty() && text.line_count() > 0 {
                rejected.add_incomplete_deletion(&self.location, text.line_count());
            }
            return;
        }
        let new = text.to_text();
        if new != old {
            self.content = Some(new);
        }
    }
}

/// Reads a regular text file.
fn read(location: &WorkspacePath) -> Result<(String, Metadata)> {
    let metadata = location.existing_metadata()?;
    match Kind::from(&metadata) {
        Kind::File => {}
        Kind::Directory => {
            return Err(Error::invalid_input(format_args!(
                "`{location}` is a directory"
            )));
        }
        _ => {
            return Err(Error::invalid_input(format_args!(
                "`{location}` is not a regular file; delete_file and move_file handle it"
            )));
        }
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Error::limit_exceeded(format_args!(
            "`{location}` has {}, but only files of at most {} can be patched",
            formatting::bytes(metadata.len()),
            formatting::bytes(MAX_FILE_BYTES)
        )));
    }
    let bytes = fs::read(location.absolute()).map_err(|error| location.io_error(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::invalid_input(format_args!(
            "`{location}` is not UTF-8 text, so it can't be patched; delete_file, move_file and write_file handle it"
        ))
    })?;
    Ok((text, metadata))
}
