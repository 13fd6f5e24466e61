//! Editor support for tools in YAML files: their schema, and the types available to their code.

use std::io;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{LinkPolicy, read_text};

use crate::exit::{CommandResult, ExitReason};
use crate::output::ResultPrinter;
use mimir::file_error::file_error;
use mimir::workspace::WorkspaceFolder;

/// TypeScript types of `context`.
pub const TYPES: &str = include_str!("../../../../sdk/typescript/mimir.d.ts");

/// File names in `.mimir`. Tools refer to the files by relative paths, so the files can be committed.
const SCHEMA_FILE: &str = "tool.schema.json";
const TYPES_FILE: &str = "mimir.d.ts";

/// First line of a tool in `.mimir/tools`, which tells language servers where the schema is.
pub const SCHEMA_COMMENT: &str = "# yaml-language-server: $schema=../tool.schema.json\n";

/// Prints the schema of a tool in a YAML file.
pub fn schema(printer: ResultPrinter) -> CommandResult {
    printer.print_json(&mimir_script::schema())?;
    Ok(ExitReason::Done)
}

/// Prints the types available to the code of a tool.
pub fn types(printer: ResultPrinter) -> CommandResult {
    printer.print_result(&TYPES, |out| out.write_all(TYPES.as_bytes()))?;
    Ok(ExitReason::Done)
}

/// Writes the schema and the types of this version into `.mimir`. Returns the paths; the flag is true if the file was
/// created or changed.
pub fn write_editor_files(workspace: &WorkspaceFolder) -> Result<Vec<(String, bool)>, ToolError> {
    let schema = serde_json::to_string_pretty(&mimir_script::schema()).unwrap_or_default() + "\n";
    let mut written = Vec::new();
    for (name, text) in [(SCHEMA_FILE, schema.as_str()), (TYPES_FILE, TYPES)] {
        let path = workspace.mimir_dir().join(name);
        workspace.check_no_links(&path)?;
        let is_new =
            write_if_changed(&path, text).map_err(|error| file_error("write", &path, &error))?;
        written.push((workspace.display_path(&path), is_new));
    }
    Ok(written)
}

/// Writes a file unless it already has this content. Returns true if it was written. A link at the path is replaced.
fn write_if_changed(path: &Path, text: &str) -> io::Result<bool> {
    let max_size = text.len() as u64;
    if read_text(path, LinkPolicy::Refuse, max_size).is_ok_and(|existing| existing == text) {
        return Ok(false);
    }
    mimir::file_error::write_atomically(path, text.as_bytes()).map(|()| true)
}
