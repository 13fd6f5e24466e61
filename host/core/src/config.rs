//! The settings file as types. Every key that is accepted here is enforced somewhere; an unknown
//! one is an error.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::tool::Group;

mod approval;
mod commands;
mod labels;
mod lowering;
mod rules;

pub use approval::{ApprovalBlock, ApprovalSetting, Conditions};
pub use commands::{AddedBy, ExecApproval, ExecApprovals, ExecMode};
pub use labels::{LabelSettings, RedactionSettings, ToolAudit};
pub use rules::{MatcherSettings, RuleSettings};

/// `.mimir/config.yml`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Which of the overlapping forms of a tool are listed.
    pub profile: Profile,
    /// Settings of tools: a few for all of them, and one block per tool name.
    pub tools: Tools,
    /// Which tools exist for the agents of this workspace.
    pub policy: ToolPolicy,
    /// Which commands may run.
    pub exec_approvals: ExecApprovals,
    /// Secrets that are taken from variables of the host, by name. Only the user's own file can name some.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// Bounds of every call.
    pub limits: LimitSettings,
    /// How a person is asked.
    pub approvals: ApprovalSettings,
    /// What the audit log keeps.
    pub audit: AuditSettings,
}

/// Which of the overlapping forms of a tool are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// One tool per operation: `read_file`, `write_file`, ….
    #[default]
    Fine,
    /// One tool for several operations: `file_operations`.
    Compact,
}

/// Which tools exist, by name and by group. Deny wins.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPolicy {
    /// If not empty, only these.
    pub allow: Vec<String>,
    /// Never these.
    pub deny: Vec<String>,
    /// The same by group.
    pub groups: GroupPolicy,
    /// Rules about calls with certain arguments.
    pub rules: Vec<RuleSettings>,
}

/// Which groups of tools exist.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupPolicy {
    /// If not empty, only these.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<Group>,
    /// Never these.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<Group>,
}

/// The block `tools`: settings for all tools and, under any other key, for the tool of that name.
#[derive(Debug, Clone, JsonSchema)]
pub struct Tools {
    /// Whether `.mimir/tools` is read at all.
    #[schemars(rename = "autoLoadCustomTools")]
    pub auto_load_custom_tools: bool,
    /// Longest wall clock of a call in milliseconds.
    #[schemars(rename = "maxExecutionTime")]
    pub max_execution_time: Option<u64>,
    /// Per tool.
    #[schemars(flatten)]
    pub each: BTreeMap<String, ToolSettings>,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            auto_load_custom_tools: true,
            max_execution_time: None,
            each: BTreeMap::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Block;
        impl<'de> Visitor<'de> for Block {
            type Value = Tools;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("settings of tools")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Tools, E> {
                Ok(Tools::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tools, A::Error> {
                let mut tools = Tools::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "autoLoadCustomTools" => tools.auto_load_custom_tools = map.next_value()?,
                        "maxExecutionTime" => tools.max_execution_time = Some(map.next_value()?),
                        name if crate::tool::ToolName::new(name).is_err() => {
                            let known = ["autoLoadCustomTools", "maxExecutionTime"];
                            let near = crate::names::did_you_mean(name, known);
                            return Err(de::Error::custom(format!(
                                "unknown key `{name}`: neither a setting nor a tool name.{near}"
                            )));
                        }
                        _ => {
                            let settings = map.next_value()?;
                            if tools.each.insert(key.clone(), settings).is_some() {
                                return Err(de::Error::custom(format!("`{key}` is there twice")));
                            }
                        }
                    }
                }
                Ok(tools)
            }
        }
        from.deserialize_any(Block)
    }
}

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolSettings {
    /// `false` takes it off the list and refuses its calls.
    pub enabled: Option<bool>,
    /// What happens to its calls, in place of its own default.
    pub approval: ApprovalSetting,
    /// Rules about its calls with certain arguments.
    pub rules: Vec<RuleSettings>,
    /// Globs below the workspace that its file access never reaches.
    pub deny: Vec<String>,
    /// Secrets files that it may reach, each by its exact path below the workspace.
    pub reveal: Vec<String>,
    /// How its results are labelled, and what it may be given.
    pub labels: LabelSettings,
    /// What is not masked in its results.
    pub redaction: RedactionSettings,
    /// What the audit log keeps of its calls.
    pub audit: ToolAudit,
    /// Bounds of its calls.
    pub limits: LimitSettings,
}

