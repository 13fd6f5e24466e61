//! Settings that weaken protection, which apply only after a person has accepted the file.
//!
//! A project's settings may come from a checkout: their restrictions apply at once, their permissions do not.

use crate::decision::Decision;
use crate::limits::{Limits, smaller_limit};
use crate::outcome::{DataClass, TrustLevel};

use super::sandbox::{DEFAULT_MEMORY_MB, DEFAULT_PROCESSES};
use super::{
    Config, ExecMode, LimitSettings, NetworkSettings, RuleSettings, SandboxSettings,
    SecretSettings, ToolSettings,
};

impl Config {
    /// Returns the keys of this file that weaken a setting of `below`, with short values.
    pub fn weakening_keys(&self, below: &Config) -> Vec<String> {
        let mut keys = Vec::new();
        for (name, tool) in &self.tools.each {
            tool.collect_weakening_keys(&format!("tools.{name}"), &mut keys);
            let base = below.tool_limits(name);
            if tool.limits.raises(base) {
                keys.push(format!("tools.{name}.limits"));
            }
            let key = format!("tools.{name}.network");
            let base = below.tool_network(name);
            tool.network.collect_weakening_keys(&key, &base, &mut keys);
            let base = below.tools.each.get(name);
            // A project must neither multiply requests to other systems, nor show old results as new ones.
            if tool.retries.weakens(base.map(|base| &base.retries)) {
                keys.push(format!("tools.{name}.retries"));
            }
            if tool.cache.is_some() && tool.cache != base.and_then(|base| base.cache) {
                keys.push(format!("tools.{name}.cache"));
            }
        }
        let allowed = self.approval.tools.iter();
        let allowed = allowed.filter(|(_, decision)| **decision == Decision::Allow);
        keys.extend(allowed.map(|(name, _)| format!("approval.tools.{name}: allow")));
        self.network
            .collect_weakening_keys("network", &below.network, &mut keys);
        collect_allow_rules("policy.rules", &self.policy.rules, &mut keys);
        match self.exec_approvals.mode {
            Some(ExecMode::Full) => keys.push("execApprovals.mode: full".to_owned()),
            Some(ExecMode::Allowlist) => keys.push("execApprovals.approvals".to_owned()),
            Some(ExecMode::Deny) | None => {}
        }
        self.sandbox
            .collect_weakening_keys(&below.sandbox, &mut keys);
        let base = below.limits();
        if self.limits.raises(base) {
            keys.push("limits".to_owned());
        }
        let longest = below.tools.max_execution_time.unwrap_or(u64::MAX);
        if self
            .tools
            .max_execution_time
            .is_some_and(|own| own > longest)
        {
            keys.push("tools.maxExecutionTime".to_owned());
        }
        if self.web_search.is_some() && self.web_search != below.web_search {
            keys.push("webSearch".to_owned());
        }
        if self.embeddings.is_some() && self.embeddings != below.embeddings {
            keys.push("embeddings".to_owned());
        }
        if self.browser.is_some() && self.browser != below.browser {
            keys.push("browser".to_owned());
        }
        self.registries
            .collect_weakening_keys(&below.registries, &mut keys);
        self.collect_trust_weakening_keys(below, &mut keys);
        self.collect_role_weakening_keys(below, &mut keys);
        self.mcp.collect_weakening_keys(&below.mcp, &mut keys);
        self.collect_model_weakening_keys(below, &mut keys);
        self.agent.collect_weakening_keys(&below.agent, &mut keys);
        keys.extend(self.secrets.keys().map(|name| format!("secrets.{name}")));
        let defaults = Config::default().approvals;
        let (own, base) = (&self.approvals, &below.approvals);
        for (key, value, default, base) in [
            (
                "timeoutMs",
                own.timeout_ms,
                defaults.timeout_ms,
                base.timeout_ms,
            ),
            (
                "leaseDays",
                own.lease_days.into(),
                defaults.lease_days.into(),
                base.lease_days.into(),
            ),
        ] {
            // A default value was probably not set explicitly.
            if value != default && value > base {
                keys.push(format!("approvals.{key}"));
            }
        }
        if self.audit != Config::default().audit && self.audit != below.audit {
            keys.push("audit".to_owned());
        }
        keys
    }

