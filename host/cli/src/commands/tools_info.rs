//! `mimir tools info`

use mimir_core::{Quarantined, ToolError};

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{Printer, info};
use crate::setup::Setup;

/// Shows one tool, or says why a file is left out.
pub async fn run(globals: &Globals, printer: Printer, name: &str) -> Result<Exit, Failure> {
    let world = Setup::find(globals)?.world().await?;
    let registry = &world.registry;
    if let Some(tool) = registry.get(name) {
        info::print(printer, tool, &world.policy)?;
        return Ok(Exit::Done);
    }
    // A file name means its tools.
    let of_file: Vec<_> = registry
        .tools()
        .iter()
        .filter(|tool| is_file(&tool.origin.location, name))
        .collect();
    if let [tool] = of_file.as_slice() {
        info::print(printer, tool, &world.policy)?;
        return Ok(Exit::Done);
    }
    if !of_file.is_empty() {
        let names: Vec<&str> = of_file.iter().map(|tool| tool.name().as_str()).collect();
        return Err(Failure::usage(format!(
            "this file has several tools: {}",
            names.join(", ")
        )));
    }
    if let Some(Quarantined {
        location,
        code,
        reason,
    }) = registry
        .quarantined()
        .iter()
        .find(|left_out| is_named(left_out, name))
    {
        let error = ToolError::new(*code, format!("{location} is left out: {reason}"));
        return Err(Failure::ending(error, Exit::Failed));
    }
    match registry.find(name) {
        Ok(_) => Ok(Exit::Done),
        Err(error) => Err(Failure::ending(error, Exit::Usage)),
    }
}

/// Whether a location is the file that a person means.
pub(super) fn is_file(location: &str, name: &str) -> bool {
    let file = location.rsplit('/').next().unwrap_or(location);
    location == name || file == name || file.rsplit_once('.').is_some_and(|(stem, _)| stem == name)
}

/// Whether this is what a person means by `name`. The location of a tool inside a file ends with the
/// tool's name in brackets.
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
    fn files_are_found_by_any_of_their_names() {
        for name in [".mimir/tools/broken.wasm", "broken.wasm", "broken"] {
            assert!(is_file(".mimir/tools/broken.wasm", name), "{name}");
        }
        assert!(!is_file(".mimir/tools/broken.wasm", "wasm"));
        let left_out = Quarantined {
            location: ".mimir/tools/two.wasm (read_file)".into(),
            code: mimir_core::Code::AlreadyExists,
            reason: String::new(),
        };
        assert!(
            is_named(&left_out, "two")
                && is_named(&left_out, "read_file")
                && !is_named(&left_out, "other")
        );
    }
}