/// Bounds of a call; what is not set keeps its default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LimitSettings {
    /// Wall clock in milliseconds.
    pub time_ms: Option<u64>,
    /// Units of fuel.
    pub fuel: Option<u64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// Elements over all tables.
    pub table_elements: Option<u64>,
    /// Core instances.
    pub instances: Option<u32>,
    /// Bytes of raw output.
    pub output_bytes: Option<u64>,
    /// Characters of text for the model.
    pub output_chars: Option<usize>,
    /// Log lines kept.
    pub log_lines: Option<usize>,
    /// Bytes kept of a log line.
    pub log_line_bytes: Option<usize>,
    /// Files open at once.
    pub open_files: Option<usize>,
    /// Calls of one plugin at a time.
    pub concurrent: Option<usize>,
    /// Calls per minute of one tool.
    pub calls_per_minute: Option<u32>,
}

impl LimitSettings {
    /// These bounds, and `base` where nothing is set.
    pub fn over(self, base: Limits) -> Limits {
        Limits {
            wall: self.time_ms.map_or(base.wall, Duration::from_millis),
            fuel: self.fuel.unwrap_or(base.fuel),
            memory: self
                .memory_mb
                .map_or(base.memory, |mb| mb.saturating_mul(1 << 20)),
            table_elements: self.table_elements.unwrap_or(base.table_elements),
            instances: self.instances.unwrap_or(base.instances),
            output_bytes: self.output_bytes.unwrap_or(base.output_bytes),
            output_chars: self.output_chars.unwrap_or(base.output_chars),
            log_lines: self.log_lines.unwrap_or(base.log_lines),
            log_line_bytes: self.log_line_bytes.unwrap_or(base.log_line_bytes),
            open_files: self.open_files.unwrap_or(base.open_files),
            concurrent_per_plugin: self.concurrent.unwrap_or(base.concurrent_per_plugin).max(1),
            calls_per_minute: self.calls_per_minute.or(base.calls_per_minute),
        }
    }
}

impl From<Limits> for LimitSettings {
    fn from(limits: Limits) -> Self {
        Self {
            time_ms: Some(u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX)),
            fuel: Some(limits.fuel),
            memory_mb: Some(limits.memory >> 20),
            table_elements: Some(limits.table_elements),
            instances: Some(limits.instances),
            output_bytes: Some(limits.output_bytes),
            output_chars: Some(limits.output_chars),
            log_lines: Some(limits.log_lines),
            log_line_bytes: Some(limits.log_line_bytes),
            open_files: Some(limits.open_files),
            concurrent: Some(limits.concurrent_per_plugin),
            calls_per_minute: limits.calls_per_minute,
        }
    }
}

/// Where a secret is taken from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSettings {
    /// The variable of the host that holds it.
    pub env: String,
}

/// How a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalSettings {
    /// How long a question stands before it counts as a no, in milliseconds.
    pub timeout_ms: u64,
    /// How long the answer "always" counts, in days.
    pub lease_days: u32,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            // Long enough to come back from the next room, short enough that no client waits for ever.
            timeout_ms: 600_000,
            // A season: what nobody has looked at for longer is asked about again.
            lease_days: 90,
        }
    }
}

/// What the audit log keeps and how safely.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditSettings {
    /// Whether an event waits for the disk.
    pub durability: Durability,
    /// Whether arguments are kept.
    pub log_args: bool,
}

/// When an event counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the operating system has it.
    #[default]
    Write,
    /// When the disk has it.
    Fsync,
}

impl Config {
    /// The bounds of every call.
    pub fn limits(&self) -> Limits {
        let mut limits = self.limits.over(Limits::default());
        if let Some(millis) = self.tools.max_execution_time {
            limits.wall = limits.wall.min(Duration::from_millis(millis));
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Decision;

    fn read(json: serde_json::Value) -> Result<Config, String> {
        serde_json::from_value(json).map_err(|e| e.to_string())
    }

    #[test]
    fn the_seeds_block_is_read() {
        let config = read(serde_json::json!({"tools": {
            "file_operations": {"enabled": true},
            "git": {"enabled": false, "approval": "always_deny"},
            "autoLoadCustomTools": false,
            "maxExecutionTime": 5000,
        }}))
        .unwrap();
        assert_eq!(
            config.tools.each["git"].approval.level(),
            Some(Decision::Deny)
        );
        assert!(!config.tools.auto_load_custom_tools);
        assert_eq!(config.limits().wall, Duration::from_secs(5));
    }

    #[test]
    fn unknown_keys_are_refused_everywhere() {
        for bad in [
            serde_json::json!({"polcy": {}}),
            serde_json::json!({"policy": {"alow": []}}),
            serde_json::json!({"tools": {"maxExecutiontime": 1}}),
            serde_json::json!({"tools": {"git": {"enable": true}}}),
            serde_json::json!({"limits": {"memory": 1}}),
            serde_json::json!({"audit": {"durability": "maybe"}}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
