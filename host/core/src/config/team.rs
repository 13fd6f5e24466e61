//! A team's settings above those of the user and the project. Its rules are judged beside theirs, and its bounds
//! of calls are caps: see [`Policy`](crate::Policy). This is the rest.

use super::Config;

impl Config {
    /// Lays a team's file over these settings: what it sets goes before them, and how long a person has to answer
    /// and how long the answer counts are caps. `sets` says whether a key (`audit.keep`) stands in the file.
    pub fn under_team(&mut self, team: &Config, sets: impl Fn(&str) -> bool) {
        if sets("profile") {
            self.profile = team.profile;
        }
        if sets("tools.autoLoadCustomTools") {
            self.tools.auto_load_custom_tools = team.tools.auto_load_custom_tools;
        }
        let (approvals, cap) = (&mut self.approvals, team.approvals);
        if sets("approvals.timeoutMs") {
            approvals.timeout_ms = approvals.timeout_ms.min(cap.timeout_ms);
        }
        if sets("approvals.leaseDays") {
            approvals.lease_days = approvals.lease_days.min(cap.lease_days);
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
        let secrets = team.secrets.iter();
        self.secrets
            .extend(secrets.map(|(name, secret)| (name.clone(), secret.clone())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{Durability, OnFailure, Profile};

    fn config(value: &Value) -> Config {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// A user's settings under a team's file.
    fn under(team: &Value, user: &Value) -> Config {
        let mut settings = config(user);
        settings.under_team(&config(team), |key| {
            let pointer = format!("/{}", key.replace('.', "/"));
            team.pointer(&pointer).is_some()
        });
        settings
    }

    #[test]
    fn what_a_team_sets_goes_before_the_others() {
        let user = json!({
            "profile": "compact", "tools": {"autoLoadCustomTools": true},
            "approvals": {"timeoutMs": 5_000, "leaseDays": 30},
            "audit": {"durability": "write", "logArgs": true, "onFailure": "run", "maxBytes": 5_000, "keep": 3},
            "secrets": {"ONE": {"env": "A"}, "TWO": {"env": "B"}},
            "webSearch": {"provider": "brave", "key": "OWN"},
        });
        let own = config(&user);
        let same = under(&json!({}), &user);
        assert_eq!((same.audit, same.approvals), (own.audit, own.approvals));
        assert_eq!((same.profile, &same.secrets), (own.profile, &own.secrets));
        assert_eq!(same.web_search, own.web_search);
        let team = json!({
            "profile": "fine", "tools": {"autoLoadCustomTools": false},
            "approvals": {"timeoutMs": 9_000, "leaseDays": 1},
            "audit": {"durability": "fsync", "logArgs": false, "onFailure": "refuse", "maxBytes": 9_000, "keep": 9},
            "secrets": {"TWO": {"env": "C"}, "THREE": {"env": "D"}},
            "webSearch": {"provider": "tavily", "key": "TEAM"},
        });
        let settings = under(&team, &user);
        assert_eq!(settings.profile, Profile::Fine);
        assert!(!settings.tools.auto_load_custom_tools);
        assert_eq!(settings.approvals.timeout_ms, 5_000, "the smaller counts");
        assert_eq!(settings.approvals.lease_days, 1);
        let audit = settings.audit;
        assert_eq!(audit.durability, Durability::Fsync);
        assert_eq!(audit.on_failure, OnFailure::Refuse);
        assert!(!audit.log_args);
        assert_eq!((audit.max_bytes, audit.keep), (9_000, 9));
        assert_eq!(settings.web_search, config(&team).web_search);
        let secrets: Vec<_> = settings
            .secrets
            .values()
            .map(|it| it.env.as_str())
            .collect();
        assert_eq!(secrets, ["A", "D", "C"], "by name: ONE, THREE, TWO");
    }
}
