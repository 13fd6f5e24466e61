//! `apply_patch`.

use std::fmt::Write;

use mimir_patch::{FilePatch, Patch, PatchChange};
use mimir_sdk::prelude::*;
use mimir_sdk::text;

use crate::{formatting, undo_record};

mod changed_paths;
mod commit;
mod matching;
mod plan;
mod rejects;
mod text_file;

pub use plan::PatchAction;
use plan::PlannedChange;

/// Maximum number of paths in the summary of an assessment.
const MAX_LISTED_PATHS: usize = 20;

/// Applies a patch to files: a unified diff, or `*** Begin Patch` with `*** Add File:`, `*** Update File:`, `*** Delete
/// File:` and `*** Move to:`. Changes all files or none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyPatch {
    /// The patch; paths are relative to the workspace root.
    pub patch: String,
}

/// Result of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patched {
    /// The files in the order of the patch.
    pub files: Vec<PatchedFile>,
    /// Id of the record from which `mimir undo` restores the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

/// A file that a patch has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchedFile {
    /// The file, at its new path.
    pub path: String,
    /// Kind of the change.
    pub action: PatchAction,
    /// The old path of a moved file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
    /// Hunks that match only approximately.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inexact: Vec<InexactHunk>,
}

/// A hunk that matches only approximately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InexactHunk {
    /// Number of the hunk in its file, from 1.
    pub hunk: usize,
    /// Differences between the patch and the file.
    pub notes: Vec<String>,
}

impl Tool for ApplyPatch {
    type Output = Worded<Patched>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Apply patch");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive();

    fn needs() -> Needs {
        Needs::none().write(".", "to change the files that a patch names")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let changes = plan::plan(cx, &self.parse()?)?;
        commit::commit(&changes)?;
        let is_changed = changes
            .iter()
            .any(|change| change.content.is_some() || change.action != PatchAction::Updated);
        let files: Vec<PatchedFile> = changes.iter().map(PatchedFile::from_change).collect();
        let text = describe(&files);
        let backup = undo_record(cx, is_changed);
        Ok(Json(Patched { files, backup }).worded(text))
    }
}

impl Assess for ApplyPatch {
    fn assess(&self, _: &Context) -> Assessment {
        match self.parse() {
            // The call will fail and change nothing.
            Err(error) => Assessment::allow(error.to_string()),
            Ok(patch) => {
                let adds_only = patch
                    .files
                    .iter()
                    .all(|file| matches!(file.change, PatchChange::Add(_)));
                let deletes = patch
                    .files
                    .iter()
                    .any(|file| matches!(file.change, PatchChange::Delete(_)));
                let summary = summarize(&patch);
                if adds_only {
                    Assessment::allow(summary)
                } else if deletes {
                    Assessment::ask(summary).risk(Risk::High)
                } else {
                    Assessment::ask(summary)
                }
            }
        }
    }
}

impl ApplyPatch {
    fn parse(&self) -> Result<Patch> {
        mimir_patch::parse(&self.patch).map_err(Error::invalid_input)
    }
}

/// Verbs of the changes in the summary of an assessment, in their order: what removes most comes first.
const VERBS: [&str; 5] = [
    "deletes",
    "changes and moves",
    "moves",
    "changes",
    "creates",
];

/// Returns the verb of a change.
fn verb(change: &PatchChange) -> &'static str {
    match change {
        PatchChange::Delete(_) => "deletes",
        PatchChange::Move { hunks, .. } if hunks.is_empty() => "moves",
        PatchChange::Move { .. } => "changes and moves",
        PatchChange::Update(_) => "changes",
        PatchChange::Add(_) => "creates",
    }
}

/// Lists the changes of a patch for the person who approves it. Changes beyond the limit are counted by kind.
fn summarize(patch: &Patch) -> String {
    let mut parts = Vec::new();
    let mut places = MAX_LISTED_PATHS;
    for kind in VERBS {
        let files = patch.files.iter();
        let files: Vec<&FilePatch> = files.filter(|file| verb(&file.change) == kind).collect();
        let (listed, hidden) = files.split_at(files.len().min(places));
        places -= listed.len();
        parts.extend(listed.iter().map(|file| {
            let path = text::brief(&file.path);
            match &file.change {
                PatchChange::Move { to, .. } => format!("{kind} {path} to {}", text::brief(to)),
                _ => format!("{kind} {path}"),
            }
        }));
        if !hidden.is_empty() {
            let count = formatting::counted(hidden.len() as u64, "more file", "more files");
            parts.push(format!("{kind} {count}"));
        }
    }
    parts.join(", ")
}

/// Describes the changed files, one per line.
fn describe(files: &[PatchedFile]) -> String {
    let mut text = String::new();
    for file in files {
        let path = text::name(&file.path);
        let verb = match file.action {
            PatchAction::Added => "Created",
            PatchAction::Updated => "Changed",
            PatchAction::Deleted => "Deleted",
            PatchAction::Moved => "Moved",
        };
        let _ = match &file.from {
            Some(from) => write!(text, "{verb} {} to {path}", text::name(from)),
            None => write!(text, "{verb} {path}"),
        };
        let _ = writeln!(text, " (+{} -{})", file.added, file.removed);
        for inexact in &file.inexact {
            let _ = writeln!(
                text,
                "  hunk {} matched approximately: {}",
                inexact.hunk,
                inexact.notes.join(", ")
            );
        }
    }
    text
}

impl PatchedFile {
    fn from_change(change: &PlannedChange) -> Self {
        let inexact = (1..)
            .zip(&change.hunks)
            .filter(|(_, applied)| !applied.notes.is_empty())
            .map(|(hunk, applied)| InexactHunk {
                hunk,
                notes: applied.notes.clone(),
            });
        // A deletion without lines in the patch removes all lines.
        let removed = match (&change.old, change.action) {
            (Some((old, _)), PatchAction::Deleted) => old.lines().count(),
            _ => change.hunks.iter().map(|hunk| hunk.removed).sum(),
        };
        Self {
            path: change.target().exact().to_owned(),
            action: change.action,
            from: change
                .to
                .is_some()
                .then(|| change.location.exact().to_owned()),
            added: change.hunks.iter().map(|hunk| hunk.added).sum(),
            removed,
            inexact: inexact.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
