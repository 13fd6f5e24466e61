//! Lookup of tools by name, alias or file name.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Quarantined, Tool, ToolError, ToolErrorCode};

use crate::exit::{CommandFailure, CommandResult, ExitReason};

/// Finds the tool with this name or alias.
pub fn find_tool<'a>(snapshot: &'a PipelineSnapshot, name: &str) -> CommandResult<&'a Tool> {
    let found = snapshot.registry.find(name);
    match found {
        Ok(tool) => Ok(tool),
        Err(error) => {
            let exit = match error.code {
                ToolErrorCode::NotFound => ExitReason::Usage,
                code => code.into(),
            };
            Err(CommandFailure::with_exit(error, exit))
        }
    }
}

/// Finds a tool by name, alias or file name. If the file was left out, the error contains the reason.
pub fn find_tool_or_file<'a>(
    snapshot: &'a PipelineSnapshot,
    name: &str,
) -> CommandResult<&'a Tool> {
    let registry = &snapshot.registry;
    if let Some(tool) = registry.get(name) {
        return Ok(tool);
    }
    // A file name refers to the tools in the file.
    let tools_of_file: Vec<_> = registry
        .tools()
        .iter()
        .filter(|tool| is_file(&tool.origin.location, name))
        .collect();
    if let [tool] = tools_of_file.as_slice() {
        return Ok(*tool);
    }
    if !tools_of_file.is_empty() {
        let names: Vec<&str> = tools_of_file
            .iter()
            .map(|tool| tool.name().as_str())
            .collect();
        return Err(CommandFailure::usage(format!(
            "the file has several tools: {}; name one of them",
            names.join(", ")
        )));
    }
    let mut left_out = registry.quarantined().iter();
    if let Some(left_out) = left_out.find(|left_out| is_named(left_out, name)) {
        let error = left_out_error(left_out);
        return Err(CommandFailure::with_exit(error, ExitReason::Failed));
    }
    find_tool(snapshot, name)
}

/// Returns the error of a lookup that has found a file or tool which is left out.
pub fn left_out_error(left_out: &Quarantined) -> ToolError {
    let Quarantined {
        location,
        code,
        reason,
    } = left_out;
    // Some reasons begin with the file and the line.
    let has_location = reason
        .strip_prefix(location)
        .is_some_and(|rest| rest.starts_with(':'));
    let message = if has_location {
        format!("the tool file is left out: {reason}")
    } else {
        format!("{location} is left out: {reason}")
    };
    ToolError::new(*code, message)
}

/// Returns true if `name` is this location, its file name, or its file name without the extension.
pub fn is_file(location: &str, name: &str) -> bool {
    let file = location.rsplit('/').next().unwrap_or(location);
    location == name || file == name || file.rsplit_once('.').is_some_and(|(stem, _)| stem == name)
}

/// Returns true if `name` refers to this file or tool. The location of a tool in a file ends with the tool's name in
/// parentheses.
pub fn is_named(left_out: &Quarantined, name: &str) -> bool {
    match left_out.location.split_once(" (") {
        Some((file, tool)) => is_file(file, name) || tool.trim_end_matches(')') == name,
        None => is_file(&left_out.location, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_lookup_names_the_file_of_a_problem_once() {
        let error = |reason: &str| {
            let left_out = Quarantined {
                location: ".mimir/tools/bad.yml".into(),
                code: ToolErrorCode::InvalidInput,
                reason: reason.to_owned(),
            };
            left_out_error(&left_out).message
        };
        assert_eq!(
            error(".mimir/tools/bad.yml:3:1: unknown key `nmae`"),
            "the tool file is left out: .mimir/tools/bad.yml:3:1: unknown key `nmae`"
        );
        assert_eq!(
            error("not a component"),
            ".mimir/tools/bad.yml is left out: not a component"
        );
    }

    #[test]
    fn tool_lookup_finds_files_by_path_name_or_stem() {
        for name in [".mimir/tools/broken.wasm", "broken.wasm", "broken"] {
            assert!(is_file(".mimir/tools/broken.wasm", name), "{name}");
        }
        assert!(!is_file(".mimir/tools/broken.wasm", "wasm"));
        let left_out = Quarantined {
            location: ".mimir/tools/two.wasm (read_file)".into(),
            code: mimir_core::ToolErrorCode::AlreadyExists,
            reason: String::new(),
        };
        assert!(
            is_named(&left_out, "two")
                && is_named(&left_out, "read_file")
                && !is_named(&left_out, "other")
        );
    }
}