    /// Reverts the settings that weaken those of `below`, except for rules, which are evaluated per file.
    pub fn clamp_to(&mut self, below: &Config) {
        let base = below.limits();
        for (name, tool) in &mut self.tools.each {
            let limits = tool.limits.over(self.limits.over(base));
            tool.limits = LimitSettings::from(limits.tightest(below.tool_limits(name)));
            // An unset block takes its values from `network`, which is clamped below.
            if tool.network != NetworkSettings::default() {
                tool.network.clamp_to(below.tool_network(name));
            }
            let base = below.tools.each.get(name);
            if tool.retries.weakens(base.map(|base| &base.retries)) {
                tool.retries = base.map(|base| base.retries.clone()).unwrap_or_default();
            }
            tool.cache = base.and_then(|base| base.cache);
        }
        self.limits = LimitSettings::from(self.limits.over(base).tightest(base));
        self.network.clamp_to(below.network.clone());
        self.tools.auto_load_custom_tools &= below.tools.auto_load_custom_tools;
        self.tools.max_execution_time = smaller_limit(
            self.tools.max_execution_time,
            below.tools.max_execution_time,
        );
        self.sandbox.clamp_to(&below.sandbox);
        self.approvals.timeout_ms = self.approvals.timeout_ms.min(below.approvals.timeout_ms);
        self.approvals.lease_days = self.approvals.lease_days.min(below.approvals.lease_days);
        // Masking a value grants nothing.
        let is_unaccepted =
            |(name, secret): &(&String, &SecretSettings)| below.secrets.get(*name) != Some(*secret);
        let masked = self.secrets.iter().filter(is_unaccepted);
        self.masked_only = masked
            .map(|(name, secret)| (name.clone(), secret.clone()))
            .collect();
        self.secrets.clone_from(&below.secrets);
        self.registries.clone_from(&below.registries);
        // Nor may a checkout decide whose signatures count.
        self.trust.clone_from(&below.trust);
        self.trust_root.clone_from(&below.trust_root);
        self.trust_layers = below.trust_layers;
        self.roles.clone_from(&below.roles);
        self.mcp.clamp_to(&below.mcp);
        // Searches, memories, conversations and API keys must not be sent to an address from a file that is not
        // accepted.
        self.web_search.clone_from(&below.web_search);
        self.embeddings.clone_from(&below.embeddings);
        // The program, the logins of a profile and the use of secrets are for a person to decide.
        self.browser.clone_from(&below.browser);
        self.model.clone_from(&below.model);
        self.providers.clone_from(&below.providers);
        self.agent.clamp_to(&below.agent);
        self.audit = below.audit;
    }

    fn tool_limits(&self, name: &str) -> Limits {
        let base = self.limits();
        let tool = self.tools.each.get(name);
        tool.map_or(base, |tool| tool.limits.over(base))
    }
}

impl ToolSettings {
    fn collect_weakening_keys(&self, key: &str, keys: &mut Vec<String>) {
        if self.approval.level() == Some(Decision::Allow) {
            keys.push(format!("{key}.approval: allow"));
        }
        let block = self.approval.block();
        if block.is_some_and(|block| block.conditions.unknown_host_requires_approval) {
            // This setting weakens the policy: hosts without a grant are refused otherwise.
            keys.push(format!(
                "{key}.approval.conditions.unknownHostRequiresApproval"
            ));
        }
        collect_allow_rules(&format!("{key}.rules"), &self.rules, keys);
        if !self.reveal.is_empty() {
            keys.push(format!("{key}.reveal: [{}]", self.reveal.join(", ")));
        }
        if !self.redaction.exceptions.is_empty() {
            let exceptions = self.redaction.exceptions.join(", ");
            keys.push(format!("{key}.redaction.exceptions: [{exceptions}]"));
        }
        if self.labels != self.labels.strict() {
            keys.push(format!("{key}.labels"));
        }
        if self.audit.log_args == Some(true) {
            keys.push(format!("{key}.audit.logArgs: true"));
        }
    }
}

