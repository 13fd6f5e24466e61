//! Which tools exist at all, by name and by group. Deny wins.

use crate::config::ToolPolicy;
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::names::did_you_mean;
use crate::tool::{Group, Tool};

use super::source::Source;

/// The lists of one file.
#[derive(Debug, Default)]
pub(super) struct Lists {
    allow: Vec<String>,
    deny: Vec<String>,
    allow_groups: Vec<Group>,
    deny_groups: Vec<Group>,
}

impl Lists {
    pub(super) fn new(policy: &ToolPolicy) -> Self {
        Self {
            allow: policy.allow.clone(),
            deny: policy.deny.clone(),
            allow_groups: policy.groups.allow.clone(),
            deny_groups: policy.groups.deny.clone(),
        }
    }

    /// Denies a tool that the lists leave out.
    pub(super) fn evaluate(&self, tool: &Tool, source: &Source, evaluation: &mut Evaluation) {
        let group = tool.definition.group;
        let mut deny = |key: &str, rule: String, text: String| {
            evaluation.push(Reason {
                layer: Layer::ToolPolicy,
                decision: Decision::Deny,
                source: source.at(key),
                rule,
                text,
            });
        };
        if let Some(at) = self.deny.iter().position(|name| tool.answers_to(name)) {
            let key = format!("policy.deny[{at}]");
            let rule = format!("policy.deny: [{}]", self.deny[at]);
            deny(&key, rule, format!("`{}` is in the deny list", tool.name()));
        }
        if !self.allow.is_empty() && !self.allow.iter().any(|name| tool.answers_to(name)) {
            deny(
                "policy.allow",
                format!("policy.allow: [{}]", self.allow.join(", ")),
                format!("`{}` is not in the allow list", tool.name()),
            );
        }
        if let Some(at) = self.deny_groups.iter().position(|denied| *denied == group) {
            deny(
                &format!("policy.groups.deny[{at}]"),
                format!("policy.groups.deny: [{}]", group.as_str()),
                format!("tools of the group `{}` are denied", group.as_str()),
            );
        }
        if !self.allow_groups.is_empty() && !self.allow_groups.contains(&group) {
            let names: Vec<_> = self
                .allow_groups
                .iter()
                .map(|group| group.as_str())
                .collect();
            deny(
                "policy.groups.allow",
                format!("policy.groups.allow: [{}]", names.join(", ")),
                format!(
                    "tools of the group `{}` are not among the allowed groups",
                    group.as_str()
                ),
            );
        }
    }

    /// What in the lists can never come true, or says two things at once.
    pub(super) fn idle(&self, tools: &[&Tool], source: &Source) -> Vec<String> {
        let mut idle = Vec::new();
        for (list, names) in [("allow", &self.allow), ("deny", &self.deny)] {
            for (at, name) in names.iter().enumerate() {
                if !tools.iter().any(|tool| tool.answers_to(name)) {
                    let known = tools.iter().map(|tool| tool.name().as_str());
                    let near = did_you_mean(name, known);
                    let key = format!("policy.{list}[{at}]");
                    let place = source.at(&key);
                    idle.push(format!(
                        "{place}: policy.{list} names `{name}`, and no such tool is here.{near}"
                    ));
                }
            }
        }
        for name in self.allow.iter().filter(|name| self.deny.contains(name)) {
            let place = source.at("policy.allow");
            idle.push(format!(
                "{place}: `{name}` is in policy.allow and in policy.deny; deny wins."
            ));
        }
        for group in self
            .allow_groups
            .iter()
            .filter(|group| self.deny_groups.contains(group))
        {
            let place = source.at("policy.groups.allow");
            let group = group.as_str();
            idle.push(format!(
                "{place}: the group `{group}` is allowed and denied; deny wins."
            ));
        }
        idle
    }
}
