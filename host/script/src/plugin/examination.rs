//! Validates a module's description of its tools, and converts it to the plugin's own description.

use std::collections::BTreeMap;

use mimir_core::name_suggestions::snake;
use mimir_core::needs::Needs;
use mimir_core::tool::{RiskLevel, ToolGroup, ToolHints, ToolName};
use mimir_core::{Schema, ToolError};
use mimir_wasm::script::PluginImports;
use serde::Deserialize;
use serde_json::{Value, json};

use super::declared_needs::read_needs;
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
    judges: bool,
    needs: Option<Value>,
    risk: Option<Value>,
    group: Option<Value>,
    hints: Option<Value>,
}

/// The description that the plugin will give of itself.
pub(super) struct PluginDescription {
    manifest: Value,
    /// Tools in the form that `toolset.js` expects.
    tools: Vec<Value>,
    /// Names in a call, and names in the module.
    names: Vec<(String, String)>,
    pub(super) reach: PluginImports,
}

impl PluginDescription {
    pub(super) fn from_examination(
        source: &PluginSource,
        module: &PluginModule,
        examined: ModuleExamination,
    ) -> Result<Self, Vec<ToolError>> {
        let at = |export: &str, message: &str| {
            export_error(&source.place, module.exports.get(export), message)
        };
        let mut faults: Vec<ToolError> = examined
            .faults
            .iter()
            .map(|fault| at(fault.export.as_deref().unwrap_or_default(), &fault.message))
            .collect();
        let mentioned = needs::script_needs(&module.mentions, None);
        let mut about = Self {
            manifest: Value::Null,
            tools: Vec::new(),
            names: Vec::new(),
            reach: PluginImports {
                storage: module.mentions.words.contains("storage"),
                ..PluginImports::default()
            },
        };
        let mut definitions = Vec::new();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for found in examined.tools {
            let (export, called) = (found.export.clone(), found.name.clone());
            let name = snake(&called);
            if let Some(other) = taken.insert(name.clone(), called.clone()) {
                let message = format!(
                    "`{called}` and `{other}` both map to the tool name `{name}`: rename one"
                );
                faults.push(at(&export, &message));
                continue;
            }
            match about.add(&name, found, &mentioned) {
                Ok(definition) => {
                    definitions.push(definition);
                    about.names.push((name, called));
                }
                Err(messages) => {
                    faults.extend(messages.iter().map(|message| at(&export, message)));
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let first = definitions.first().map(|one| one["description"].clone());
        about.manifest = json!({
            "name": source.name,
            "version": source.version,
            "description": source.description.clone().map_or(first, |text| Some(text.into())),
            "license": null,
            "homepage": null,
            "tools": definitions,
        });
        Ok(about)
    }

    /// Adds a tool, and returns its definition in the form of the contract. The errors are all of its faults.
    fn add(
        &mut self,
        name: &str,
        found: ExaminedTool,
        mentioned: &Needs,
    ) -> Result<Value, Vec<String>> {
        let mut wrong = Vec::new();
        let mut said = |result: Result<(), String>| {
            if let Err(message) = result {
                wrong.push(message);
            }
        };
        said(
            ToolName::new(name)
                .map(|_| ())
                .map_err(|error| error.to_string()),
        );
        let schema = |what: &str, text: &Option<String>| match text {
            Some(text) => Schema::parse(text)
                .map(|_| ())
                .map_err(|error| format!("`{what}`: {error}")),
            // A missing schema has already been reported.
            None => Ok(()),
        };
        said(schema("inputSchema", &found.input_schema));
        said(schema("outputSchema", &found.output_schema));
        let mut needs = mentioned.clone();
        if let Some(declared) = &found.needs {
            match read_needs(declared) {
                Ok(declared) => needs = declared,
                Err(message) => said(Err(message)),
            }
        }
        let title = match &found.title {
            None | Some(Value::Null) => None,
            Some(Value::String(title)) => Some(title.clone()),
            Some(_) => {
                said(Err("`title` is not a string".to_owned()));
                None
            }
        };
        let risk: RiskLevel = one_of(
            "risk",
            "low, medium, high, critical",
            found.risk,
            RiskLevel::Medium,
            &mut said,
        );
        let group = match () {
            () if !needs.commands.is_empty() => ToolGroup::Runtime,
            () if !needs.hosts.is_empty() => ToolGroup::Net,
            () if !needs.files.is_empty() => ToolGroup::Fs,
            () => ToolGroup::System,
        };
        let group: ToolGroup = one_of(
            "group",
            "runtime, fs, net, browser, memory, system",
            found.group,
            group,
            &mut said,
        );
        let hints = hints(found.hints).unwrap_or_else(|message| {
            said(Err(message));
            ToolHints::default()
        });
        let (Some(approval), Some(description), Some(input), true) = (
            found.approval,
            found.description,
            found.input_schema,
            wrong.is_empty(),
        ) else {
            return Err(wrong);
        };
        let reach = &mut self.reach;
        let files = needs.files.iter().map(|need| need.access).max();
        reach.files = reach.files.max(files);
        reach.network |= !needs.hosts.is_empty();
        reach.commands |= !needs.commands.is_empty();
        reach.tools |= !needs.tools.is_empty();
        reach.model |= needs.model;
        reach.environment |= !needs.secrets.is_empty() || !needs.variables.is_empty();
        reach.assesses |= found.judges;
        self.tools.push(json!({
            "name": name,
            "path": found.path,
            "structured": found.output_schema.is_some(),
        }));
        Ok(json!({
            "name": name,
            "title": title,
            "description": description,
            "group": group,
            "inputSchema": input,
            "outputSchema": found.output_schema,
            "approval": approval,
            "risk": risk,
            "hints": hints,
            "needs": of_contract(&needs),
        }))
    }

    /// Returns the description that is embedded in the component, as JSON.
    pub(super) fn to_json(&self, places: &SourcePositions) -> String {
        let (files, places) = places.to_json();
        json!({ "manifest": self.manifest, "tools": self.tools, "places": places, "files": files })
            .to_string()
    }

    pub(super) fn names(self) -> Vec<(String, String)> {
        self.names
    }
}

/// Parses a value of an enumeration; the error lists the known values.
fn one_of<T: for<'a> Deserialize<'a>>(
    key: &str,
    known: &str,
    said: Option<Value>,
    otherwise: T,
    wrong: &mut impl FnMut(Result<(), String>),
) -> T {
    match said {
        None | Some(Value::Null) => otherwise,
        Some(value) => serde_json::from_value(value).unwrap_or_else(|_| {
            wrong(Err(format!(
                "`{key}` is not valid: expected one of {known}"
            )));
            otherwise
        }),
    }
}

fn hints(said: Option<Value>) -> Result<ToolHints, String> {
    const KNOWN: [&str; 4] = ["readOnly", "destructive", "idempotent", "openWorld"];
    let mut all = json!(ToolHints::default());
    let Some(said) = said else {
        return Ok(ToolHints::default());
    };
    let wrong = || {
        format!(
            "`hints` is not valid: expected an object with any of {}, each true or false",
            KNOWN.join(", ")
        )
    };
    for (key, value) in said.as_object().ok_or_else(wrong)? {
        if !KNOWN.contains(&key.as_str()) || !value.is_boolean() {
            return Err(wrong());
        }
        all[key] = value.clone();
    }
    serde_json::from_value(all).map_err(|error| format!("`hints`: {error}"))
}

/// Converts needs to the form of the contract, with every field present.
fn of_contract(needs: &Needs) -> Value {
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
        assert!(hints(Some(json!({"readOnly": true}))).unwrap().read_only);
        assert!(hints(Some(json!({"readonly": true}))).is_err());
        assert!(hints(Some(json!({"readOnly": 1}))).is_err());
        for other in [json!([]), json!(true), json!("readOnly")] {
            assert!(hints(Some(other)).is_err());
        }
    }
}
