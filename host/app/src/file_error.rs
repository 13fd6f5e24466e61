//! Errors of file operations, and atomic writes.

use std::io;
use std::path::Path;

use mimir_core::{ToolError, ToolErrorCode};

use crate::private_files::{self, FileReaders};

/// Creates the error of a failed file operation. Its message is "cannot `action` PATH: …".
pub fn file_error(action: &str, path: &Path, error: &io::Error) -> ToolError {
    let code = match error.kind() {
        io::ErrorKind::NotFound => ToolErrorCode::FileNotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ToolErrorCode::PermissionDenied
        }
        io::ErrorKind::AlreadyExists => ToolErrorCode::AlreadyExists,
        _ => ToolErrorCode::ExecutionError,
    };
    let shown = mimir_core::text::visible(&path.display().to_string());
    ToolError::new(code, format!("cannot {action} {shown}: {error}"))
}

/// Replaces a file atomically. Creates its folder if needed.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    private_files::replace(path, content, FileReaders::Everybody)
}
