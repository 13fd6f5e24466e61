//! Installation of a built component into `.mimir/tools`.

use std::path::Path;
use std::sync::Arc;

use mimir_core::registry::Quarantined;
use mimir_core::tool::ToolTrust;
use mimir_core::{Registry, Tool, ToolError, ToolErrorCode, ToolSource};
use mimir_wasm::{LoadedTools, Toolbox};
use serde::Serialize;
use serde_json::Value;

use super::installed_sources::{InstalledSources, SourceComparison};
use super::{BuiltComponent, PluginFolder, as_build_failure};
use crate::arguments::quote_for_shell;
use crate::exit::CommandResult;
use crate::output::tools::quarantined;
use crate::output::{FAINT, GOOD, ResultPrinter, STRONG, first_line, note, styled, warn};
use mimir::file_error::{file_error, write_atomically};
use mimir::setup::HostSetup;

/// A plugin in `.mimir/tools`.
pub struct InstalledPlugin {
    /// Path of the file in the workspace.
    file: String,
    /// Size of the file in bytes.
    size: u64,
    tools: Vec<Arc<Tool>>,
    /// The file, or tools in it, that the host does not accept.
    left_out: Vec<Quarantined>,
}

#[derive(Serialize)]
struct BuildReport<'a> {
    file: &'a str,
    bytes: u64,
    tools: Vec<&'a str>,
}

/// Installs a component, in place of the previous one of its name, and loads it. A component without a tool that can be
/// called, or with the name of another tool, is not installed.
pub async fn install(
    setup: &HostSetup,
    folder: &PluginFolder,
    component: &BuiltComponent,
) -> CommandResult<InstalledPlugin> {
    component.print_notes();
    let target = setup.workspace.tools().join(&component.file_name);
    setup.workspace.check_no_links(&target)?;
    let file = setup.workspace.display_path(&target).replace('\\', "/");
    let fail = |error: ToolError| as_build_failure(error.into());
    let built = callable_tools(component).map_err(fail)?;
    let mut existing = setup.toolbox(setup.host()).load().await;
    // A granted tool keeps its name when it is built again, even if a built-in tool has the name by now.
    setup.apply_grants(&mut existing.tools);
    let existing = Registry::new(existing.tools, existing.quarantined);
    let previous = tools_of_file(&existing, &file);
    let still_exists = |before: &Arc<Tool>| built.iter().any(|tool| tool.name() == before.name());
    let has_other_tools = !previous.is_empty() && !previous.iter().any(still_exists);
    let sources = InstalledSources::read(setup);
    let file_name = component.file_name.to_string_lossy();
    if let Some(replaced) = previous.first() {
        let other = match sources.compare(&file_name, &replaced.origin.digest, &folder.entry) {
            SourceComparison::Same => None,
            SourceComparison::Other(entry) => Some(format!(
                "{file} was built from {}, which has the same name",
                setup
                    .workspace
                    .display_path(entry.parent().unwrap_or(&entry))
            )),
            // Without a record, a plugin is known by its tools.
            SourceComparison::Unknown if has_other_tools => Some(format!(
                "{file} is another plugin of the same name, with the tools {}",
                list_names(&previous)
            )),
            SourceComparison::Unknown => None,
        };
        if let Some(reason) = other {
            return Err(fail(other_plugin_error(folder, &reason, &file_name)));
        }
    }
    check_names(built, &existing, &file).map_err(fail)?;
    write_atomically(&target, &component.bytes).map_err(|e| file_error("write", &target, &e))?;
    // The file does not come from a registry any more.
    crate::commands::tools_add::forget_source(setup, &file)?;
    if let Some(tool) = built.first() {
        let digest = &tool.origin.digest;
        let built_from = component.sources.clone();
        let recorded = sources.record(setup, &file_name, digest, &folder.entry, built_from);
        // Without the record, the next build compares the tools.
        if let Err(error) = recorded {
            warn(error.message);
        }
    }
    let snapshot = setup.load_snapshot().await?;
    let tools = tools_of_file(&snapshot.registry, &file);
    if has_other_tools {
        let lost = list_names(&previous);
        note(format_args!(
            "the previous content of {file} is gone, with its tools: {lost}"
        ));
    }
    let left_out = snapshot.registry.quarantined().iter();
    let left_out = left_out.filter(|left_out| is_in_file(&left_out.location, &file));
    Ok(InstalledPlugin {
        size: component.bytes.len() as u64,
        left_out: left_out.cloned().collect(),
        tools,
        file,
    })
}

/// Loads a component that is not installed, without other tools.
pub async fn load_alone(
    setup: &HostSetup,
    file_name: &Path,
    component: &[u8],
) -> Result<LoadedTools, ToolError> {
    let temporary = std::env::temp_dir();
    let folder = tempfile::tempdir()
        .map_err(|error| file_error("create a folder in", &temporary, &error))?;
    let path = folder.path().join(file_name);
    write_atomically(&path, component).map_err(|e| file_error("write", &path, &e))?;
    let toolbox = Toolbox::new(setup.host(), Vec::new(), Some(folder.path().to_owned()));
    Ok(toolbox.load().await)
}

