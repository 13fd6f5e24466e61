//! Foreign components as tools: their exported functions are called with JSON.
//!
//! `lift` converts the outline of a component into tool definitions: names, schemas, descriptions. [`call`] calls a
//! function with JSON arguments and returns the result as JSON. A call accepts exactly the arguments that the tool's
//! schema allows, and the result matches the output schema. [`schema`] defines the mapping between WIT and JSON.
//!
//! Out of scope: stores, linkers, limits, policy.

mod async_value;
mod call;
pub mod command;
mod docs;
mod functions;
mod names;
mod plain_value;
mod resource_call;
mod resources;
pub mod schema;
mod tool_index;
mod typed_call;
mod value;

#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;

pub use call::{LiftError, LiftedOutput, call};
pub use names::tool_name;
pub use resources::{ResourceFunctions, ResourceMethod};
pub use tool_index::{ResourceIndex, ToolIndex};
pub use value::ValueError;

use mimir_core::schema::Schema;
use mimir_core::tool::ToolName;
use serde::{Deserialize, Serialize};
use wasmtime::component::{Component, ComponentExportIndex};

pub(crate) use functions::{MAX_TOOLS, SkippedExports, lift, over_limit};

/// Maximum length of an export name in a text, in characters.
const MAX_NAME_CHARS: usize = 120;

/// The position of a function among the exports of its component.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExportPath {
    /// The exported interface as written (`docs:adder/add@0.1.0`); `None` for a function of the world itself.
    pub interface: Option<String>,
    /// The function.
    pub function: String,
}

impl ExportPath {
    /// Finds the function in the compiled component. The index is valid for every instance of the component. `None` if
    /// the function does not exist.
    pub fn resolve(&self, component: &Component) -> Option<ComponentExportIndex> {
        let outer = match &self.interface {
            Some(interface) => Some(component.get_export_index(None, interface.as_str())?),
            None => None,
        };
        component.get_export_index(outer.as_ref(), self.function.as_str())
    }
}

impl std::fmt::Display for ExportPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{interface}#{}", self.function),
            None => f.write_str(&self.function),
        }
    }
}

/// A function that can be called as a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiftedTool {
    /// Unique within its component.
    pub name: ToolName,
    /// The function behind it, or the resource.
    pub export: ExportPath,
    /// The functions of a resource; `None` for a single function.
    #[serde(default)]
    pub resource: Option<ResourceFunctions>,
    /// The function's documentation if the file contains it, otherwise a sentence that names it.
    pub description: String,
    /// An object with one property for each parameter.
    pub input_schema: Schema,
    /// An object; `None` for a function without a result.
    pub output_schema: Option<Schema>,
}

impl PartialEq for LiftedTool {
    fn eq(&self, other: &Self) -> bool {
        let text = |schema: &Option<Schema>| schema.as_ref().map(|it| it.as_str().to_owned());
        self.name == other.name
            && self.export == other.export
            && self.resource == other.resource
            && self.description == other.description
            && self.input_schema.as_str() == other.input_schema.as_str()
            && text(&self.output_schema) == text(&other.output_schema)
    }
}

/// An export that is not a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedExport {
    /// The export, as [`ExportPath`] shows it.
    pub export: String,
    /// The reason, as the end of a sentence that begins with the export.
    pub reason: String,
}

/// The result of lifting the exports of a component.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LiftedTools {
    /// The tools, in the order of the exports.
    pub tools: Vec<LiftedTool>,
    /// The skipped exports, with the reasons; a limited number of them.
    pub skipped: Vec<SkippedExport>,
}