impl super::LabelSettings {
    /// Returns only the values that make the labels stricter.
    #[must_use]
    pub fn strict(self) -> Self {
        Self {
            output_trust: self
                .output_trust
                .filter(|trust| *trust == TrustLevel::Untrusted),
            output_data_class: self
                .output_data_class
                .filter(|class| *class >= DataClass::Sensitive),
            accepts_untrusted: self.accepts_untrusted.filter(|accepts| !accepts),
        }
    }
}

impl SandboxSettings {
    /// Collects the keys that change the sandbox or raise its limits. Lower limits need no acceptance.
    fn collect_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        if self.mode.is_some() && self.mode != below.mode {
            keys.push("sandbox.mode".to_owned());
        }
        for (key, differs) in [
            ("image", self.image.is_some() && self.image != below.image),
            (
                "images",
                self.images
                    .iter()
                    .any(|(language, image)| below.images.get(language) != Some(image)),
            ),
            (
                "socket",
                self.socket.is_some() && self.socket != below.socket,
            ),
            (
                "networkAccess",
                self.network_access == Some(true) && below.network_access != Some(true),
            ),
            (
                "maxMemoryMb",
                raises(
                    self.max_memory_mb,
                    below.max_memory_mb.or(Some(DEFAULT_MEMORY_MB)),
                ),
            ),
            (
                "maxCpuPercent",
                raises(self.max_cpu_percent, below.max_cpu_percent),
            ),
            (
                "maxProcesses",
                raises(
                    self.max_processes,
                    below.max_processes.or(Some(DEFAULT_PROCESSES)),
                ),
            ),
        ] {
            if differs {
                keys.push(format!("sandbox.{key}"));
            }
        }
        let is_known = |mount| below.bind_mounts.contains(mount);
        let added = self.bind_mounts.iter().filter(|mount| !is_known(*mount));
        keys.extend(added.map(|mount| format!("sandbox.bindMounts: {}", mount.from)));
    }

    fn clamp_to(&mut self, below: &Self) {
        *self = Self {
            network_access: match (self.network_access, below.network_access) {
                (Some(false), _) => Some(false),
                (_, other) => other,
            },
            max_memory_mb: tighter(
                self.max_memory_mb,
                below.max_memory_mb,
                Some(DEFAULT_MEMORY_MB),
            ),
            max_cpu_percent: tighter(self.max_cpu_percent, below.max_cpu_percent, None),
            max_processes: tighter(
                self.max_processes,
                below.max_processes,
                Some(DEFAULT_PROCESSES),
            ),
            ..below.clone()
        };
    }
}

/// Returns true if a limit is higher than the limit of the weaker files. `None` is unlimited.
fn raises<T: Ord>(bound: Option<T>, below: Option<T>) -> bool {
    bound.is_some_and(|bound| below.is_some_and(|below| bound > below))
}

/// Returns the lower of both limits. If `below` is unset, a limit above the default is dropped.
fn tighter<T: Ord>(bound: Option<T>, below: Option<T>, default: Option<T>) -> Option<T> {
    match below {
        Some(_) => smaller_limit(bound, below),
        None => bound.filter(|bound| default.is_none_or(|default| *bound <= default)),
    }
}

