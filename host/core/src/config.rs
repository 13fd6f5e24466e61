//! The settings file as types. Every accepted key is enforced somewhere; an unknown one is an error.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::limits::Limits;
use crate::tool::ToolGroup;

mod agent;
mod approval;
mod commands;
mod embeddings;
mod files;
mod labels;
mod limits;
mod mcp;
mod model;
mod network;
mod rules;
mod sandbox;
mod team;
mod weakening;
mod web_search;

pub use agent::{AgentBudget, AgentSettings};
pub use approval::{ApprovalBlock, ApprovalConditions, ApprovalDefaults, ToolApproval};
pub use commands::{AddedBy, ExecApproval, ExecApprovals, ExecMode};
pub(crate) use embeddings::uses_embeddings;
pub use embeddings::{EMBEDDINGS_VARIABLE, EmbeddingsEndpoint, EmbeddingsSettings};
pub use files::FileSettings;
pub use labels::{LabelSettings, RedactionSettings, ToolAuditSettings};
pub use limits::{LimitSettings, OutOfRangeError};
pub use mcp::{
    McpOauthSettings, McpPackage, McpProtocol, McpServerError, McpServerSettings, McpSettings,
    PackageRegistry, UntrustedMarking, is_scope,
};
pub use model::{ChosenModel, ProviderApi, ProviderSettings, TokenPrice};
pub use network::{FixedHosts, NetworkSettings};
pub use rules::{MatcherSettings, RuleSettings};
pub use sandbox::{
    BindMount, BindMountError, DEFAULT_MEMORY_MB, DEFAULT_PROCESSES, SandboxMode, SandboxSettings,
};
pub(crate) use web_search::uses_web_search;
pub use web_search::{
    SEARCH_VARIABLE, WebSearchEndpoint, WebSearchFields, WebSearchProvider, WebSearchSettings,
};

/// `.mimir/config.yml`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Chooses the listed forms of tools that overlap.
    pub profile: ToolProfile,
    /// Lists all tools for agents that speak MCP, or only those that search for tools.
    pub tool_discovery: ToolDiscovery,
    /// Approximate number of tokens of tool definitions that `auto` lists. Beyond it, the tools of the largest servers
    /// are only found by search.
    pub tool_discovery_tokens: Option<u64>,
    /// Settings of tools: a few for all of them, and one block per tool name.
    pub tools: ToolsSection,
    /// The tools available to the agents of this workspace.
    pub policy: ToolPolicy,
    /// Approval defaults of the custom tools, for all of them and by name.
    pub approval: ApprovalDefaults,
    /// Files of the workspace that are out of reach.
    pub files: FileSettings,
    /// The commands that may run.
    pub exec_approvals: ExecApprovals,
    /// The sandbox that commands run in.
    pub sandbox: SandboxSettings,
    /// Secrets taken from environment variables of the host, by name. Those of a project count once a person has
    /// accepted its file.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// Secrets of a project whose settings are not accepted: their values are masked, and no tool gets them.
    #[serde(skip)]
    pub masked_only: BTreeMap<String, SecretSettings>,
    /// The network access of tools. A tool's own block replaces it key by key.
    pub network: NetworkSettings,
    /// The provider of web searches.
    pub web_search: Option<WebSearchSettings>,
    /// The embeddings endpoint, so that `memory_search` also finds memories by meaning.
    pub embeddings: Option<EmbeddingsSettings>,
    /// Third-party MCP servers. Those of a project are started once a person has accepted its file.
    pub mcp: McpSettings,
    /// The model for `mimir run`, `mimir chat` and tools that were granted one: PROVIDER/MODEL.
    pub model: Option<String>,
    /// Model providers, by name. Those of a project are used once a person has accepted its file.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The behaviour and the limits of the agent.
    pub agent: AgentSettings,
    /// Limits of every call.
    pub limits: LimitSettings,
    /// Settings of approval questions.
    pub approvals: ApprovalSettings,
    /// Settings of the audit log.
    pub audit: AuditSettings,
}

/// Shows agents all tools, or three that search, describe and call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolDiscovery {
    /// All, unless they are too many to read.
    #[default]
    Auto,
    /// All.
    Off,
    /// The three.
    On,
}

/// The listed forms of tools that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolProfile {
    /// One tool per operation: `read_file`, `write_file`, ….
    #[default]
    Fine,
    /// One tool for several operations: `file_operations`.
    Compact,
}

/// The available tools, by name and by group. Deny wins.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolPolicy {
    /// If not empty, only these.
    pub allow: Vec<String>,
    /// Never these.
    pub deny: Vec<String>,
    /// Allow and deny lists by group.
    pub groups: GroupPolicy,
    /// Rules about calls with certain arguments.
    pub rules: Vec<RuleSettings>,
}

