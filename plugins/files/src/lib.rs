//! The file tools: `read_file`, `write_file`, `edit_file`, `list_directory`, `delete_file`,
//! `move_file`, `apply_patch`, `file_info`, and `file_operations`, the compact form of them.
//!
//! Each tool is one module with its arguments, its behaviour and its result. `workspace_path` resolves a caller's path
//! inside the workspace, and `atomic` writes content atomically.
//!
//! Out of scope: path rules and the records for `mimir undo`. The host enforces the rules and makes the records, and no
//! tool can bypass them.

mod atomic;
mod delete;
mod diff;
mod edit;
mod formatting;
mod image;
mod info;
mod list;
mod operations;
mod patch;
mod read;
mod relocate;
mod walk;
mod workspace_path;
mod write;

pub use delete::{DeleteFile, Deleted};
pub use diff::{Diff, Hunk};
pub use edit::{EditFile, Edited};
pub use info::{FileInfo, Info};
pub use list::{Entry, ListDirectory, Listing};
pub use operations::{FileOperations, Operated, Operation, OperationOutput, OperationResult};
pub use patch::{ApplyPatch, InexactHunk, PatchAction, Patched, PatchedFile};
pub use read::{Encoding, FileContent, ImageInfo, ReadFile, ReadResult};
pub use relocate::{MoveFile, Moved};
pub use walk::Kind;
pub use write::{WriteFile, Written};

mimir_sdk::export!(
    ReadFile, ListDirectory, FileInfo;
    assessed WriteFile, EditFile, DeleteFile, MoveFile, ApplyPatch, FileOperations
);

/// Default of the argument `backup`: backups are made.
pub(crate) const fn default_true() -> bool {
    true
}

/// Returns the id of the host's undo record for this call, if the host records changes of the call.
pub(crate) fn undo_record(cx: &mimir_sdk::Context, recorded: bool) -> Option<String> {
    recorded.then(|| cx.request_id().to_owned())
}

#[cfg(test)]
mod kit {
    use std::path::Path;

    use mimir_sdk::Context;

    /// A workspace.
    pub(crate) struct Workspace {
        dir: tempfile::TempDir,
    }

    impl Workspace {
        pub fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { dir }
        }

        pub fn with(files: &[(&str, &str)]) -> Self {
            let workspace = Self::new();
            for (path, content) in files {
                workspace.put(path, content.as_bytes());
            }
            workspace
        }

        pub fn root(&self) -> &Path {
            self.dir.path()
        }

        pub fn put(&self, path: &str, content: &[u8]) {
            let path = self.root().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        pub fn text(&self, path: &str) -> String {
            std::fs::read_to_string(self.root().join(path)).unwrap()
        }

        pub fn has(&self, path: &str) -> bool {
            self.root().join(path).symlink_metadata().is_ok()
        }

        pub fn cx(&self) -> Context {
            Context::at(self.root())
        }
    }
}
