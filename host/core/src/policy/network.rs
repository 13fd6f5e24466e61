//! What tools may reach over the network, and what the rules say of one request.

use serde_json::Value;

use crate::config::NetworkSettings;
use crate::decision::Evaluation;
use crate::needs::HostNeed;
use crate::network::{Entry, NetworkPolicy};
use crate::tool::Tool;

use super::Policy;

impl Policy {
    /// What requests of this tool may reach. Where nobody has set a list of hosts, what was `granted` is the list: a
    /// person has seen and named them already.
    pub fn network(&self, tool: &Tool, granted: &[HostNeed]) -> NetworkPolicy {
        let granted: Vec<Entry> = granted
            .iter()
            .filter_map(|need| Entry::of(need).ok())
            .collect();
        let (at, settings) = self.network_settings(tool);
        let policy = settings.policy_over(&at, &granted);
        let teams = self.voices().iter().filter(|file| file.team);
        teams.fold(policy, |policy, file| {
            let (at, settings) = file.network_settings(tool);
            match settings == NetworkSettings::default() {
                true => policy,
                false => policy.within(settings.policy_over(&at, &granted)),
            }
        })
    }

    /// The PEM files of certificates that requests of this tool trust beside those of the platform.
    pub fn roots(&self, tool: &Tool) -> Vec<String> {
        let (_, settings) = self.network_settings(tool);
        settings.roots().into_iter().map(str::to_owned).collect()
    }

    /// The settings of a tool over those of all tools, and the key of the block that has the last word.
    fn network_settings(&self, tool: &Tool) -> (String, NetworkSettings) {
        let base = ("network".to_owned(), self.network.clone());
        let all = self.named_settings(tool);
        all.fold(base, |(at, base), (name, settings)| {
            match settings.network == NetworkSettings::default() {
                true => (at, base),
                false => (
                    format!("tools.{name}.network"),
                    settings.network.over(&base),
                ),
            }
        })
    }

    /// Whether a person is asked about hosts that the tool was not granted, in place of a plain no.
    pub(crate) fn asks_unknown_hosts(&self, tool: &Tool) -> bool {
        let mut accepted = self.voices().iter().filter(|file| !file.unaccepted);
        accepted.any(|file| {
            let mut settings = file.settings(tool);
            settings.any(|settings| {
                let block = settings.approval.block();
                block.is_some_and(|block| block.conditions.unknown_host_requires_approval)
            })
        })
    }

    /// What the rules say of a request in the middle of a call: `request` has its `method`, `url` and `host`. Rules
    /// about other arguments have spoken before the call ran.
    pub(crate) fn request(&self, tool: &Tool, request: &Value, evaluation: &mut Evaluation) {
        for file in self.voices() {
            let before = evaluation.reasons().len();
            file.rules.evaluate_request(tool, request, evaluation);
            let names = std::iter::once(tool.name()).chain(&tool.aliases);
            for danger in names.filter_map(|name| file.danger.get(name.as_str())) {
                danger.evaluate(tool, request, &file.source, evaluation);
            }
            file.sign(before, evaluation);
        }
    }
}
