//! Plans and results of `mimir setup --undo`.

use std::io::{self, Write};
use std::path::PathBuf;

use mimir_core::text::visible;
use serde::Serialize;

use super::setup::{INDENT, SetupErrorReport, list_names, masked_diff, write_diff};
use super::{BAD, FAINT, GOOD, WARN, indented, shorten_home, styled};
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
#[serde(rename_all = "camelCase")]
struct UndoneFileReport {
    agent: &'static str,
    file: String,
    /// One of `restored`, `removed`, `entryRemoved`, `unchanged`, `stillUsed`, `failed`.
    result: &'static str,
    /// The other workspaces that use the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    used_by: Vec<String>,
    /// True if the entry is not the one that the setup wrote.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    keeps_entry: bool,
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
                Ok(None) if !file.used_by.is_empty() => ("stillUsed", String::new(), None),
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
                used_by: file
                    .used_by
                    .iter()
                    .map(|root| visible(&root.display().to_string()))
                    .collect(),
                keeps_entry: file.keeps_entry,
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
            let name = shorten_home(&file.file);
            let text = match (&file.error, file.result) {
                (Some(error), _) => error.message().to_owned(),
                (None, "unchanged") if file.keeps_entry => format!(
                    "{name} has another entry `mimir` than the one of the setup, which stays"
                ),
                (None, "unchanged") => format!("{name} has no entry `mimir` any more"),
                (None, "removed") => format!("{name} would be removed"),
                (None, "restored") => format!("{name} would be restored"),
                (None, "stillUsed") => format!(
                    "{name} stays, because other projects use it: {}",
                    file.used_by.join(", ")
                ),
                (None, _) => format!(
                    "{name} has changed since; only its entry `mimir` would be taken back, \
                     with your changes in that entry"
                ),
            };
            let mark = match file.result {
                "failed" => styled(BAD, "✗"),
                "unchanged" | "stillUsed" => styled(FAINT, "·"),
                _ => styled(WARN, "-"),
            };
            writeln!(out, "{mark} {:<12} {}", file.agent, indented(&text, INDENT))?;
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
            writeln!(
                out,
                "\nThese have changed since, or are used by files that stay:"
            )?;
            for path in &self.kept {
                writeln!(out, "  {path}")?;
            }
        }
        writeln!(out)
    }

    /// The changes in one sentence, for the question.
    pub fn summary(&self) -> String {
        let changed = self.files.iter().filter(|file| !file.diff.is_empty());
        let mut parts: Vec<String> = changed
            .map(|file| {
                let verb = match file.result {
                    "removed" => "removes",
                    "restored" => "restores",
                    _ => "takes its entry out of",
                };
                format!("{verb} {} for {}", shorten_home(&file.file), file.agent)
            })
            .collect();
        if !self.removed.is_empty() {
            parts.push(format!("removes {} files of .mimir", self.removed.len()));
        }
        if parts.is_empty() {
            let failed = self.files.iter().any(|file| file.error.is_some());
            let rest = if failed {
                ""
            } else {
                ", and removes the record of the setup"
            };
            return format!("Undo changes no file{rest}.");
        }
        format!("Undo {}.", list_names(&parts, "and"))
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
