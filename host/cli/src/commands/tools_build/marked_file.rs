//! Files in the folder of a plugin that builds write for other programs, such as editors.

use std::io;
use std::path::Path;

use mimir::file_error::{file_error, write_atomically};
use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};

/// Maximum size in bytes of a file that is read to find out who wrote it.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Writes a text, which begins with `mark`. A file that mimir did not write is left unchanged; returns false in this case.
pub fn write_marked_file(path: &Path, mark: &str, text: &str) -> Result<bool, ToolError> {
    match read_text(path, LinkPolicy::Refuse, MAX_FILE_SIZE) {
        Ok(found) if found == text => return Ok(true),
        Ok(found) if !found.starts_with(mark) => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A link, or no text: not by mimir.
        Err(_) => return Ok(false),
    }
    write_atomically(path, text.as_bytes()).map_err(|e| file_error("write", path, &e))?;
    Ok(true)
}
