//! Builds of TypeScript plugins: a module that exports tools becomes a component that any host of the WIT contract can
//! run.
//!
//! mimir compiles the code; the user's own bundler bundles imports, started by the caller in a sandbox. The module first runs on the script engine, without
//! any access, to describe its tools, so that libraries can generate their schemas. The needs of the tools then
//! determine the imports of the component.
//!
//! Out of scope: installing plugins, and printing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mimir_core::{Limits, ToolError, ToolErrorCode, text};
use mimir_wasm::script::{JsPluginParts, STACK, ScriptEngine, stack_trace};
use serde_json::{Value, json};

use crate::compile::{self, CodeFault, ModuleExport, PluginModule};
use crate::needs;

mod bundle;
mod bundler_runner;
mod declared_needs;
mod examination;
mod source_positions;

use bundle::BundledModule;
pub use bundler_runner::{BundlerCommand, BundlerOutput, BundlerRunner};
use examination::{ModuleExamination, PluginDescription};
use source_positions::SourcePositions;

/// JavaScript function that finds the tools of a module.
const EXAMINE: &str = include_str!("plugin/examine.js");

/// Maximum size of a bundle in bytes: larger plugins slow down each call.
const MAX_BUNDLE_BYTES: usize = 8 << 20;

/// Source of a plugin's module, with the metadata of the plugin.
#[derive(Debug, Clone)]
pub struct PluginSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the file in messages.
    pub place: String,
    /// Content of the file.
    pub text: String,
    /// True if the file is TypeScript.
    pub typed: bool,
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Description of the plugin.
    pub description: Option<String>,
}

/// A plugin that was built.
#[derive(Debug)]
pub struct BuiltPlugin {
    /// The component.
    pub component: Vec<u8>,
    /// Tools of the plugin: the names in calls, and the names in the module.
    pub tools: Vec<(String, String)>,
    /// Names in calls of the tools that do not set their approval.
    pub silent: Vec<String>,
    /// The bundler that was used, if the module imports anything.
    pub bundler: Option<PathBuf>,
    /// The files that were bundled with the module, as the bundler names them. They may not exist.
    pub inputs: Vec<PathBuf>,
}

/// Builds a plugin from a module. `runner` runs the bundler if the module imports anything. Fails with all faults that can be detected in one pass.
pub async fn build(
    engine: &ScriptEngine,
    parts: JsPluginParts,
    source: &PluginSource,
    runner: &impl BundlerRunner,
) -> Result<BuiltPlugin, Vec<ToolError>> {
    let to_error = |fault: &CodeFault| code_error(&source.place, fault);
    let mut module = compile::compile_module(&source.text, source.typed)
        .map_err(|faults| faults.iter().map(to_error).collect::<Vec<_>>())?;
    let (mut bundler, mut inputs) = (None, Vec::new());
    let (code, positions) = match (module.code.take(), &module.foreign) {
        (Some(code), None) => (
            code,
            SourcePositions::from_module(&source.place, &module.map),
        ),
        (_, foreign) => {
            let bundled =
                bundle::bundle(&source.path, foreign.as_ref().map(to_error), runner).await;
            let BundledModule {
                code,
                positions,
                bundler: used_bundler,
                inputs: bundled_files,
            } = bundled.map_err(|error| vec![error])?;
            (bundler, inputs) = (Some(used_bundler), bundled_files);
            (code, positions)
        }
    };
    if code.len() > MAX_BUNDLE_BYTES {
        let (size, limit) = (
            text::bytes(code.len() as u64),
            text::bytes(MAX_BUNDLE_BYTES as u64),
        );
        let message = format!(
            "{}: the plugin with its imports has {size} of code: the limit is {limit}",
            source.place
        );
        return Err(vec![ToolError::new(ToolErrorCode::LimitExceeded, message)]);
    }
    let examined = examine(engine, source, &module, (&code, &positions)).await?;
    let plugin_description = PluginDescription::from_examination(source, &module, examined)?;
    let description = plugin_description.to_json(&positions);
    let host = engine.host();
    let component = mimir_wasm::script::build_plugin(
        host,
        parts,
        plugin_description.imports,
        &code,
        &description,
    )
    .await;
    let component = component.map_err(|error| vec![ToolError::from(error)])?;
    Ok(BuiltPlugin {
        component,
        silent: plugin_description.silent.clone(),
        tools: plugin_description.names(),
        bundler,
        inputs,
    })
}

/// Runs the module to obtain the descriptions of its tools.
async fn examine(
    engine: &ScriptEngine,
    source: &PluginSource,
    module: &PluginModule,
    (code, positions): (&str, &SourcePositions),
) -> Result<ModuleExamination, Vec<ToolError>> {
    let docs: BTreeMap<&String, &String> = module
        .exports
        .iter()
        .filter_map(|(name, export)| Some((name, export.doc.as_ref()?)))
        .collect();
    // The source map expects the code on the first line.
    let script = format!(
        "(function () {{ const make = {code};\n{EXAMINE}\nreturn {{ execute: () => examine(make, {}) }};\n}})",
        json!(docs)
    );
    let report = engine.run_isolated(&script, Limits::default()).await;
    let report = report.map_err(|error| vec![with_source_position(source, positions, error)])?;
    serde_json::from_str(&report).map_err(|error| {
        let message = format!(
            "{}: the module has changed its JavaScript environment: {error}",
            source.place
        );
        vec![ToolError::new(ToolErrorCode::ExecutionError, message)]
    })
}

/// Maps a run-time failure of the module to its position in the source.
fn with_source_position(
    source: &PluginSource,
    positions: &SourcePositions,
    mut error: ToolError,
) -> ToolError {
    let stack = error
        .details
        .as_ref()
        .and_then(|details| details.get(STACK));
    let stack = stack.and_then(Value::as_str).unwrap_or_default();
    let frames =
        stack_trace::map_frames(stack, &|row, column| positions.source_position(row, column));
    let file_name = source.place.rsplit('/').next().unwrap_or(&source.place);
    let position = frames.first().map(|frame| {
        let position = frame.rsplit('(').next().unwrap_or(frame);
        position.trim_end_matches(')').to_owned()
    });
    // Stacks name the module by its file name, messages by its display name.
    let position = match position
        .as_deref()
        .and_then(|position| position.strip_prefix(file_name))
    {
        Some(numbers) => format!("{}{numbers}", source.place),
        None => position.unwrap_or_else(|| source.place.clone()),
    };
    let message = error.message;
    error.message = format!("{position}: the module fails to load: {message}");
    error.details = None;
    error
}

fn code_error(file_name: &str, fault: &CodeFault) -> ToolError {
    let message = format!("{file_name}:{}: {}", fault.position(), fault.message);
    ToolError::new(fault.code, text::visible(&message))
}

/// Returns the error about an export, with its position.
fn export_error(file_name: &str, export: Option<&ModuleExport>, message: &str) -> ToolError {
    let position = export.map_or_else(String::new, |export| {
        format!("{}:{}:", export.line, export.column)
    });
    let message = format!("{file_name}:{position} {message}");
    ToolError::new(ToolErrorCode::InvalidInput, text::visible(&message))
}
