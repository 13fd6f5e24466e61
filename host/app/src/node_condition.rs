//! The condition of a process in a cluster: settings that need a restart, and the bundles of its teams. The process reports
//! it for `mimir cluster status`.

use mimir_cluster::{NodeCondition, TeamInUse};
use tokio::sync::watch;

/// The condition of this process, and the signal that its settings may have changed.
#[derive(Debug, Default)]
pub struct ProcessCondition {
    condition: watch::Sender<NodeCondition>,
    /// Number of publications that this process has copied.
    settings: watch::Sender<u64>,
}

impl ProcessCondition {
    /// Returns a receiver of the condition.
    pub fn watch(&self) -> watch::Receiver<NodeCondition> {
        self.condition.subscribe()
    }

    /// Sets the settings that have changed since the process started, and that it only reads at its start.
    pub fn set_needs_restart(&self, keys: &[&str]) {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.condition.send_if_modified(|condition| {
            let is_other = condition.needs_restart != keys;
            condition.needs_restart = keys;
            is_other
        });
    }

    /// Sets the bundle of a team that the process uses.
    pub fn set_team(&self, org_id: &str, team: TeamInUse) {
        self.condition.send_if_modified(|condition| {
            let before = condition.teams.insert(org_id.to_owned(), team.clone());
            before.as_ref() != Some(&team)
        });
    }

    /// Removes the teams that `is_member` returns false for.
    pub fn retain_teams(&self, is_member: impl Fn(&str) -> bool) {
        self.condition.send_if_modified(|condition| {
            let before = condition.teams.len();
            condition.teams.retain(|org_id, _| is_member(org_id));
            condition.teams.len() != before
        });
    }

    /// Lets the process read its settings now, because published ones were copied.
    pub fn announce_settings(&self) {
        self.settings.send_modify(|count| *count += 1);
    }

    /// Returns a receiver of the number of publications that this process has copied.
    pub fn settings_changes(&self) -> watch::Receiver<u64> {
        self.settings.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_condition_reports_changes_only() {
        let condition = ProcessCondition::default();
        let mut seen = condition.watch();
        condition.set_needs_restart(&[]);
        assert!(!seen.has_changed().unwrap());
        condition.set_needs_restart(&["sandbox"]);
        assert_eq!(seen.borrow_and_update().needs_restart, ["sandbox"]);
        let team = TeamInUse {
            version: Some(2),
            error: None,
        };
        condition.set_team("acme", team.clone());
        assert_eq!(seen.borrow_and_update().teams["acme"], team);
        condition.set_team("acme", team);
        assert!(!seen.has_changed().unwrap());
        condition.retain_teams(|org_id| org_id != "acme");
        assert!(seen.borrow_and_update().teams.is_empty());
    }
}
