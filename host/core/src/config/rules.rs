//! Argument rules as written in a file: the calls they match, and their decision.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::Decision;
use crate::tool::{ToolGroup, ToolSource};

/// A rule about calls with certain arguments.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleSettings {
    /// Its name in messages.
    #[serde(default)]
    pub name: Option<String>,
    /// Names or aliases of tools; none means every tool.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Groups of tools; none means every group.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub groups: Vec<ToolGroup>,
    /// Sources of tools; none means every source.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub sources: Vec<ToolSource>,
    /// Conditions on arguments, by their paths, such as `path` or `items[*].name`; all must hold.
    #[serde(default)]
    pub when: BTreeMap<String, MatcherSettings>,
    /// The decision for matching calls.
    #[schemars(with = "String")]
    pub decision: Decision,
    /// The reason, shown to the person and the model.
    #[serde(default)]
    pub reason: Option<String>,
    /// Example arguments that the rule must match; checked when the file is loaded.
    #[serde(default, rename = "match")]
    pub matches: Vec<Value>,
    /// Example arguments that the rule must not match; checked when the file is loaded.
    #[serde(default)]
    pub no_match: Vec<Value>,
}

/// A condition on one argument. Every key that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MatcherSettings {
    /// A text that this glob matches; `*` stops at `/`, `**` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// A text with a match of this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Exactly this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// A number of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// A number of at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// A path of this folder or of anything below it; both relative to the workspace root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// True if the argument must be present, false if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The opposite of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<MatcherSettings>>,
}
