//! The changes that a call of a built-in file tool would make: the call runs on copies of the files that its arguments
//! name, in a temporary workspace, so that the shown difference is the one that would happen.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_core::paths::PathRules;
use mimir_core::policy::patched_paths;
use mimir_core::redact::Redactor;
use mimir_core::text::visible;
use mimir_core::{BoxFuture, ToolError};
use serde_json::Value;

use super::{CallDiff, PathState, UndoStore};
use crate::host::Host;
use crate::settings::MergedSettings;
use crate::user_dirs::UserDirs;

/// The built-in tools whose calls can be previewed: they only change files that their arguments name.
const TOOLS: [&str; 6] = [
    "write_file",
    "edit_file",
    "apply_patch",
    "delete_file",
    "move_file",
    "file_operations",
];

/// The arguments that name files.
const PATH_ARGUMENTS: [&str; 6] = ["path", "from", "to", "source", "destination", "target"];

/// Limits of a preview: number of copied files, their size in bytes, and number of shown lines.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 8 << 20;
const LINES_MAX: usize = 2_000;

/// A call to preview.
#[derive(Clone, Copy)]
pub struct PreviewedCall<'a> {
    /// The canonical name of the built-in tool.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Value,
    /// The files that the tool cannot reach. They are never copied or shown.
    pub paths: &'a PathRules,
}

/// The changes that a call would make.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPreview {
    /// The differences, each with the kind of the change: `added`, `removed` or `changed`.
    pub diffs: Vec<(&'static str, CallDiff)>,
    /// The reason why the differences are not known, or not all of them.
    pub note: Option<String>,
}

impl CallPreview {
    /// Returns true if calls of this built-in tool can be previewed.
    pub fn is_supported(tool: &str) -> bool {
        TOOLS.contains(&tool)
    }

    /// Runs the call on copies of the files below `root`. `None` if its tool is not supported.
    pub async fn new(
        user_dirs: &UserDirs,
        root: &Path,
        call: PreviewedCall<'_>,
        redactor: &Redactor,
    ) -> Result<Option<Self>, ToolError> {
        if !Self::is_supported(call.tool) {
            return Ok(None);
        }
        let note = |text: String| {
            Ok(Some(Self {
                diffs: Vec::new(),
                note: Some(text),
            }))
        };
        let mut arguments = call.arguments.clone();
        make_relative(&mut arguments, root);
        // Without a record of the old state, there is nothing to compare.
        if let Some(backup) = arguments.get_mut("backup") {
            *backup = Value::Bool(true);
        }
        let paths = named_paths(&arguments);
        let hidden = paths.iter().find(|path| is_hidden(call.paths, path));
        if hidden.is_some() {
            return note("a file of this call is hidden by the rules and is not shown".to_owned());
        }
        let (root, rules, named) = (root.to_owned(), call.paths.clone(), paths);
        let copied = tokio::task::spawn_blocking(move || FileCopies::new(&root, &rules, &named));
        let copies = match copied.await {
            Ok(Ok(copies)) => copies,
            Ok(Err(why)) => return note(why),
            Err(error) => return Err(ToolError::execution(error)),
        };
        let mut builder = Host::builder()
            .workspace(copies.workspace())
            .without_user()
            .settings(MergedSettings::default())
            .approver(Arc::new(PreviewApprover));
        if let Some(cache) = &user_dirs.cache {
            builder = builder.cache_dir(cache);
        }
        let host = builder.build().await?;
        let request = host.request(call.tool, arguments);
        let id = request.context.request_id.to_string();
        let outcome = host.run(request).await;
        if let Err(error) = outcome.result() {
            return note(format!("the call would fail: {}", error.message));
        }
        let store = UndoStore::for_workspace(&host.setup().workspace);
        let Some(record) = store.record_of(&id) else {
            return note("the call would change no file".to_owned());
        };
        let diffs = store.call_diffs(&id, redactor, LINES_MAX);
        let total = record.changes.len();
        let shown = diffs.len();
        let kind = |diff: &CallDiff| {
            let mut changes = record.changes.iter();
            let change = changes.find(|change| change.path == diff.path);
            change.map_or("changed", |change| match (&change.before, &change.after) {
                (PathState::Absent, _) => "added",
                (_, PathState::Absent) => "removed",
                _ => "changed",
            })
        };
        let mut notes: Vec<String> = Vec::new();
        if shown < total {
            notes.push(format!("{shown} of {total} changed paths are shown"));
        }
        for diff in diffs.iter().filter(|diff| diff.unknown.is_some()) {
            let mut changes = record.changes.iter();
            let change = changes.find(|change| change.path == diff.path);
            if let Some(PathState::File {
                size: Some(size), ..
            }) = change.map(|change| &change.after)
            {
                let path = visible(&diff.path);
                notes.push(format!("the new size of {path} is {size} bytes"));
            }
        }
        Ok(Some(Self {
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            diffs: diffs.into_iter().map(|diff| (kind(&diff), diff)).collect(),
        }))
    }
}