/// Returns the tools of a component. Fails if none of them can be called.
fn callable_tools(component: &BuiltComponent) -> Result<&[Tool], ToolError> {
    let loaded = &component.loaded;
    if !loaded.tools.is_empty() {
        return Ok(&loaded.tools);
    }
    Err(match loaded.quarantined.first() {
        Some(refused) => ToolError::new(refused.code, refused.reason.clone()),
        None => ToolError::execution("the component has no tool that can be called"),
    })
}

/// Returns the error for a file of another plugin, which must not be replaced.
fn other_plugin_error(folder: &PluginFolder, reason: &str, file_name: &str) -> ToolError {
    let remedy = format!(
        "give this plugin another name: {}; or remove the other tool: `mimir tools remove {}`",
        folder.rename_step(),
        quote_for_shell(file_name)
    );
    let message = format!("{reason}; nothing was installed");
    ToolError::new(ToolErrorCode::AlreadyExists, message).with_remedies([remedy])
}

fn list_names(tools: &[Arc<Tool>]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
    names.join(", ")
}

/// Fails if a tool has the name of a tool that is in another file or built in.
fn check_names(built: &[Tool], registry: &Registry, file: &str) -> Result<(), ToolError> {
    for tool in built {
        let name = tool.name();
        let Some(other) = registry.get(name.as_str()) else {
            continue;
        };
        let location = &other.origin.location;
        if other.name() != name || is_in_file(location, file) {
            continue;
        }
        let (place, remedy) = if other.source == ToolSource::BuiltIn {
            (
                "built in".to_owned(),
                "give the tool another name".to_owned(),
            )
        } else {
            let remedy = format!("give the tool another name, or run `mimir tools remove {name}`");
            (format!("in {location}"), remedy)
        };
        let message =
            format!("`{name}` is the name of a tool that is {place}; nothing was installed");
        return Err(ToolError::new(ToolErrorCode::AlreadyExists, message).with_remedies([remedy]));
    }
    Ok(())
}

impl InstalledPlugin {
    /// Returns true if a tool in it can be called.
    pub fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Returns the file, its size and its tools in one line.
    fn summary(&self) -> String {
        let size = mimir_core::text::bytes(self.size);
        if self.has_tools() {
            format!("{} ({size}): {}", self.file, list_names(&self.tools))
        } else {
            format!("{} ({size}), no tool in it can be called", self.file)
        }
    }

    /// Prints the file and its tools in one line, as a note.
    pub fn note_built(&self) {
        note(format_args!("{} {}", styled(GOOD, "built"), self.summary()));
    }

    /// Returns an example command that calls the first tool with its required arguments.
    pub fn example(&self) -> Option<String> {
        let tool = self.tools.first()?;
        let schema = tool.definition.input_schema.to_value();
        let mut line = format!("mimir call {}", tool.name());
        let required = schema["required"].as_array().into_iter().flatten();
        for key in required.filter_map(Value::as_str) {
            let value = match schema["properties"][key]["type"].as_str() {
                Some("integer" | "number") => "1",
                Some("boolean") => "true",
                _ => "…",
            };
            line.push_str(&format!(" {key}={value}"));
        }
        Some(line)
    }

    /// Prints the tools, and what was left out.
    pub fn print(&self, printer: ResultPrinter) -> CommandResult<()> {
        let report = BuildReport {
            file: &self.file,
            bytes: self.size,
            tools: self.tools.iter().map(|tool| tool.name().as_str()).collect(),
        };
        printer.print_result(&report, |out| {
            let size = mimir_core::text::bytes(self.size);
            writeln!(out, "{} {} ({size})", styled(GOOD, "built"), self.file)?;
            for tool in &self.tools {
                let description = first_line(&tool.definition.description, None);
                writeln!(out, "  {:<25} {description}", tool.name().as_str())?;
            }
            match self.example() {
                Some(example) => writeln!(out, "\nTry:  {}", styled(STRONG, example)),
                None => writeln!(out, "{}", styled(FAINT, "  no tool in it can be called")),
            }
        })?;
        let without_grant = self
            .tools
            .iter()
            .find(|tool| tool.trust == ToolTrust::Untrusted && !tool.definition.needs.is_empty());
        if let Some(tool) = without_grant {
            note(format_args!(
                "This build has no grant of the rights that it needs: `mimir tools trust {}` shows and grants them.",
                tool.name()
            ));
        }
        self.print_left_out();
        Ok(())
    }

    /// Prints what was left out.
    pub fn print_left_out(&self) {
        self.left_out.iter().for_each(quarantined);
    }
}

/// Returns the tools in a file.
fn tools_of_file(registry: &Registry, file: &str) -> Vec<Arc<Tool>> {
    let tools = registry.tools().iter();
    let tools = tools.filter(|tool| is_in_file(&tool.origin.location, file));
    tools.cloned().collect()
}

/// Returns true for the location of a file, and of a tool in it.
fn is_in_file(location: &str, file: &str) -> bool {
    let rest = location.strip_prefix(file);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_tools_are_those_of_the_file() {
        let file = ".mimir/tools/hello.wasm";
        assert!(is_in_file(file, file));
        assert!(is_in_file(".mimir/tools/hello.wasm (greet)", file));
        assert!(!is_in_file(".mimir/tools/hello.wasm2", file));
        assert!(!is_in_file(".mimir/tools/other.wasm", file));
    }
}