/// The available groups of tools.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupPolicy {
    /// If not empty, only these.
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<ToolGroup>,
    /// Never these.
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<ToolGroup>,
}

/// The block `tools`: settings for all tools and, under any other key, for the tool of that name.
#[derive(Debug, Clone, JsonSchema)]
pub struct ToolsSection {
    /// Loads tools from `.mimir/tools`.
    #[schemars(rename = "autoLoadCustomTools")]
    pub auto_load_custom_tools: bool,
    /// Shows the cost of each tool in a prompt in lists of tools.
    #[schemars(rename = "showTokenCosts")]
    pub show_token_costs: bool,
    /// The price of a million tokens of prompt in dollars, for display only.
    #[schemars(rename = "tokenPrice", range(min = 0, max = 1_000_000))]
    pub token_price: f64,
    /// Longest wall clock of a call in milliseconds.
    #[schemars(rename = "maxExecutionTime")]
    pub max_execution_time: Option<u64>,
    /// Settings per tool.
    #[schemars(flatten)]
    pub each: BTreeMap<String, ToolSettings>,
}

/// The keys of the block that are not tool names: tool names have no capitals.
const TOOLS_KEYS: [&str; 4] = [
    "autoLoadCustomTools",
    "maxExecutionTime",
    "showTokenCosts",
    "tokenPrice",
];

/// The range of the price of a million tokens in dollars. A higher value is a mistake; NaN is not in the range.
const TOKEN_PRICE_RANGE: std::ops::RangeInclusive<f64> = 0.0..=1_000_000.0;

fn parse_price<E: de::Error>(dollars: f64) -> Result<f64, E> {
    if TOKEN_PRICE_RANGE.contains(&dollars) {
        Ok(dollars)
    } else {
        Err(E::custom(format!(
            "tools.tokenPrice: {dollars} is out of range: expected {} to {} dollars for a million tokens",
            TOKEN_PRICE_RANGE.start(),
            TOKEN_PRICE_RANGE.end()
        )))
    }
}

impl Default for ToolsSection {
    fn default() -> Self {
        Self {
            auto_load_custom_tools: true,
            show_token_costs: true,
            // A common estimate; models differ by a factor of a hundred.
            token_price: 1.0,
            max_execution_time: None,
            each: BTreeMap::new(),
        }
    }
}

impl<'de> Deserialize<'de> for ToolsSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ToolsVisitor;
        impl<'de> Visitor<'de> for ToolsVisitor {
            type Value = ToolsSection;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("settings of tools")
            }
            fn visit_unit<E: de::Error>(self) -> Result<ToolsSection, E> {
                Ok(ToolsSection::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ToolsSection, A::Error> {
                let mut tools = ToolsSection::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "autoLoadCustomTools" => tools.auto_load_custom_tools = map.next_value()?,
                        "showTokenCosts" => tools.show_token_costs = map.next_value()?,
                        "tokenPrice" => tools.token_price = parse_price(map.next_value()?)?,
                        "maxExecutionTime" => tools.max_execution_time = Some(map.next_value()?),
                        name if crate::tool::ToolName::new(name).is_err() => {
                            let near = crate::name_suggestions::did_you_mean(name, TOOLS_KEYS);
                            return Err(de::Error::custom(format!(
                                "unknown key `{name}`: neither a setting nor a tool name.{near}"
                            )));
                        }
                        _ => {
                            let settings = map.next_value()?;
                            if tools.each.insert(key.clone(), settings).is_some() {
                                return Err(de::Error::custom(format!("`{key}` is set twice")));
                            }
                        }
                    }
                }
                Ok(tools)
            }
        }
        from.deserialize_any(ToolsVisitor)
    }
}

/// Settings of one tool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ToolSettings {
    /// `false` takes it off the list and refuses its calls.
    pub enabled: Option<bool>,
    /// The decision for its calls, in place of its own default.
    pub approval: ToolApproval,
    /// Rules about its calls with certain arguments.
    pub rules: Vec<RuleSettings>,
    /// Globs below the workspace that its file access never reaches.
    pub deny: Vec<String>,
    /// Secret files that it may read, each by its exact path below the workspace.
    pub reveal: Vec<String>,
    /// The labels of its results, and the content it accepts.
    pub labels: LabelSettings,
    /// Exceptions from masking in its results.
    pub redaction: RedactionSettings,
    /// Audit settings of its calls.
    pub audit: ToolAuditSettings,
    /// Its network access, in place of that of all tools.
    pub network: NetworkSettings,
    /// Limits of its calls.
    pub limits: LimitSettings,
}

/// The source of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSettings {
    /// The environment variable of the host that holds it.
    pub env: String,
}

