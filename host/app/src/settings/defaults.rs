//! Default values of keys, for display.
//!
//! Most defaults come from the schema. Values that depend on the call or the machine, such as the sandbox, have no
//! fixed default.

use mimir_core::Limits;
use mimir_core::config::{
    AgentBudget, AuditDurability, AuditFailureMode, Config, LimitSettings, ToolDiscovery,
    ToolProfile, UntrustedMarking,
};
use serde_json::{Value, json};

use super::config_schema::ConfigSchema;

impl ConfigSchema {
    /// Returns the default of the key at this path; `None` if it has no fixed default.
    pub fn default_of(&self, path: &[String]) -> Option<Value> {
        let config = Config::default();
        let parts: Vec<&str> = path.iter().map(String::as_str).collect();
        let value = match parts.as_slice() {
            ["profile"] => json!(match config.profile {
                ToolProfile::Fine => "fine",
                ToolProfile::Compact => "compact",
            }),
            ["toolDiscovery"] => json!(match config.tool_discovery {
                ToolDiscovery::Auto => "auto",
                ToolDiscovery::Off => "off",
                ToolDiscovery::On => "on",
            }),
            ["mcp", "enabled"] => json!(config.mcp.is_enabled()),
            ["mcp", "marks"] => json!(match config.mcp.marks {
                UntrustedMarking::All => "all",
                UntrustedMarking::Text => "text",
                UntrustedMarking::Minimal => "minimal",
            }),
            ["tools", "autoLoadCustomTools"] => json!(config.tools.auto_load_custom_tools),
            ["tools", "showTokenCosts"] => json!(config.tools.show_token_costs),
            ["tools", "tokenPrice"] => json!(config.tools.token_price),
            ["audit", "durability"] => json!(match config.audit.durability {
                AuditDurability::Write => "write",
                AuditDurability::Fsync => "fsync",
            }),
            ["audit", "onFailure"] => json!(match config.audit.on_failure {
                AuditFailureMode::Refuse => "refuse",
                AuditFailureMode::Run => "run",
            }),
            ["limits", key] => default_limits()[*key].take(),
            ["agent", key] => default_agent_budget()[*key].take(),
            _ => self.schema_default(path)?,
        };
        (!value.is_null()).then_some(value)
    }

    /// Returns the default in the schema of a key that has no keys below it.
    fn schema_default(&self, path: &[String]) -> Option<Value> {
        let mut node = self.root();
        for part in path {
            node = self.below(&node, part)?;
        }
        node.default().filter(|_| node.is_leaf()).cloned()
    }
}

fn default_limits() -> Value {
    serde_json::to_value(LimitSettings::from(Limits::default())).unwrap_or_default()
}

fn default_agent_budget() -> Value {
    let budget = AgentBudget::default();
    json!({
        "maxTurns": budget.turns,
        "maxToolCalls": budget.tool_calls,
        "maxTokens": budget.tokens,
        "maxCost": budget.cost,
        "maxTimeMs": u64::try_from(budget.time.as_millis()).ok(),
        "maxAnswerTokens": budget.answer_tokens,
        "contextTokens": budget.context_tokens,
        "compaction": budget.compaction,
        "retries": budget.retries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str) -> Option<Value> {
        let keys = ConfigSchema::default();
        keys.default_of(&keys.path(key).unwrap())
    }

    #[test]
    fn config_defaults_match_the_effective_values() {
        let set = json!({ "limits": default_limits(), "agent": default_agent_budget() });
        let set: Config = serde_json::from_value(set).unwrap();
        // A limit that is set holds for all processes of a cluster.
        let effective = mimir_core::Limits {
            concurrent_setting: set.limits().concurrent_setting,
            ..Config::default().limits()
        };
        assert_eq!(set.limits(), effective);
        assert_eq!(set.agent.over(AgentBudget::NOTHING), AgentBudget::default());
        for (key, wanted) in [
            ("limits.timeMs", json!(60_000)),
            ("agent.maxTurns", json!(50)),
            ("profile", json!("fine")),
            ("toolDiscovery", json!("auto")),
            ("mcp.marks", json!("all")),
            ("mcp.enabled", json!(true)),
            ("audit.keep", json!(20)),
            ("audit.onFailure", json!("refuse")),
            ("audit.durability", json!("write")),
            ("approvals.timeoutMs", json!(600_000)),
            ("tools.tokenPrice", json!(1.0)),
            ("tools.autoLoadCustomTools", json!(true)),
            ("policy.deny", json!([])),
        ] {
            assert_eq!(of(key), Some(wanted.clone()), "{key}");
            let path: Vec<_> = key.split('.').collect();
            let whole = path
                .iter()
                .rev()
                .fold(wanted, |inner, key| json!({ *key: inner }));
            assert!(serde_json::from_value::<Config>(whole).is_ok(), "{key}");
        }
        for none in [
            "limits",
            "limits.callsPerMinute",
            "model",
            "sandbox.mode",
            "secrets",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
