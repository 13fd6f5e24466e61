//! Merges a team's settings over those of the user and the project. Rules and limits are combined elsewhere, by
//! [`Policy`](crate::Policy).

use crate::limits::smaller_limit;

use super::{Config, SandboxSettings};

impl SandboxSettings {
    /// Applies a team's settings. The team's keys take precedence, and its limits are caps.
    fn under_team(&mut self, team: &Self) {
        self.mode = team.mode.or(self.mode);
        if let Some(image) = &team.image {
            self.image = Some(image.clone());
        }
        self.images.extend(team.images.clone());
        if let Some(socket) = &team.socket {
            self.socket = Some(socket.clone());
        }
        if !team.bind_mounts.is_empty() {
            self.bind_mounts.clone_from(&team.bind_mounts);
        }
        self.network_access = team.network_access.or(self.network_access);
        self.max_memory_mb = smaller_limit(self.max_memory_mb, team.max_memory_mb);
        self.max_processes = smaller_limit(self.max_processes, team.max_processes);
        self.max_cpu_percent = smaller_limit(self.max_cpu_percent, team.max_cpu_percent);
    }
}

impl Config {
    /// Applies a team's file. The team's keys take precedence; its limits, and its times in `approvals`, are caps.
    /// `sets` returns true for a key, such as `audit.keep`, that the file sets.
    pub fn under_team(&mut self, team: &Config, sets: impl Fn(&str) -> bool) {
        if sets("profile") {
            self.profile = team.profile;
        }
        if sets("toolDiscovery") {
            self.tool_discovery = team.tool_discovery;
        }
        if sets("toolDiscoveryTokens") {
            self.tool_discovery_tokens = team.tool_discovery_tokens;
        }
        if sets("tools.autoLoadCustomTools") {
            self.tools.auto_load_custom_tools = team.tools.auto_load_custom_tools;
        }
        if sets("tools.showTokenCosts") {
            self.tools.show_token_costs = team.tools.show_token_costs;
        }
        if sets("tools.tokenPrice") {
            self.tools.token_price = team.tools.token_price;
        }
        let (approvals, cap) = (&mut self.approvals, team.approvals);
        if sets("approvals.timeoutMs") {
            approvals.timeout_ms = approvals.timeout_ms.min(cap.timeout_ms);
        }
        if sets("approvals.leaseDays") {
            approvals.lease_days = approvals.lease_days.min(cap.lease_days);
        }
        if sets("approvals.unattended") {
            approvals.unattended = approvals.unattended.min(cap.unattended);
        }
        let audit = &mut self.audit;
        if sets("audit.durability") {
            audit.durability = team.audit.durability;
        }
        if sets("audit.logArgs") {
            audit.log_args = team.audit.log_args;
        }
        if sets("audit.onFailure") {
            audit.on_failure = team.audit.on_failure;
        }
        if sets("audit.maxBytes") {
            audit.max_bytes = team.audit.max_bytes;
        }
        if sets("audit.keep") {
            audit.keep = team.audit.keep;
        }
        if sets("webSearch") {
            self.web_search.clone_from(&team.web_search);
        }
        if sets("embeddings") {
            self.embeddings.clone_from(&team.embeddings);
        }
        if sets("telemetry") {
            self.telemetry.clone_from(&team.telemetry);
        }
        if sets("alerts") {
            self.alerts.clone_from(&team.alerts);
        }
        if sets("cluster") {
            self.cluster.clone_from(&team.cluster);
        }
        if sets("console") {
            self.console.clone_from(&team.console);
        }
        if sets("browser") {
            self.browser.clone_from(&team.browser);
        }
        if sets("roles") {
            self.roles.clone_from(&team.roles);
        }
        if sets("model") {
            self.model.clone_from(&team.model);
        }
        let providers = team.providers.iter();
        self.providers
            .extend(providers.map(|(name, provider)| (name.clone(), provider.clone())));
        self.agent.under_team(&team.agent);
        self.registries.under_team(&team.registries);
        self.trust_under_team(team);
        self.sandbox.under_team(&team.sandbox);
        // A user may disable the servers that a team enables.
        if !team.mcp.is_enabled() {
            self.mcp.enabled = Some(false);
        }
        if sets("mcp.registry") {
            self.mcp.registry.clone_from(&team.mcp.registry);
        }
        if sets("mcp.marks") {
            self.mcp.marks = team.mcp.marks;
        }
        let servers = team.mcp.servers.iter();
        self.mcp
            .servers
            .extend(servers.map(|(name, server)| (name.clone(), server.clone())));
        let secrets = team.secrets.iter();
        self.secrets
            .extend(secrets.map(|(name, secret)| (name.clone(), secret.clone())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{
        AuditDurability, AuditFailureMode, SandboxMode, ToolProfile, UntrustedMarking,
    };

    fn config(value: &Value) -> Config {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// Returns the user's settings, restricted by the team's file.
    fn user_under_team(team: &Value, user: &Value) -> Config {
        let mut settings = config(user);
        settings.under_team(&config(team), |key| {
            let pointer = format!("/{}", key.replace('.', "/"));
            team.pointer(&pointer).is_some()
        });
        settings
    }

    #[test]
    fn team_sandbox_mode_wins_and_limits_are_capped() {
        let user = json!({"sandbox": {"mode": "none", "maxMemoryMb": 900, "networkAccess": true, "bindMounts": ["/data"]}});
        assert_eq!(
            user_under_team(&json!({}), &user).sandbox,
            config(&user).sandbox
        );
        let team = json!({"sandbox": {"mode": "process", "maxMemoryMb": 500, "maxProcesses": 9, "networkAccess": false, "bindMounts": ["/team"]}});
        assert_eq!(user_under_team(&team, &user).sandbox, config(&team).sandbox);
        let wider = json!({"sandbox": {"maxMemoryMb": 2000}});
        assert_eq!(
            user_under_team(&wider, &user).sandbox.max_memory_mb,
            Some(900)
        );
        assert_eq!(
            user_under_team(&json!({"sandbox": "auto"}), &user)
                .sandbox
                .mode,
            Some(SandboxMode::Auto),
            "the mode `none` was accepted"
        );
    }

    #[test]
    fn team_settings_take_precedence_over_user_settings() {
        let user = json!({
            "profile": "compact", "tools": {"autoLoadCustomTools": true},
            "approvals": {"timeoutMs": 5_000, "leaseDays": 30},
            "audit": {"durability": "write", "logArgs": true, "onFailure": "run", "maxBytes": 5_000, "keep": 3},
            "secrets": {"ONE": {"env": "A"}, "TWO": {"env": "B"}},
            "webSearch": {"provider": "brave", "key": "OWN"},
        });
        let own = config(&user);
        let unchanged = user_under_team(&json!({}), &user);
        assert_eq!(
            (unchanged.audit, unchanged.approvals),
            (own.audit, own.approvals)
        );
        assert_eq!(
            (unchanged.profile, &unchanged.secrets),
            (own.profile, &own.secrets)
        );
        assert_eq!(unchanged.web_search, own.web_search);
        let team = json!({
            "profile": "fine", "tools": {"autoLoadCustomTools": false},
            "approvals": {"timeoutMs": 9_000, "leaseDays": 1},
            "audit": {"durability": "fsync", "logArgs": false, "onFailure": "refuse", "maxBytes": 9_000, "keep": 9},
            "secrets": {"TWO": {"env": "C"}, "THREE": {"env": "D"}},
            "webSearch": {"provider": "tavily", "key": "TEAM"},
            "mcp": {"marks": "text", "enabled": false},
        });
        let settings = user_under_team(&team, &user);
        assert_eq!(settings.profile, ToolProfile::Fine);
        assert!(!settings.tools.auto_load_custom_tools);
        assert_eq!(
            settings.approvals.timeout_ms, 5_000,
            "the larger timeout was used"
        );
        assert_eq!(settings.approvals.lease_days, 1);
        let audit = settings.audit;
        assert_eq!(audit.durability, AuditDurability::Fsync);
        assert_eq!(audit.on_failure, AuditFailureMode::Refuse);
        assert!(!audit.log_args);
        assert_eq!((audit.max_bytes, audit.keep), (9_000, 9));
        assert_eq!(settings.web_search, config(&team).web_search);
        assert_eq!(settings.mcp.marks, UntrustedMarking::Text);
        assert!(!settings.mcp.is_enabled());
        let secrets: Vec<_> = settings
            .secrets
            .values()
            .map(|it| it.env.as_str())
            .collect();
        // Ordered by name: ONE, THREE, TWO.
        assert_eq!(secrets, ["A", "D", "C"]);
    }
}
