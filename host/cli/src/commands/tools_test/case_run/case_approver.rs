//! Answers to the questions of a case, within the needs of the plugin.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_core::needs::HostNeed;
use mimir_core::network::RequestTarget;
use mimir_core::tool::ToolSource;
use mimir_core::{BoxFuture, Decision, PolicyLayer, Registry};
use serde_json::Value;

/// Approver that gives the same answer to every question about what the plugin needs, and refuses all others.
pub struct CaseApprover {
    approves: bool,
    plugin: OnceLock<PluginScope>,
}

/// Tools and hosts that questions of a case may be about.
struct PluginScope {
    /// Names of the plugin's own tools, and of those that it needs.
    tools: BTreeSet<String>,
    hosts: Vec<HostNeed>,
}

impl CaseApprover {
    /// Creates an approver. `approves` is its answer.
    pub fn new(approves: bool) -> Self {
        Self {
            approves,
            plugin: OnceLock::new(),
        }
    }

    /// Sets the plugin: the only custom tools of the registry. Until then, every question is refused.
    pub fn set_plugin(&self, registry: &Registry) {
        let own = registry.tools().iter();
        let own = own.filter(|tool| tool.source == ToolSource::Custom);
        let mut plugin = PluginScope {
            tools: BTreeSet::new(),
            hosts: Vec::new(),
        };
        for tool in own {
            plugin.tools.insert(tool.name().to_string());
            let needs = tool.requested_needs();
            // An alias stands for the tool, whose name is on the card.
            let needed = needs.tools.iter().filter_map(|name| registry.get(name));
            let needed = needed.map(|tool| tool.name().to_string());
            plugin.tools.extend(needed);
            plugin.hosts.extend(needs.hosts.iter().cloned());
        }
        // A case has one plugin, so a second value is the same.
        let _ = self.plugin.set(plugin);
    }
}

impl PluginScope {
    /// Returns true if the plugin needs what the question is about.
    fn covers(&self, card: &Card) -> bool {
        self.tools.contains(&card.tool) && (!asks_about_host(card) || self.has_host(card))
    }

    /// Returns true if the plugin needs the host of the request on the card.
    fn has_host(&self, card: &Card) -> bool {
        let arguments: Value = serde_json::from_str(&card.arguments).unwrap_or_default();
        let target = arguments["url"].as_str().map(RequestTarget::parse);
        let Some(Ok(target)) = target else {
            return false;
        };
        let mut patterns = self.hosts.iter().filter_map(|need| need.pattern().ok());
        patterns.any(|pattern| pattern.matches(&target))
    }
}

/// Returns true if a reason of the question is that no list has the host of a request.
fn asks_about_host(card: &Card) -> bool {
    card.reasons
        .iter()
        .any(|reason| reason.decision == Decision::Ask && reason.layer == PolicyLayer::Network)
}

impl Approver for CaseApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let is_covered = self.plugin.get().is_some_and(|plugin| plugin.covers(card));
        let answer = if self.approves && is_covered {
            ApprovalAnswer::Once
        } else {
            ApprovalAnswer::No
        };
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use mimir_core::DecisionReason;
    use mimir_core::approval::Fingerprint;
    use mimir_core::tool::RiskLevel;

    use super::*;

    fn approver() -> CaseApprover {
        let approver = CaseApprover::new(true);
        let host = HostNeed {
            host: "*.example.com".to_owned(),
            methods: vec!["GET".to_owned()],
            reason: String::new(),
        };
        let plugin = PluginScope {
            tools: ["words", "read_file"].map(str::to_owned).into(),
            hosts: vec![host],
        };
        assert!(approver.plugin.set(plugin).is_ok());
        approver
    }

    fn card(tool: &str, url: Option<&str>) -> Card {
        let arguments = serde_json::json!({ "url": url });
        let reason = DecisionReason {
            layer: PolicyLayer::Network,
            decision: Decision::Ask,
            rule: String::new(),
            source: String::new(),
            text: String::new(),
        };
        Card {
            fingerprint: Fingerprint::new(tool, "", &arguments),
            tool: tool.to_owned(),
            caller: None,
            source: ToolSource::Custom,
            location: String::new(),
            digest: String::new(),
            arguments: arguments.to_string(),
            summary: String::new(),
            risk: RiskLevel::Low,
            risks: Vec::new(),
            grants: Vec::new(),
            changes: Vec::new(),
            proofs: Vec::new(),
            reasons: url.map(|_| reason).into_iter().collect(),
            always: None,
            remedies: Vec::new(),
            editable: true,
            facts: mimir_core::approval::CardFacts::default(),
        }
    }

    async fn approves(approver: &CaseApprover, tool: &str, url: Option<&str>) -> bool {
        approver.ask(&card(tool, url)).await == ApprovalAnswer::Once
    }

    #[tokio::test]
    async fn case_approver_approves_only_what_the_plugin_needs() {
        let approver = approver();
        for (tool, url, expected) in [
            ("words", None, true),
            ("read_file", None, true),
            ("bash", None, false),
            ("words", Some("https://api.example.com/x"), true),
            ("words", Some("https://evil.test/x"), false),
            ("words", Some("not a URL"), false),
            ("bash", Some("https://api.example.com/x"), false),
        ] {
            let approved = approves(&approver, tool, url).await;
            assert_eq!(approved, expected, "{tool} {url:?}");
        }
    }

    #[tokio::test]
    async fn case_approver_refuses_without_a_plugin_and_if_the_person_does() {
        assert!(!approves(&CaseApprover::new(true), "words", None).await);
        let refusing = CaseApprover {
            approves: false,
            ..approver()
        };
        assert!(!approves(&refusing, "words", None).await);
    }
}
