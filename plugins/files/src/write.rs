//! `write_file`.

use std::fs::{self, Metadata};

use mimir_sdk::prelude::*;

use crate::read::Encoding;
use crate::walk::Kind;
use crate::workspace_path::WorkspacePath;
use crate::{atomic, default_true, formatting, undo_record};

/// Creates a file or replaces its whole content. To change a part of a file, use edit_file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteFile {
    /// The file, relative to the workspace root.
    pub path: String,
    /// The new content.
    pub content: String,
    /// `utf-8` (default) if `content` is text, `base64` if it is encoded binary data.
    #[serde(default)]
    pub encoding: Encoding,
    /// Create missing parent directories.
    #[serde(default)]
    pub create_dirs: bool,
    /// Keep the old content, so that `mimir undo` can restore it.
    #[serde(default = "default_true")]
    pub backup: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The file.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// True if the file did not exist before.
    pub created: bool,
    /// Id of the record from which `mimir undo` restores the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

impl Tool for WriteFile {
    type Output = Worded<Written>;
    const GROUP: Group = Group::Fs;
    const TITLE: Option<&'static str> = Some("Write file");
    const RISK: Risk = Risk::Medium;
    const HINTS: Hints = Hints::NONE.destructive().idempotent();

    fn needs() -> Needs {
        Needs::none().write(".", "to write the files of the workspace")
    }

    fn run(self, cx: &Context) -> Result<Self::Output> {
        let (location, existing) = target(cx, &self.path)?;
        let content = self.encoding.decode(&self.content)?;
        let missing = missing_parents(&location, self.create_dirs)?;
        let size = content.len() as u64;
        let unchanged = existing.as_ref().is_some_and(|old| old.len() == size)
            && fs::read(location.absolute()).is_ok_and(|old| old == content);
        with_new_folders(&missing, || {
            atomic::write(&location, &content, existing.as_ref())
        })?;
        let (path, bytes) = (location.escaped(), formatting::bytes(size));
        let text = match &existing {
            None => format!("Created {path} ({bytes})"),
            Some(old) => format!(
                "Replaced {path} ({bytes}, before {})",
                formatting::bytes(old.len())
            ),
        };
        let written = Written {
            path: location.exact().to_owned(),
            size,
            created: existing.is_none(),
            backup: undo_record(cx, self.backup && !unchanged),
        };
        Ok(Json(written).worded(text))
    }
}

impl Assess for WriteFile {
    fn assess(&self, cx: &Context) -> Assessment {
        let bytes = formatting::bytes(self.content.len() as u64);
        match target(cx, &self.path) {
            Err(error) => Assessment::allow(error.to_string()),
            Ok((location, None)) => {
                Assessment::allow(format!("creates {} ({bytes})", location.escaped()))
            }
            Ok((location, Some(old))) => {
                let old = formatting::bytes(old.len());
                let assessment =
                    Assessment::ask(format!("overwrites {} ({old})", location.escaped()));
                warn_without_backup(assessment, self.backup, "the old content is lost")
            }
        }
    }
}

/// If no backup is made, raises the risk of an assessment and adds the loss as a consequence.
pub fn warn_without_backup(assessment: Assessment, backup: bool, loss: &str) -> Assessment {
    if backup {
        assessment
    } else {
        assessment
            .risk(Risk::High)
            .because(format!("no backup is made: {loss}"))
    }
}

/// Resolves the path of a file to write, and returns the metadata of an existing file. Fails if the path cannot be a
/// file.
pub fn target(cx: &Context, path: &str) -> Result<(WorkspacePath, Option<Metadata>)> {
    let written = WorkspacePath::new(cx, path)?;
    if path.ends_with('/') {
        return Err(Error::invalid_path(format_args!(
            "`{written}/` names a directory, not a file"
        )));
    }
    let location = written.resolve_links()?;
    let existing = location.metadata()?;
    match existing.as_ref().map(Kind::from) {
        None | Some(Kind::File) => Ok((location, existing)),
        Some(Kind::Directory) => Err(Error::invalid_input(format_args!(
            "`{location}` is a directory"
        ))),
        Some(_) => Err(Error::invalid_input(format_args!(
            "`{location}` is not a regular file"
        ))),
    }
}

/// Returns the missing parent folders of `location`, outermost first. Fails if folders are missing and `may_create` is
/// false.
pub fn missing_parents(location: &WorkspacePath, may_create: bool) -> Result<Vec<WorkspacePath>> {
    let mut missing = Vec::new();
    let mut folder = location.parent();
    while !folder.is_root() {
        match folder.resolve_links()?.metadata()? {
            Some(metadata) if metadata.is_dir() => break,
            Some(_) => {
                return Err(Error::invalid_path(format_args!(
                    "`{folder}` is not a directory"
                )));
            }
            None => missing.push(folder.clone()),
        }
        folder = folder.parent();
    }
    missing.reverse();
    if let Some(first) = missing.first()
        && !may_create
    {
        return Err(Error::file_not_found(format_args!(
            "the directory `{first}` does not exist; `createDirs: true` creates it"
        )));
    }
    Ok(missing)
}

/// Creates the folders and runs `action`. If either fails, removes the created folders again.
pub fn with_new_folders(
    missing: &[WorkspacePath],
    action: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let mut created_count = 0;
    let result = missing
        .iter()
        .try_for_each(|folder| {
            fs::create_dir(folder.absolute()).map_err(|error| folder.io_error(&error))?;
            created_count += 1;
            Ok(())
        })
        .and_then(|()| action());
    if result.is_err() {
        // A folder in which another process has created a file is not empty, and is not removed.
        for folder in missing[..created_count].iter().rev() {
            let _ = fs::remove_dir(folder.absolute());
        }
    }
    result
}

#[cfg(test)]
mod tests;
