//! Settings of the command policy.

use schemars::JsonSchema;
use serde::Deserialize;

/// `execApprovals`: the commands that may run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecApprovals {
    /// The commands that run without approval. Default: commands that only read.
    pub mode: Option<ExecMode>,
    /// The allowed commands in mode `allowlist`.
    pub approvals: Vec<ExecApproval>,
}

/// The mode of the command policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecMode {
    /// All commands.
    Full,
    /// Commands that match a pattern.
    Allowlist,
    /// No commands.
    Deny,
}

/// A command that a person has approved.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecApproval {
    /// The words of the command. `*` matches one word, or at the end, all remaining words.
    pub pattern: String,
    /// The time of the last use, RFC 3339.
    #[serde(default)]
    pub last_used: Option<String>,
    /// The author of the entry. An entry with `auto` applies after a person has confirmed it. Until then, matching
    /// commands need approval.
    #[serde(default)]
    pub added_by: AddedBy,
}

/// The author of an approval entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddedBy {
    /// A person.
    #[default]
    User,
    /// A program.
    Auto,
}