/// Returns true if a tool cannot reach the path, or something above it.
fn is_hidden(rules: &PathRules, path: &str) -> bool {
    rules.check_file(path).against_reading().is_some()
}

/// Approves the call of a preview, which only changes copies.
struct PreviewApprover;

impl Approver for PreviewApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::Once))
    }
}

/// Makes absolute paths below the workspace relative.
fn make_relative(arguments: &mut Value, root: &Path) {
    for name in PATH_ARGUMENTS {
        if let Some(Value::String(path)) = arguments.get_mut(name)
            && let Ok(relative) = Path::new(path.as_str()).strip_prefix(root)
        {
            *path = relative.to_string_lossy().into_owned();
        }
    }
}

/// Returns the paths that the arguments of a file tool name.
fn named_paths(arguments: &Value) -> BTreeSet<String> {
    let named = PATH_ARGUMENTS
        .iter()
        .filter_map(|name| arguments[name].as_str());
    let patched = arguments["patch"].as_str().map(patched_paths);
    named
        .map(str::to_owned)
        .chain(patched.into_iter().flatten())
        .collect()
}

/// Copies of files in a temporary workspace.
struct FileCopies {
    folder: tempfile::TempDir,
}

/// The files that are copied so far.
struct CopyBudget<'a> {
    rules: &'a PathRules,
    files: usize,
    bytes: u64,
}

impl FileCopies {
    /// Copies the named files and folders. The error is the reason why that is not possible.
    fn new(root: &Path, rules: &PathRules, named: &BTreeSet<String>) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the files cannot be copied: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        let copies = Self { folder };
        std::fs::create_dir_all(copies.workspace()).map_err(failed)?;
        let mut budget = CopyBudget {
            rules,
            files: 0,
            bytes: 0,
        };
        for path in named {
            let relative = checked_relative(path)
                .ok_or_else(|| "the call names a path outside of the workspace".to_owned())?;
            if mimir_core::files::reject_links(root, &root.join(&relative)).is_err() {
                return Err("a file of this call is behind a link".to_owned());
            }
            copies.copy(root, &relative, &mut budget)?;
        }
        Ok(copies)
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn copy(
        &self,
        root: &Path,
        relative: &Path,
        budget: &mut CopyBudget<'_>,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("a file cannot be read: {error}");
        let from = root.join(relative);
        let Ok(metadata) = std::fs::symlink_metadata(&from) else {
            return Ok(());
        };
        let shown = relative.to_string_lossy().replace('\\', "/");
        if is_hidden(budget.rules, &shown) {
            return Err("a file of this call is hidden by the rules and is not shown".to_owned());
        }
        let to = self.workspace().join(relative);
        if metadata.is_dir() {
            std::fs::create_dir_all(&to).map_err(failed)?;
            for entry in std::fs::read_dir(&from).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                self.copy(root, &relative.join(name), budget)?;
            }
            return Ok(());
        }
        if !metadata.is_file() {
            return Err("the call concerns a link or a special file".to_owned());
        }
        budget.files += 1;
        budget.bytes += metadata.len();
        if budget.files > FILES_MAX || budget.bytes > BYTES_MAX {
            return Err(
                "the files of this call are too many or too large to be compared".to_owned(),
            );
        }
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::copy(&from, &to).map(drop).map_err(failed)
    }
}

