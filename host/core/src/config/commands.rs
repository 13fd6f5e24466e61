//! What a person may set about commands: which of them run, and in what sandbox.

use schemars::JsonSchema;
use serde::Deserialize;

/// `execApprovals`: which commands may run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecApprovals {
    /// Which commands run; not set, those that only read do, and the others are asked about.
    pub mode: Option<ExecMode>,
    /// The commands that `allowlist` lets through.
    pub approvals: Vec<ExecApproval>,
}

/// Which commands may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecMode {
    /// All of them.
    Full,
    /// Those that a pattern matches.
    Allowlist,
    /// None.
    Deny,
}

/// A command that a person has approved.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecApproval {
    /// Words of the command; `*` stands for one word, or for all the rest at the end.
    pub pattern: String,
    /// When it was last used, RFC 3339.
    #[serde(default)]
    pub last_used: Option<String>,
    /// Who added it. What was added `auto` counts only after a person has confirmed it: it is asked about.
    #[serde(default)]
    pub added_by: AddedBy,
}

/// Who added an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddedBy {
    /// A person.
    #[default]
    User,
    /// A program.
    Auto,
}
