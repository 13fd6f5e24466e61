//! Conversion of the core module that a compiler has made to a finished component: for C, C++, Zig and Go.

use std::path::Path;

use mimir_core::files::{LinkPolicy, read_text};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_wasm::componentize::componentize;

use super::{BuildContext, CompiledPlugin, PluginFolder};

/// Converts the module in `file` to a component, seals the imports that no need asks for, and adds the description of its
/// tools. `missing_export` is the remedy for a module without tools, if the sources lack the line that exports them.
pub async fn finish_module(
    cx: &BuildContext<'_>,
    folder: &PluginFolder,
    file: &Path,
    missing_export: Option<String>,
) -> Result<CompiledPlugin, ToolError> {
    let module = cx.read_output(folder, file)?;
    // Large modules take seconds, in which Ctrl-C must work.
    let converted = tokio::task::spawn_blocking(move || componentize(&module)).await;
    let finished = async {
        let component = converted
            .map_err(|error| ToolError::execution(error.to_string()))?
            .map_err(|error| ToolError::execution(error.to_string()))?;
        let finished = mimir_wasm::finish_plugin(&cx.setup.host(), &component).await;
        Ok(finished?)
    };
    let bytes = finished.await.map_err(|error: ToolError| {
        if missing_export.is_some() {
            error.with_remedies(missing_export)
        } else {
            error
        }
    })?;
    Ok(CompiledPlugin::new(folder.component_name(), bytes))
}

/// Adds remedies to the error of a compiler that has found a fault. Other errors, such as those of the sandbox, have their
/// own.
pub fn add_remedies(error: ToolError, remedies: impl IntoIterator<Item = String>) -> ToolError {
    let mut remedies = remedies.into_iter().peekable();
    if error.code == ToolErrorCode::ExecutionError && remedies.peek().is_some() {
        error.with_remedies(remedies)
    } else {
        error
    }
}

/// Returns the remedy for a plugin that exports no tools.
pub fn export_remedy(export_line: &str) -> String {
    format!("add `{export_line}`, which exports the tools")
}

/// Returns true if one of these files, relative to the folder of the plugin, contains a text.
pub fn is_mentioned<'a>(
    folder: &PluginFolder,
    files: impl IntoIterator<Item = &'a String>,
    text: &str,
) -> bool {
    /// Maximum size of a file in bytes.
    const MAX_SOURCE_SIZE: u64 = 1 << 20;
    files.into_iter().any(|file| {
        let path = folder.root.join(file);
        let content = read_text(&path, LinkPolicy::Follow, MAX_SOURCE_SIZE);
        content.is_ok_and(|content| content.contains(text))
    })
}