/// Returns a path without `.`; `None` if it may lead out of the workspace or into mimir's own folder.
fn checked_relative(path: &str) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => relative.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    let first = relative.components().next()?;
    (!first
        .as_os_str()
        .eq_ignore_ascii_case(crate::workspace::MIMIR_DIR))
    .then_some(relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::{CallDiffKind, CallDiffLine};
    use serde_json::json;

    async fn preview(root: &Path, rules: &PathRules, tool: &str, arguments: &Value) -> CallPreview {
        let call = PreviewedCall {
            tool,
            arguments,
            paths: rules,
        };
        let cache = std::env::temp_dir().join("mimir-test-preview-cache");
        let user_dirs = UserDirs {
            cache: Some(cache),
            ..UserDirs::default()
        };
        let redactor = Redactor::new();
        let preview = CallPreview::new(&user_dirs, root, call, &redactor);
        preview.await.unwrap().unwrap()
    }

    fn changed_lines(diff: &CallDiff) -> Vec<(CallDiffKind, &str)> {
        let changed =
            |line: &&CallDiffLine| matches!(line.kind, CallDiffKind::Added | CallDiffKind::Removed);
        let lines = diff.lines.iter().filter(changed);
        lines.map(|line| (line.kind, line.text.as_str())).collect()
    }

    #[tokio::test]
    async fn call_preview_shows_the_change_and_makes_none() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::write(root.join("a.txt"), "one\ntwo\n").unwrap();
        std::fs::write(root.join("hidden.txt"), "x\n").unwrap();
        let rules = PathRules::none();
        let arguments =
            json!({"path": "a.txt", "pattern": "two", "replacement": "2", "backup": false});
        let edit = preview(&root, &rules, "edit_file", &arguments).await;
        assert_eq!(edit.note, None);
        let [("changed", diff)] = edit.diffs.as_slice() else {
            panic!("{edit:?}");
        };
        let lines = [(CallDiffKind::Removed, "two"), (CallDiffKind::Added, "2")];
        assert_eq!(changed_lines(diff), lines);
        let unchanged = std::fs::read_to_string(root.join("a.txt")).unwrap();
        assert_eq!(unchanged, "one\ntwo\n");

        let write = json!({"path": "new/b.txt", "content": "x\n", "createDirs": true});
        let write = preview(&root, &rules, "write_file", &write).await;
        assert_eq!(
            write
                .diffs
                .iter()
                .map(|(kind, _)| *kind)
                .collect::<Vec<_>>(),
            ["added"]
        );
        assert!(!root.join("new").exists());

        // Not compared, so at least the size is shown.
        let large = json!({"path": "a.txt", "content": "x".repeat(300 << 10)});
        let large = preview(&root, &rules, "write_file", &large).await;
        assert!(large.diffs[0].1.unknown.is_some());
        let note = "the new size of a.txt is 307200 bytes";
        assert_eq!(large.note.as_deref(), Some(note));

        let delete = preview(&root, &rules, "delete_file", &json!({"path": "a.txt"})).await;
        assert_eq!(delete.diffs[0].0, "removed");

        let absent = json!({"path": "a.txt", "pattern": "three", "replacement": "3"});
        let fails = preview(&root, &rules, "edit_file", &absent).await;
        assert!(fails.note.unwrap().starts_with("the call would fail:"));

        let hides = PathRules::none().deny(["hidden.txt"]).unwrap();
        let hidden = json!({"path": "hidden.txt", "content": "y"});
        let hidden = preview(&root, &hides, "write_file", &hidden).await;
        assert_eq!((hidden.diffs.len(), hidden.note.is_some()), (0, true));

        for outside in ["../a.txt", "/etc/hostname", ".mimir/config.yml"] {
            let call = json!({"path": outside, "content": "y"});
            let refused = preview(&root, &rules, "write_file", &call).await;
            assert_eq!(
                (refused.diffs.len(), refused.note.is_some()),
                (0, true),
                "{outside}"
            );
        }
    }
}
