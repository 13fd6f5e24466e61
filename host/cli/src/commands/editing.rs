//! What editors know tools in YAML files by: the schema of such a file, and the types of what their code is given.

use std::io;
use std::path::Path;

use mimir_core::ToolError;
use mimir_core::files::{Links, read_text};

use crate::exit::{Exit, Failure, file_error};
use crate::output::Printer;
use crate::sdk;
use crate::workspace::Workspace;

/// The types of `context`.
pub const TYPES: &str = include_str!("../../../../sdk/typescript/mimir.d.ts");

/// Where they are, below `.mimir`. What editors look for by a path may be committed.
const SCHEMA_FILE: &str = "tool.schema.json";
const TYPES_FILE: &str = "mimir.d.ts";

/// The first line of a tool in `.mimir/tools`: what a language server looks for.
pub const LINE: &str = "# yaml-language-server: $schema=../tool.schema.json\n";

/// Prints the schema of a tool in a YAML file.
pub fn schema(printer: Printer) -> Result<Exit, Failure> {
    printer.value(&mimir_script::schema())?;
    Ok(Exit::Done)
}

/// Prints the types of what the code of a tool is given.
pub fn types(printer: Printer) -> Result<Exit, Failure> {
    printer.result(&TYPES, |out| out.write_all(TYPES.as_bytes()))?;
    Ok(Exit::Done)
}

/// Writes both into `.mimir`, as this version has them. Says of each what it is called and whether it was new.
pub fn lay_out(workspace: &Workspace) -> Result<Vec<(String, bool)>, ToolError> {
    let schema = serde_json::to_string_pretty(&mimir_script::schema()).unwrap_or_default() + "\n";
    let mut done = Vec::new();
    for (name, text) in [(SCHEMA_FILE, schema.as_str()), (TYPES_FILE, TYPES)] {
        let path = workspace.dot().join(name);
        workspace.own(&path)?;
        let is_new = put(&path, text).map_err(|error| file_error("write", &path, &error))?;
        done.push((workspace.shown(&path), is_new));
    }
    Ok(done)
}

/// Writes a file that is another one, or none, so far. A link in its place is replaced.
fn put(path: &Path, text: &str) -> io::Result<bool> {
    let most = text.len() as u64;
    if read_text(path, Links::Refused, most).is_ok_and(|there| there == text) {
        return Ok(false);
    }
    sdk::put(path, text.as_bytes()).map(|()| true)
}
