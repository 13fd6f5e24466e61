//! Plugins in TypeScript: a module that exports tools, made into a component that any host of the contract takes.
//!
//! The code is compiled here; what it imports, a bundler of the person's brings along. It runs on the engine of scripts
//! first, where nothing is in its reach, and says what its tools are: so their schemas are those that its libraries make
//! of them. What the tools need then decides what the component imports.
//!
//! Never here: where plugins are put, and what is printed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mimir_core::{Code, Limits, ToolError, text};
use mimir_wasm::script::{PluginParts, STACK, ScriptEngine, trace};
use serde_json::{Value, json};

use crate::compile::{self, Exported, Fault, Module};
use crate::needs;

mod bundle;
mod examined;
mod places;
mod wanted;

use bundle::Bundled;
use examined::{About, Examined};
use places::Places;

/// What finds the tools of a module: a function in JavaScript.
const EXAMINE: &str = include_str!("plugin/examine.js");

/// The longest bundle, in bytes: what a plugin of that size costs is felt at each of its calls.
const LONGEST: usize = 8 << 20;

/// A module, and what the plugin says of itself.
#[derive(Debug, Clone)]
pub struct PluginSource {
    /// The file.
    pub path: PathBuf,
    /// How messages call it.
    pub place: String,
    /// What is in it.
    pub text: String,
    /// Whether it is TypeScript.
    pub typed: bool,
    /// The name of the plugin.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    pub description: Option<String>,
}

/// A plugin that was made.
#[derive(Debug)]
pub struct BuiltPlugin {
    /// The component.
    pub component: Vec<u8>,
    /// Its tools, by their names in a call, and what the module calls them.
    pub tools: Vec<(String, String)>,
    /// What brought along what the module imports, if it imports anything.
    pub bundler: Option<PathBuf>,
}

/// Makes a plugin of a module. The errors are all the faults that are seen at once, at least one.
pub async fn build(
    engine: &ScriptEngine,
    parts: PluginParts,
    source: &PluginSource,
) -> Result<BuiltPlugin, Vec<ToolError>> {
    let at = |fault: &Fault| faulty(&source.place, fault);
    let mut module = compile::module(&source.text, source.typed)
        .map_err(|faults| faults.iter().map(at).collect::<Vec<_>>())?;
    let mut bundler = None;
    let (code, places) = match (module.code.take(), &module.foreign) {
        (Some(code), None) => (code, Places::of_module(&source.place, &module.map)),
        (_, foreign) => {
            let bundled = bundle::bundle(&source.path, foreign.as_ref().map(at)).await;
            let Bundled { code, places, by } = bundled.map_err(|error| vec![error])?;
            bundler = Some(by);
            (code, places)
        }
    };
    if code.len() > LONGEST {
        let (is, most) = (text::bytes(code.len() as u64), text::bytes(LONGEST as u64));
        let message = format!(
            "{}: with what it imports the plugin has {is} of code; {most} are the most",
            source.place
        );
        return Err(vec![ToolError::new(Code::LimitExceeded, message)]);
    }
    let examined = examine(engine, source, &module, (&code, &places)).await?;
    let about = About::of(source, &module, examined)?;
    let told = about.told(&places);
    let host = engine.host();
    let component = mimir_wasm::script::make(host, parts, about.reach, &code, &told).await;
    let component = component.map_err(|error| vec![ToolError::from(error)])?;
    Ok(BuiltPlugin {
        component,
        tools: about.names(),
        bundler,
    })
}

/// Runs the module, and has it say what its tools are.
async fn examine(
    engine: &ScriptEngine,
    source: &PluginSource,
    module: &Module,
    (code, places): (&str, &Places),
) -> Result<Examined, Vec<ToolError>> {
    let docs: BTreeMap<&String, &String> = module
        .exports
        .iter()
        .filter_map(|(name, export)| Some((name, export.doc.as_ref()?)))
        .collect();
    // The code begins in the first line, where the map of its places has it.
    let script = format!(
        "(function () {{ const make = {code};\n{EXAMINE}\nreturn {{ execute: () => examine(make, {}) }};\n}})",
        json!(docs)
    );
    let told = engine.alone(&script, Limits::default()).await;
    let told = told.map_err(|error| vec![placed(source, places, error)])?;
    serde_json::from_str(&told).map_err(|error| {
        let message = format!(
            "{}: the module has changed what it runs on: {error}",
            source.place
        );
        vec![ToolError::new(Code::ExecutionError, message)]
    })
}

/// A failure of the module while it ran, with its place.
fn placed(source: &PluginSource, places: &Places, mut error: ToolError) -> ToolError {
    let stack = error
        .details
        .as_ref()
        .and_then(|details| details.get(STACK));
    let stack = stack.and_then(Value::as_str).unwrap_or_default();
    let frames = trace::mapped(stack, &|row, column| places.place(row, column));
    let own = source.place.rsplit('/').next().unwrap_or(&source.place);
    let place = frames.first().map(|frame| {
        let place = frame.rsplit('(').next().unwrap_or(frame);
        place.trim_end_matches(')').to_owned()
    });
    // The module itself is called as messages call it.
    let place = match place.as_deref().and_then(|place| place.strip_prefix(own)) {
        Some(numbers) => format!("{}{numbers}", source.place),
        None => place.unwrap_or_else(|| source.place.clone()),
    };
    let message = error.message;
    error.message = format!("{place}: the module fails when it is loaded: {message}");
    error.details = None;
    error
}

fn faulty(place: &str, fault: &Fault) -> ToolError {
    let message = format!("{place}:{}:{}: {}", fault.line, fault.column, fault.message);
    ToolError::new(fault.code, text::visible(&message))
}

/// A fault of an export.
fn wrong(place: &str, export: Option<&Exported>, message: &str) -> ToolError {
    let at = export.map_or_else(String::new, |export| {
        format!("{}:{}:", export.line, export.column)
    });
    let message = format!("{place}:{at} {message}");
    ToolError::new(Code::InvalidInput, text::visible(&message))
}
