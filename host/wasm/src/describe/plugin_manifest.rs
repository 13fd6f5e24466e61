//! The description of a plugin as its author wrote it, before validation: received from the component, or read from its
//! manifest section.

use mimir_core::tool::{RiskLevel, ToolGroup, ToolHints};
use mimir_core::{Decision, Needs};
use serde::{Deserialize, Serialize};

use crate::bindings::types;
use crate::convert;

/// The description of a plugin. Its JSON is the content of the manifest section: a change of its form needs another name
/// of the section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PluginManifest {
    pub name: String,
    pub version: String,
    pub tools: Vec<ClaimedTool>,
}

/// The definition of a tool, not validated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimedTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    pub group: ToolGroup,
    /// JSON, as text.
    pub input_schema: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<String>,
    pub approval: Decision,
    pub risk: RiskLevel,
    pub hints: ToolHints,
    #[serde(default)]
    pub needs: Needs,
}

impl From<convert::ToolsetManifest> for PluginManifest {
    fn from(manifest: convert::ToolsetManifest) -> Self {
        Self {
            name: manifest.name,
            version: manifest.version,
            tools: manifest.tools.into_iter().map(ClaimedTool::from).collect(),
        }
    }
}

impl From<types::Definition> for ClaimedTool {
    fn from(tool: types::Definition) -> Self {
        Self {
            name: tool.name,
            title: tool.title,
            description: tool.description,
            group: convert::group(tool.group),
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
            approval: convert::approval(tool.approval),
            risk: convert::risk(tool.risk),
            hints: convert::hints(tool.hints),
            needs: convert::needs(tool.needs),
        }
    }
}

impl PluginManifest {
    /// Parses the content of a manifest section.
    pub(crate) fn parse(section: &[u8]) -> serde_json::Result<Self> {
        let mut manifest: Self = serde_json::from_slice(section)?;
        for tool in &mut manifest.tools {
            // Only a person sets these, in the settings.
            tool.needs.environment.clear();
            tool.needs.config.clear();
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_manifest_cannot_set_what_only_a_person_sets() {
        let text = r#"{"name": "p", "version": "1.0.0", "tools": [{
            "name": "t", "description": "d", "group": "system", "inputSchema": "{}",
            "approval": "allow", "risk": "low",
            "hints": {"readOnly": true, "destructive": false, "idempotent": true, "openWorld": false},
            "needs": {"environment": {"PATH": "/evil"}, "config": {"a": "b"}, "model": true}
        }]}"#;
        let manifest = PluginManifest::parse(text.as_bytes()).unwrap();
        let needs = &manifest.tools[0].needs;
        assert!(needs.environment.is_empty() && needs.config.is_empty() && needs.model);
        let again = serde_json::to_vec(&manifest).unwrap();
        assert_eq!(PluginManifest::parse(&again).unwrap(), manifest);
    }

    #[test]
    fn plugin_manifest_of_another_form_is_an_error() {
        for text in ["", "{}", "[]", r#"{"name": 1, "version": "", "tools": []}"#] {
            assert!(PluginManifest::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
