//! Argument rules as they stand in a file: about which calls they speak, and what they say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::Decision;
use crate::tool::{Group, Source};

/// A rule about calls with certain arguments.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RuleSettings {
    /// What messages call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Names or aliases of tools; none means every tool.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Groups of tools; none means every group.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub groups: Vec<Group>,
    /// Sources of tools; none means every source.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub sources: Vec<Source>,
    /// What the arguments must be, by their paths, such as `path` or `items[*].name`; all of it must hold.
    #[serde(default)]
    pub when: BTreeMap<String, MatcherSettings>,
    /// What the rule says of such a call.
    #[schemars(with = "String")]
    pub decision: Decision,
    /// Why, in the words that a person and a model read.
    #[serde(default)]
    pub reason: Option<String>,
    /// Arguments that the rule must speak of; checked when the file is loaded.
    #[serde(default, rename = "match")]
    pub matches: Vec<Value>,
    /// Arguments that the rule must not speak of; checked when the file is loaded.
    #[serde(default)]
    pub no_match: Vec<Value>,
}

/// What one argument must be. Everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MatcherSettings {
    /// A text that this glob matches; `*` stops at `/`, `**` does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// A text that this regular expression finds something in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// This very value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// A number of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// A number of at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// A path of this folder or of anything below it; both count from the workspace root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Whether the argument is there at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The opposite of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<MatcherSettings>>,
}
