//! Builds of plugins in TypeScript and JavaScript, by mimir itself: no compiler runs.

use mimir_core::files::{self, LinkPolicy};
use mimir_core::{ToolError, text};
use mimir_script::PluginSource;

use super::{BuildContext, BuiltComponent, PluginFolder};
use crate::args::PluginLanguage;
use crate::commands::tools_check::faults_failure;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use mimir::file_error::file_error;

/// Maximum size of a source file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Builds a plugin.
pub async fn build(cx: &BuildContext<'_>, folder: &PluginFolder) -> CommandResult<BuiltComponent> {
    let source = source(folder)?;
    let scripts = cx.setup.scripts(cx.setup.host());
    let built = mimir_script::build(scripts.engine(), mimir_builtins::PLUGIN, &source).await;
    let built = built.map_err(faults_failure)?;
    let mut notes = Vec::new();
    if let Some(bundler) = &built.bundler {
        let bundler = text::visible(&bundler.display().to_string());
        notes.push(format!("its imports were bundled by {bundler}"));
    }
    for (tool, export) in &built.tools {
        if tool != export {
            notes.push(format!("`{export}` is the tool `{tool}`"));
        }
    }
    Ok(BuiltComponent {
        file_name: folder.component_name(),
        bytes: built.component,
        notes,
    })
}

fn source(folder: &PluginFolder) -> CommandResult<PluginSource> {
    let file = &folder.shown;
    let place = text::visible(&file.display().to_string());
    let content = files::read(file, LinkPolicy::Follow, MAX_FILE_SIZE);
    let content = content.map_err(|error| {
        CommandFailure::with_exit(file_error("read", file, &error), ExitReason::Usage)
    })?;
    let text = String::from_utf8(content)
        .map_err(|_| ToolError::invalid_input(format!("{place} is not UTF-8")))?;
    let package = folder.package.clone();
    Ok(PluginSource {
        typed: folder.language == PluginLanguage::TypeScript,
        name: package.name,
        version: package.version,
        description: package.description,
        path: file.to_owned(),
        place,
        text,
    })
}
