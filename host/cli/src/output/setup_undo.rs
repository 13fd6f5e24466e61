//! Plans and results of `mimir setup --undo`.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::setup::{SetupErrorReport, masked_diff, write_diff};
use super::{BAD, FAINT, GOOD, WARN, styled};
use mimir::agents::{AgentSetupError, SetupUndo};
use mimir::workspace::WorkspaceFolder;

/// A plan or a result.
#[derive(Serialize)]
pub struct UndoReport {
    applied: bool,
    files: Vec<UndoneFileReport>,
    removed: Vec<String>,
    kept: Vec<String>,
    failed: Vec<SetupErrorReport>,
}

/// A config file in a report.
#[derive(Serialize)]
struct UndoneFileReport {
    agent: &'static str,
    file: String,
    /// One of `restored`, `removed`, `entryRemoved`, `unchanged`, `failed`.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<SetupErrorReport>,
}

impl UndoReport {
    /// Describes a plan.
    pub fn new(workspace: &WorkspaceFolder, undo: &SetupUndo) -> Self {
        let files = undo.files.iter().map(|file| {
            let shown = workspace.display_path(&file.path);
            let (result, diff, error) = match &file.change {
                Ok(None) => ("unchanged", String::new(), None),
                Ok(Some(change)) => {
                    let result = if change.removes_file() {
                        "removed"
                    } else if change.is_restored {
                        "restored"
                    } else {
                        "entryRemoved"
                    };
                    let diff = masked_diff(change.diff(shown.trim_start_matches('/')));
                    (result, diff, None)
                }
                Err(error) => ("failed", String::new(), Some(error.into())),
            };
            UndoneFileReport {
                agent: file.agent.title(),
                file: shown,
                result,
                diff,
                error,
            }
        });
        let removed = undo.removed.iter();
        Self {
            applied: false,
            files: files.collect(),
            removed: removed
                .map(|created| workspace.display_path(&created.path))
                .collect(),
            kept: undo
                .kept
                .iter()
                .map(|path| workspace.display_path(path))
                .collect(),
            failed: Vec::new(),
        }
    }

    /// Stores the errors of the changes.
    pub fn set_applied(&mut self, failed: &[(PathBuf, AgentSetupError)]) {
        self.applied = true;
        self.failed = failed.iter().map(|(_, error)| error.into()).collect();
    }

    /// Writes what would be changed.
    pub fn print_plan(&self, out: &mut dyn Write) -> io::Result<()> {
        for file in &self.files {
            let text = match (&file.error, file.result) {
                (Some(error), _) => error.message().to_owned(),
                (None, "unchanged") => format!("{} has no entry `mimir` any more", file.file),
                (None, "removed") => format!("{} would be removed", file.file),
                (None, "restored") => format!("{} would be restored", file.file),
                (None, _) => format!(
                    "{} has changed since; only its entry `mimir` would be taken back, \
                     with your changes in that entry",
                    file.file
                ),
            };
            let mark = match file.result {
                "failed" => styled(BAD, "✗"),
                "unchanged" => styled(FAINT, "·"),
                _ => styled(WARN, "-"),
            };
            writeln!(out, "{mark} {:<12} {text}", file.agent)?;
        }
        for file in self.files.iter().filter(|file| !file.diff.is_empty()) {
            writeln!(out)?;
            write_diff(out, &file.diff)?;
        }
        if !self.removed.is_empty() {
            writeln!(
                out,
                "\nThese files are as the setup made them and would be removed:"
            )?;
            for path in &self.removed {
                writeln!(out, "  {path}")?;
            }
        }
        if !self.kept.is_empty() {
            writeln!(out, "\nThese have changed since and stay:")?;
            for path in &self.kept {
                writeln!(out, "  {path}")?;
            }
        }
        writeln!(out)
    }

    /// Writes the result.
    pub fn print_applied(&self, out: &mut dyn Write) -> io::Result<()> {
        for error in &self.failed {
            writeln!(out, "{} {}", styled(BAD, "failed:"), error.message())?;
        }
        if self.failed.is_empty() {
            writeln!(
                out,
                "{} the setup of this workspace",
                styled(GOOD, "took back")
            )?;
            if !self.kept.is_empty() {
                writeln!(out, "Kept: {}", self.kept.join(", "))?;
            }
        }
        Ok(())
    }
}
