//! Validation of a module's description of its tools, and conversion to the description that the plugin embeds.

use std::collections::BTreeMap;

use mimir_core::name_suggestions::snake;
use mimir_core::needs::Needs;
use mimir_core::tool::{RiskLevel, ToolGroup, ToolHints, ToolName};
use mimir_core::{Schema, ToolError};
use mimir_wasm::script::PluginImports;
use serde::Deserialize;
use serde_json::{Value, json};

use super::declared_needs::parse_needs;
use super::source_positions::SourcePositions;
use super::{PluginSource, export_error, needs};
use crate::compile::PluginModule;

/// Output of `examine.js`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleExamination {
    tools: Vec<ExaminedTool>,
    faults: Vec<ExportFault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportFault {
    export: Option<String>,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExaminedTool {
    export: String,
    /// Property path from the exports to the tool.
    path: Vec<Value>,
    name: String,
    title: Option<Value>,
    description: Option<String>,
    input_schema: Option<String>,
    output_schema: Option<String>,
    approval: Option<String>,
    silent: bool,
    judges: bool,
    needs: Option<Value>,
    risk: Option<Value>,
    group: Option<Value>,
    hints: Option<Value>,
}

/// The description that is embedded in the plugin.
pub(super) struct PluginDescription {
    manifest: Value,
    /// Tools in the form that `toolset.js` expects.
    tools: Vec<Value>,
    /// Names of the tools in calls, and in the module.
    names: Vec<(String, String)>,
    /// Names in calls of the tools that do not set their approval.
    pub(super) silent: Vec<String>,
    pub(super) imports: PluginImports,
}

impl PluginDescription {
    /// Validates the description of a module's tools. Fails with all faults.
    pub(super) fn from_examination(
        source: &PluginSource,
        module: &PluginModule,
        examined: ModuleExamination,
    ) -> Result<Self, Vec<ToolError>> {
        let fault_at = |export: &str, message: &str| {
            export_error(&source.place, module.exports.get(export), message)
        };
        let mut faults: Vec<ToolError> = examined
            .faults
            .iter()
            .map(|fault| fault_at(fault.export.as_deref().unwrap_or_default(), &fault.message))
            .collect();
        let mentioned = needs::script_needs(&module.mentions, None);
        let mut description = Self {
            manifest: Value::Null,
            tools: Vec::new(),
            names: Vec::new(),
            silent: Vec::new(),
            imports: PluginImports {
                storage: module.mentions.words.contains("storage"),
                ..PluginImports::default()
            },
        };
        let mut definitions = Vec::new();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for tool in examined.tools {
            let (export, given_name) = (tool.export.clone(), tool.name.clone());
            let name = snake(&given_name);
            if let Some(other) = taken.insert(name.clone(), given_name.clone()) {
                let message = format!(
                    "`{given_name}` and `{other}` both map to the tool name `{name}`: rename one"
                );
                faults.push(fault_at(&export, &message));
                continue;
            }
            let is_silent = tool.silent;
            match description.add_tool(&name, tool, &mentioned) {
                Ok(definition) => {
                    definitions.push(definition);
                    if is_silent {
                        description.silent.push(name.clone());
                    }
                    description.names.push((name, given_name));
                }
                Err(messages) => {
                    faults.extend(messages.iter().map(|message| fault_at(&export, message)));
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let first = definitions
            .first()
            .map(|definition| definition["description"].clone());
        description.manifest = json!({
            "name": source.name,
            "version": source.version,
            "description": source.description.clone().map_or(first, |text| Some(text.into())),
            "license": null,
            "homepage": null,
            "tools": definitions,
        });
        Ok(description)
    }

    /// Adds a tool, and returns its definition as the WIT contract encodes it. Fails with all faults of the tool.
    fn add_tool(
        &mut self,
        name: &str,
        tool: ExaminedTool,
        mentioned: &Needs,
    ) -> Result<Value, Vec<String>> {
        let mut faults = Vec::new();
        let mut check = |result: Result<(), String>| {
            if let Err(message) = result {
                faults.push(message);
            }
        };
        check(
            ToolName::new(name)
                .map(|_| ())
                .map_err(|error| error.to_string()),
        );
        let check_schema = |what: &str, text: &Option<String>| match text {
            Some(text) => Schema::parse(text)
                .map(|_| ())
                .map_err(|error| format!("`{what}`: {error}")),
            // A missing schema has already been reported.
            None => Ok(()),
        };
        check(check_schema("inputSchema", &tool.input_schema));
        check(check_schema("outputSchema", &tool.output_schema));
        let mut needs = mentioned.clone();
        if let Some(declared) = &tool.needs {
            match parse_needs(declared) {
                Ok(declared) => needs = declared,
                Err(message) => check(Err(message)),
            }
        }
        let title = match &tool.title {
            None | Some(Value::Null) => None,
            Some(Value::String(title)) => Some(title.clone()),
            Some(_) => {
                check(Err("`title` is not a string".to_owned()));
                None
            }
        };
        let risk: RiskLevel = parse_choice(
            "risk",
            "low, medium, high, critical",
            tool.risk,
            RiskLevel::Medium,
            &mut check,
        );
        let group = if !needs.commands.is_empty() {
            ToolGroup::Runtime
        } else if !needs.hosts.is_empty() {
            ToolGroup::Net
        } else if !needs.files.is_empty() {
            ToolGroup::Fs
        } else {
            ToolGroup::System
        };
        let group: ToolGroup = parse_choice(
            "group",
            "runtime, fs, net, browser, memory, system",
            tool.group,
            group,
            &mut check,
        );
        let hints = parse_hints(tool.hints).unwrap_or_else(|message| {
            check(Err(message));
            ToolHints::default()
        });
        let (Some(approval), Some(description), Some(input), true) = (
            tool.approval,
            tool.description,
            tool.input_schema,
            faults.is_empty(),
        ) else {
            return Err(faults);
        };
        let imports = &mut self.imports;
        let files = needs.files.iter().map(|need| need.access).max();
        imports.files = imports.files.max(files);
        imports.network |= !needs.hosts.is_empty();
        imports.commands |= !needs.commands.is_empty();
        imports.tools |= !needs.tools.is_empty();
        imports.model |= needs.model;
        imports.environment |= !needs.secrets.is_empty() || !needs.variables.is_empty();
        imports.assesses |= tool.judges;
        self.tools.push(json!({
            "name": name,
            "path": tool.path,
            "structured": tool.output_schema.is_some(),
        }));
        Ok(json!({
            "name": name,
            "title": title,
            "description": description,
            "group": group,
            "inputSchema": input,
            "outputSchema": tool.output_schema,
            "approval": approval,
            "risk": risk,
            "hints": hints,
            "needs": contract_needs(&needs),
        }))
    }

    /// Returns the description that is embedded in the component, as JSON.
    pub(super) fn to_json(&self, positions: &SourcePositions) -> String {
        let (files, positions) = positions.to_json();
        json!({ "manifest": self.manifest, "tools": self.tools, "places": positions, "files": files })
            .to_string()
    }

    /// Returns the names of the tools in calls, and in the module.
    pub(super) fn names(self) -> Vec<(String, String)> {
        self.names
    }
}

/// Parses a value of an enum. The error lists the known values.
fn parse_choice<T: for<'a> Deserialize<'a>>(
    key: &str,
    known: &str,
    value: Option<Value>,
    default: T,
    check: &mut impl FnMut(Result<(), String>),
) -> T {
    match value {
        None | Some(Value::Null) => default,
        Some(value) => serde_json::from_value(value).unwrap_or_else(|_| {
            check(Err(format!(
                "`{key}` is not valid: expected one of {known}"
            )));
            default
        }),
    }
}

/// Parses the hints that a tool declares, in addition to the defaults.
fn parse_hints(declared: Option<Value>) -> Result<ToolHints, String> {
    const KNOWN: [&str; 4] = ["readOnly", "destructive", "idempotent", "openWorld"];
    let mut hints_json = json!(ToolHints::default());
    let Some(declared) = declared else {
        return Ok(ToolHints::default());
    };
    let invalid = || {
        format!(
            "`hints` is not valid: expected an object with any of {}, each true or false",
            KNOWN.join(", ")
        )
    };
    for (key, value) in declared.as_object().ok_or_else(invalid)? {
        if !KNOWN.contains(&key.as_str()) || !value.is_boolean() {
            return Err(invalid());
        }
        hints_json[key] = value.clone();
    }
    serde_json::from_value(hints_json).map_err(|error| format!("`hints`: {error}"))
}

/// Converts needs to the form of the WIT contract, with every field present.
fn contract_needs(needs: &Needs) -> Value {
    json!({
        "files": needs.files,
        "hosts": needs.hosts,
        "commands": needs.commands,
        "secrets": needs.secrets,
        "variables": needs.variables,
        "tools": needs.tools,
        "model": needs.model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_accept_four_booleans() {
        assert!(
            parse_hints(Some(json!({"readOnly": true})))
                .unwrap()
                .read_only
        );
        assert!(parse_hints(Some(json!({"readonly": true}))).is_err());
        assert!(parse_hints(Some(json!({"readOnly": 1}))).is_err());
        for other in [json!([]), json!(true), json!("readOnly")] {
            assert!(parse_hints(Some(other)).is_err());
        }
    }
}
