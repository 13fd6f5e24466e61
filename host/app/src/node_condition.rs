//! The condition of a process in a cluster: settings that need a restart, tools that cannot be used, and the bundles of its
//! teams. The process reports it for `mimir cluster status`.

use mimir_cluster::{NodeCondition, TeamInUse};
use mimir_core::Quarantined;
use mimir_core::text::{prefix, visible};
use tokio::sync::watch;

/// Maximum number of tools that are reported because they cannot be used.
const LEFT_OUT_MAX: usize = 20;

/// Maximum size of such a report in bytes.
const LINE_MAX: usize = 400;

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

    /// Sets the tools that the process cannot use, each with the problem. Returns the lines that are new. If there are
    /// many, the last line has the number of the others.
    pub fn set_left_out(&self, left_out: &[Quarantined]) -> Vec<String> {
        let shown = left_out.iter().take(LEFT_OUT_MAX).map(|left_out| {
            let line = format!("{}: {}", left_out.location, left_out.reason);
            visible(prefix(&line, LINE_MAX))
        });
        let mut lines: Vec<String> = shown.collect();
        if left_out.len() > LEFT_OUT_MAX {
            lines.push(format!("and {} more", left_out.len() - LEFT_OUT_MAX));
        }
        let mut new = Vec::new();
        self.condition.send_if_modified(|condition| {
            let known = std::mem::replace(&mut condition.left_out, lines.clone());
            new.extend(lines.iter().filter(|line| !known.contains(line)).cloned());
            known != lines
        });
        new
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
    use mimir_core::ToolErrorCode;

    use super::*;

    #[test]
    fn process_condition_reports_changes_only() {
        let condition = ProcessCondition::default();
        let mut seen = condition.watch();
        condition.set_needs_restart(&[]);
        assert!(!seen.has_changed().unwrap());
        condition.set_needs_restart(&["sandbox"]);
        assert_eq!(seen.borrow_and_update().needs_restart, ["sandbox"]);
        let left_out = |name: &str| Quarantined {
            location: format!(".mimir/tools/{name}.yml"),
            code: ToolErrorCode::InvalidInput,
            reason: "`name` is missing".to_owned(),
        };
        let one = condition.set_left_out(&[left_out("a")]);
        assert_eq!(one, [".mimir/tools/a.yml: `name` is missing"]);
        let many: Vec<_> = ('a'..='z')
            .map(|name| left_out(&name.to_string()))
            .collect();
        let new = condition.set_left_out(&many);
        assert_eq!(
            (new.len(), new.last().unwrap().as_str()),
            (20, "and 6 more")
        );
        assert!(condition.set_left_out(&many).is_empty());
        condition.set_left_out(&[]);
        assert!(seen.borrow_and_update().left_out.is_empty());
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