fn collect_allow_rules(key: &str, rules: &[RuleSettings], keys: &mut Vec<String>) {
    for (at, rule) in rules.iter().enumerate() {
        if rule.decision == Decision::Allow {
            keys.push(format!("{key}[{at}]: allow"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(value: serde_json::Value) -> Config {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn config_keys_that_weaken_the_policy_are_listed() {
        let below =
            config(json!({"limits": {"timeMs": 1000}, "tools": {"maxExecutionTime": 1000}}));
        for (file, key) in [
            (
                json!({"tools": {"maxExecutionTime": 1001}}),
                "tools.maxExecutionTime",
            ),
            (
                json!({"tools": {"a": {"approval": "auto"}}}),
                "tools.a.approval: allow",
            ),
            (json!({"sandbox": "none"}), "sandbox.mode"),
            (
                json!({"sandbox": {"networkAccess": true}}),
                "sandbox.networkAccess",
            ),
            (
                json!({"sandbox": {"bindMounts": ["/data"]}}),
                "sandbox.bindMounts: /data",
            ),
            (
                json!({"sandbox": {"maxMemoryMb": 9000}}),
                "sandbox.maxMemoryMb",
            ),
            (
                json!({"sandbox": {"maxProcesses": 5000}}),
                "sandbox.maxProcesses",
            ),
            (json!({"sandbox": {"image": "x"}}), "sandbox.image"),
            (
                json!({"sandbox": {"images": {"python": "x"}}}),
                "sandbox.images",
            ),
            (
                json!({"tools": {"a": {"approval": {"level": "allow"}}}}),
                "tools.a.approval: allow",
            ),
            (
                json!({"tools": {"a": {"reveal": [".env"]}}}),
                "tools.a.reveal: [.env]",
            ),
            (
                json!({"tools": {"a": {"redaction": {"exceptions": ["x"]}}}}),
                "tools.a.redaction.exceptions: [x]",
            ),
            (
                json!({"tools": {"a": {"labels": {"outputTrust": "user"}}}}),
                "tools.a.labels",
            ),
            (
                json!({"tools": {"a": {"labels": {"acceptsUntrusted": true}}}}),
                "tools.a.labels",
            ),
            (
                json!({"tools": {"a": {"labels": {"outputDataClass": "public"}}}}),
                "tools.a.labels",
            ),
            (
                json!({"tools": {"a": {"audit": {"logArgs": true}}}}),
                "tools.a.audit.logArgs: true",
            ),
            (
                json!({"tools": {"a": {"limits": {"timeMs": 2000}}}}),
                "tools.a.limits",
            ),
            (json!({"tools": {"a": {"retries": 1}}}), "tools.a.retries"),
            (
                json!({"tools": {"a": {"cache": {"ttlMs": 1000}}}}),
                "tools.a.cache",
            ),
            (
                json!({"tools": {"a": {"rules": [{"decision": "allow"}]}}}),
                "tools.a.rules[0]: allow",
            ),
            (
                json!({"policy": {"rules": [{"decision": "ask"}, {"decision": "allow"}]}}),
                "policy.rules[1]: allow",
            ),
            (
                json!({"execApprovals": {"mode": "full"}}),
                "execApprovals.mode: full",
            ),
            (
                json!({"execApprovals": {"mode": "allowlist"}}),
                "execApprovals.approvals",
            ),
            (
                json!({"approval": {"default": "ask", "tools": {"a": "preApproved", "b": "ask"}}}),
                "approval.tools.a: allow",
            ),
            (json!({"limits": {"memoryMb": 512}}), "limits"),
            (
                json!({"approvals": {"leaseDays": 900}}),
                "approvals.leaseDays",
            ),
            (
                json!({"approvals": {"timeoutMs": 3, "leaseDays": 900}}),
                "approvals.leaseDays",
            ),
            (json!({"audit": {"logArgs": true}}), "audit"),
            (json!({"secrets": {"KEY": {"env": "HOME"}}}), "secrets.KEY"),
            (
                json!({"webSearch": {"provider": "searxng", "url": "https://s.example"}}),
                "webSearch",
            ),
            (
                json!({"embeddings": {"url": "https://e.example/v1", "model": "m"}}),
                "embeddings",
            ),
            (json!({"browser": {"profile": "work"}}), "browser"),
            (json!({"model": "openai/x"}), "model: openai/x"),
            (
                json!({"providers": {"mine": {"url": "https://m.example"}}}),
                "providers.mine",
            ),
            (
                json!({"agent": {"instructions": "x"}}),
                "agent.instructions",
            ),
            (json!({"agent": {"maxTurns": 900}}), "agent"),
            (json!({"network": {"mode": "any"}}), "network.mode: any"),
            (
                json!({"network": {"allowedHosts": ["a.example"]}}),
                "network.allowedHosts: [a.example]",
            ),
            (
                json!({"network": {"blockedPorts": [25]}}),
                "network.blockedPorts",
            ),
            (
                json!({"network": {"blockPrivateIPs": false}}),
                "network.blockPrivateIPs: false",
            ),
            (
                json!({"network": {"blockMetadataEndpoints": false}}),
                "network.blockMetadataEndpoints: false",
            ),
            (
                json!({"network": {"hosts": {"a.example": "10.0.0.1"}}}),
                "network.hosts: [a.example]",
            ),
            (
                json!({"network": {"extraRoots": ["ca.pem"]}}),
                "network.extraRoots: [ca.pem]",
            ),
            (
                json!({"tools": {"a": {"network": {"mode": "any"}}}}),
                "tools.a.network.mode: any",
            ),
        ] {
            assert_eq!(config(file.clone()).weakening_keys(&below), [key], "{file}");
        }
        let strict = config(json!({
            "tools": {"a": {
                "approval": {"level": "ask", "dangerPatterns": ["x"]}, "enabled": true, "deny": ["x"],
                "limits": {"timeMs": 500}, "rules": [{"decision": "deny"}],
                "labels": {"outputTrust": "untrusted", "outputDataClass": "secret", "acceptsUntrusted": false},
            }},
            "policy": {"deny": ["b"], "allow": ["a"]}, "execApprovals": {"mode": "deny"},
            "approvals": {"timeoutMs": 3000, "leaseDays": 7},
            "limits": {"fuel": 5, "timeMs": 900}, "agent": {"maxTurns": 3, "maxCost": 1},
            "network": {"mode": "none", "allowedHosts": [], "blockPrivateIPs": true},
            "sandbox": {"maxMemoryMb": 64, "maxProcesses": 9, "maxCpuPercent": 900},
        }));
        assert_eq!(strict.weakening_keys(&below), Vec::<String>::new());
    }

    #[test]
    fn config_untrusted_file_tightens_the_limits_of_commands() {
        let user = json!({"maxMemoryMb": 100, "maxProcesses": 10, "maxCpuPercent": 50});
        for (below, tight, wide) in [
            (json!({}), (64, 9, 80), (9000, 5000, 80)),
            (user, (64, 9, 40), (200, 20, 90)),
        ] {
            let below = config(json!({"sandbox": below}));
            let clamped = |(memory, processes, cpu): (u64, u64, u32)| {
                let limits =
                    json!({"maxMemoryMb": memory, "maxProcesses": processes, "maxCpuPercent": cpu});
                let mut file = config(json!({"sandbox": limits}));
                file.clamp_to(&below);
                file.sandbox
            };
            let tightened = clamped(tight);
            assert_eq!(
                (
                    tightened.max_memory_mb,
                    tightened.max_processes,
                    tightened.max_cpu_percent
                ),
                (Some(tight.0), Some(tight.1), Some(tight.2))
            );
            let widened = clamped(wide);
            assert_eq!(widened.max_memory_mb, below.sandbox.max_memory_mb);
            assert_eq!(widened.max_processes, below.sandbox.max_processes);
            // Without a setting of the user, commands have no limit of processor time.
            assert_eq!(
                widened.max_cpu_percent,
                below.sandbox.max_cpu_percent.or(Some(80))
            );
        }
    }

    #[test]
    fn config_untrusted_file_is_clamped_to_the_files_below() {
        let below = config(json!({"limits": {"timeMs": 1000}, "tools": {"maxExecutionTime": 800}}));
        let mut file = config(json!({
            "limits": {"timeMs": 5000, "fuel": 5}, "audit": {"logArgs": true},
            "approvals": {"timeoutMs": 1, "leaseDays": 900}, "secrets": {"KEY": {"env": "X"}}, "tools": {"a": {"limits": {"memoryMb": 9999, "fuel": 3}}},
        }));
        file.clamp_to(&below);
        assert_eq!(file.limits().wall.as_millis(), 800);
        assert_eq!(file.limits().fuel, 5);
        let tool = file.tools.each["a"].limits.over(file.limits());
        assert_eq!((tool.memory, tool.fuel), (Limits::default().memory, 3));
        assert_eq!(file.audit, below.audit);
        assert_eq!(
            file.approvals.timeout_ms, 1,
            "the shorter timeout was reverted"
        );
        assert_eq!(file.approvals.lease_days, below.approvals.lease_days);
        // A secret that is only masked is given to no tool.
        assert!(file.secrets.is_empty());
        assert_eq!(file.masked_only["KEY"].env, "X");
    }
}
