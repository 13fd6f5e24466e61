//! Argument rules as written in a settings file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::Decision;
use crate::tool::{ToolGroup, ToolSource};

/// A rule for calls with certain arguments.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleSettings {
    /// The name of the rule in messages.
    #[serde(default)]
    pub name: Option<String>,
    /// Names or aliases of tools. Empty matches every tool.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Groups of tools. Empty matches every group.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub groups: Vec<ToolGroup>,
    /// Sources of tools. Empty matches every source.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub sources: Vec<ToolSource>,
    /// Conditions on arguments by argument path, such as `path` or `items[*].name`. All must hold.
    #[serde(default)]
    pub when: BTreeMap<String, MatcherSettings>,
    /// The decision for matching calls.
    #[schemars(with = "String")]
    pub decision: Decision,
    /// The reason, shown to people and models.
    #[serde(default)]
    pub reason: Option<String>,
    /// Example arguments that the rule must match, checked when the file is loaded.
    #[serde(default, rename = "match")]
    pub matches: Vec<Value>,
    /// Example arguments that the rule must not match, checked when the file is loaded.
    #[serde(default)]
    pub no_match: Vec<Value>,
}

/// A condition on one argument. All keys that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MatcherSettings {
    /// Matches text with this glob. `*` does not match `/`, `**` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Matches text that contains a match of this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Matches exactly this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Matches numbers that are at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Matches numbers that are at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Matches the path of this folder, and paths below it. Both are relative to the workspace root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// `true` requires the argument to be present, `false` to be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// Inverts this condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<MatcherSettings>>,
}
