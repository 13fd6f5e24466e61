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
    /// Returns the keys of this file that weaken a setting of `below`, with short values. `sets` returns true for a key,
    /// such as `audit.keep`, that the file sets.
    pub fn weakening_keys(&self, below: &Config, sets: impl Fn(&str) -> bool) -> Vec<String> {
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
        if self.approval.default == Some(Decision::Allow) {
            keys.push("approval.default: allow".to_owned());
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
        if self.telemetry.is_some() && self.telemetry != below.telemetry {
            keys.push("telemetry".to_owned());
        }
        if self.alerts.is_some() && self.alerts != below.alerts {
            keys.push("alerts".to_owned());
        }
        if self.cluster.is_some() && self.cluster != below.cluster {
            keys.push("cluster".to_owned());
        }
        if self.console.is_some() && self.console != below.console {
            keys.push("console".to_owned());
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
        if sets("tools.autoLoadCustomTools")
            && self.tools.auto_load_custom_tools
            && !below.tools.auto_load_custom_tools
        {
            keys.push("tools.autoLoadCustomTools: true".to_owned());
        }
        let (own, base) = (&self.approvals, &below.approvals);
        for (key, raises) in [
            ("approvals.timeoutMs", own.timeout_ms > base.timeout_ms),
            ("approvals.leaseDays", own.lease_days > base.lease_days),
            ("approvals.unattended", own.unattended > base.unattended),
        ] {
            // A default value that the file does not set is not in force.
            if raises && sets(key) {
                keys.push(key.to_owned());
            }
        }
        let (own, base) = (self.audit.values(), below.audit.values());
        let changed = own.into_iter().zip(base).filter(|(own, base)| own != base);
        let changed = changed.filter(|((key, _), _)| sets(key));
        keys.extend(changed.map(|((key, value), _)| format!("{key}: {value}")));
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
        self.approvals.unattended = self.approvals.unattended.min(below.approvals.unattended);
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
        // Nor what mimir does, and nothing may silence alarms.
        self.telemetry.clone_from(&below.telemetry);
        self.alerts.clone_from(&below.alerts);
        // Nor where calls run.
        self.cluster.clone_from(&below.cluster);
        // Nor who answers questions.
        self.console.clone_from(&below.console);
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

mod rule_keys;
#[cfg(test)]
mod tests;