/// Settings of approval questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApprovalSettings {
    /// Time until an unanswered question counts as a no, in milliseconds.
    pub timeout_ms: u64,
    /// Time until the answer "always" expires, in days.
    pub lease_days: u32,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            // Long enough for a short absence, short enough that no client waits forever.
            timeout_ms: 600_000,
            // A quarter: stored approvals older than that are asked again.
            lease_days: 90,
        }
    }
}

/// The content and the durability of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AuditSettings {
    /// Waits for the disk after each event, or not.
    pub durability: AuditDurability,
    /// Records arguments.
    pub log_args: bool,
    /// The treatment of a call that cannot be recorded.
    pub on_failure: AuditFailureMode,
    /// Bytes of a file before the next one begins.
    #[serde(deserialize_with = "deserialize_log_size")]
    #[schemars(range(min = 4096))]
    pub max_bytes: u64,
    /// The number of full files that are kept in addition to the current one.
    #[serde(deserialize_with = "deserialize_log_files")]
    #[schemars(range(min = 1, max = 10000))]
    pub keep: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            durability: AuditDurability::default(),
            log_args: false,
            on_failure: AuditFailureMode::default(),
            // Some 25,000 calls, and half a million with the full files.
            max_bytes: 16 << 20,
            keep: 20,
        }
    }
}

/// The treatment of a call that cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditFailureMode {
    /// The call is refused; if it is already active, its result is withheld.
    #[default]
    Refuse,
    /// The call runs, and the program's log reports the lost event.
    Run,
}

/// Minimum bytes of a log file. A lower value would make files of a few lines.
const LOG_SIZE_MIN: u64 = 4096;

fn deserialize_log_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(from)?;
    if bytes < LOG_SIZE_MIN {
        let message =
            format!("audit.maxBytes: {bytes} is out of range: expected at least {LOG_SIZE_MIN}");
        return Err(de::Error::custom(message));
    }
    Ok(bytes)
}

/// The range of the number of full log files. More would be too many to look through; at least one is needed to show
/// which files were deleted.
const LOG_FILES_RANGE: std::ops::RangeInclusive<u32> = 1..=10_000;

fn deserialize_log_files<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let files = u32::deserialize(from)?;
    if !LOG_FILES_RANGE.contains(&files) {
        let message = format!(
            "audit.keep: {files} is out of range: expected {} to {}",
            LOG_FILES_RANGE.start(),
            LOG_FILES_RANGE.end()
        );
        return Err(de::Error::custom(message));
    }
    Ok(files)
}

/// The point at which an event counts as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditDurability {
    /// Passed to the operating system.
    #[default]
    Write,
    /// Flushed to the disk.
    Fsync,
}

impl Config {
    /// The JSON Schema of a settings file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Config).to_value()
    }

    /// Checks that every limit is in range.
    pub fn check(&self) -> Result<(), OutOfRangeError> {
        self.limits.check("limits")?;
        self.sandbox.check("sandbox")?;
        self.mcp.check_times()?;
        limits::check_time("tools.maxExecutionTime", self.tools.max_execution_time)?;
        for (tool, settings) in &self.tools.each {
            settings.limits.check(&format!("tools.{tool}.limits"))?;
        }
        Ok(())
    }

    /// Returns the limits of every call.
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
    fn config_tools_block_is_read() {
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
    fn config_limits_out_of_range_name_their_key() {
        for (json, key) in [
            (serde_json::json!({"limits": {"fuel": 0}}), "limits.fuel"),
            (
                serde_json::json!({"tools": {"git": {"limits": {"instances": 65}}}}),
                "tools.git.limits.instances",
            ),
            (
                serde_json::json!({"tools": {"maxExecutionTime": 0}}),
                "tools.maxExecutionTime",
            ),
        ] {
            let error = read(json).unwrap().check().unwrap_err();
            assert_eq!(error.key, key);
        }
        let valid =
            serde_json::json!({"limits": {"fuel": 1_000}, "tools": {"maxExecutionTime": 1}});
        assert!(read(valid).unwrap().check().is_ok());
    }

    #[test]
    fn config_unknown_keys_are_rejected_everywhere() {
        for bad in [
            serde_json::json!({"polcy": {}}),
            serde_json::json!({"policy": {"alow": []}}),
            serde_json::json!({"tools": {"maxExecutiontime": 1}}),
            serde_json::json!({"tools": {"git": {"enable": true}}}),
            serde_json::json!({"tools": {"tokenPrice": -1}}),
            serde_json::json!({"tools": {"tokenPrice": "free"}}),
            serde_json::json!({"tools": {"showTokenCosts": "yes"}}),
            serde_json::json!({"limits": {"memory": 1}}),
            serde_json::json!({"audit": {"durability": "maybe"}}),
            serde_json::json!({"audit": {"onFailure": "ignore"}}),
            serde_json::json!({"audit": {"maxBytes": 100}}),
            serde_json::json!({"audit": {"keep": 0}}),
            serde_json::json!({"audit": {"keep": 100_000}}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
