//! Errors of file operations, and atomic writes.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use mimir_core::{ToolError, ToolErrorCode};

/// A file operation that failed, as an error that names the file.
pub fn file_error(doing: &str, path: &Path, error: &io::Error) -> ToolError {
    let code = match error.kind() {
        io::ErrorKind::NotFound => ToolErrorCode::FileNotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ToolErrorCode::PermissionDenied
        }
        io::ErrorKind::AlreadyExists => ToolErrorCode::AlreadyExists,
        _ => ToolErrorCode::ExecutionError,
    };
    let place = mimir_core::text::visible(&path.display().to_string());
    ToolError::new(code, format!("cannot {doing} {place}: {error}"))
}

/// Writes a file atomically. Creates its folder if needed.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .prefix(".mimir-")
        .suffix(".tmp")
        .tempfile_in(folder)?;
    file.write_all(content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path)?;
    Ok(())
}
