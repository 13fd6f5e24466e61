//! Evaluates a call: collects the reasons of each layer of each file.

use serde_json::Value;

use super::rules::TeamRuleExceptions;
use super::tool_settings::is_for_source;
use super::{EnforcedTools, LinkResolver, Policy, PolicyFile};
use crate::decision::{
    Decision, DecisionReason, PolicyEvaluation, PolicyLayer, RuleArguments, WithheldCause,
};
use crate::tool::{Tool, ToolSource};

impl Policy {
    /// Evaluates the layers before the tool's own default. Returns true if a person has set the approval of the call:
    /// then the default does not apply.
    pub(crate) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        links: &LinkResolver<'_>,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        self.evaluate_halt(evaluation);
        let mut is_set_by_person = self.evaluate_tool_rules(tool, evaluation);
        for file in &self.files {
            let before = evaluation.reasons().len();
            let exceptions = file.exceptions_for(tool);
            if !exceptions.keeps_enabled {
                file.commands
                    .evaluate_deny_mode(tool, &file.source, evaluation);
            }
            let allows = file
                .rules
                .evaluate(tool, arguments, links, exceptions, evaluation);
            is_set_by_person |= allows && file.permissions_apply();
            if !file.danger.is_empty() {
                let names = std::iter::once(tool.name()).chain(&tool.aliases);
                for danger in names.filter_map(|name| file.danger.get(name.as_str())) {
                    danger.evaluate(tool, arguments, &file.source, evaluation);
                }
            }
            file.mark_reasons(before, evaluation);
        }
        is_set_by_person
    }

    /// Evaluates the rules that do not depend on the arguments of a call. Returns true if a person has set the tool's
    /// approval.
    pub(super) fn evaluate_tool_rules(
        &self,
        tool: &Tool,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let mut is_set_by_person = false;
        if self.is_off_by_default(tool) {
            evaluation.push(DecisionReason {
                layer: PolicyLayer::Enabled,
                decision: Decision::Deny,
                source: tool.origin.location.clone(),
                rule: "enabled: false".to_owned(),
                text: format!("`{}` is switched off in its own file", tool.name()),
            });
        }
        for file in &self.files {
            let before = evaluation.reasons().len();
            if file.can_disable(tool) {
                file.evaluate_enabled(tool, evaluation);
                file.lists.evaluate(tool, &file.source, evaluation);
                let covers = file.covers_team_of(tool);
                file.lists
                    .evaluate_enforcement(tool, covers, &file.source, evaluation);
            }
            file.evaluate_outdated_team(tool, evaluation);
            is_set_by_person |=
                file.evaluate_tool_approval(tool, evaluation) && file.permissions_apply();
            file.mark_reasons(before, evaluation);
        }
        is_set_by_person
    }
}

impl PolicyFile {
    /// Applies the state of this file to the reasons from index `from` on: permissions that do not apply are withheld,
    /// untrusted texts are marked, and reasons of a team's file move to the team's layer.
    pub(super) fn mark_reasons(&self, from: usize, evaluation: &mut PolicyEvaluation) {
        if !self.is_accepted {
            evaluation.withhold(from, WithheldCause::Unaccepted);
        }
        if self.only_restricts() {
            evaluation.withhold(from, WithheldCause::Narrowed);
        }
        if self.has_untrusted_text || !self.is_accepted {
            evaluation.mark_untrusted(from);
        }
        if self.is_team() {
            evaluation.attribute_to_team(from);
        }
    }

    /// Evaluates the approval that a person has set. Returns true if it replaces the tool's own default: a setting for
    /// this tool always does; the setting for all custom tools does so only if the tool declares no default. Otherwise
    /// the setting and the default are combined.
    pub(super) fn evaluate_tool_approval(
        &self,
        tool: &Tool,
        evaluation: &mut PolicyEvaluation,
    ) -> bool {
        let mut replaces_default = false;
        let can_disable = self.can_disable(tool);
        let counts = |decision: &Decision| *decision != Decision::Deny || can_disable;
        let mut push = |key: String, decision: Decision, text: String| {
            let reason = DecisionReason {
                layer: PolicyLayer::ToolApproval,
                decision,
                source: self.source.at(&key),
                rule: format!("{key}: {}", decision.as_str()),
                text,
            };
            evaluation.push_with_basis(reason, RuleArguments::none().into());
        };
        let text_for = |decision: Decision| {
            format!("the config sets `{}` to {}", tool.name(), decision.as_str())
        };
        for (name, settings) in self.settings.named(tool) {
            let level = settings.approval.level();
            let applies =
                |decision: &Decision| *decision != Decision::Allow || is_for_source(settings, tool);
            if let Some(decision) = level.filter(applies).filter(counts) {
                replaces_default = true;
                push(
                    format!("tools.{name}.approval"),
                    decision,
                    text_for(decision),
                );
            }
        }
        // A compact tool that is asked about or denied restricts its operations. A permission is only its own.
        if let Some((name, settings)) = self.settings.of_compact_form(tool)
            && let Some(decision) = settings.approval.level()
            && decision > Decision::Allow
            && counts(&decision)
        {
            push(
                format!("tools.{name}.approval"),
                decision,
                format!("the config sets `{name}` to {}", decision.as_str()),
            );
        }
        if self.approval.is_empty() {
            return replaces_default;
        }
        for name in std::iter::once(tool.name()).chain(&tool.aliases) {
            let decision = self.approval.tools.get(name.as_str());
            if let Some(decision) = decision.filter(|decision| counts(decision)) {
                replaces_default = true;
                push(
                    format!("approval.tools.{name}"),
                    *decision,
                    text_for(*decision),
                );
            }
        }
        if let (false, Some(decision)) = (replaces_default, self.approval.default)
            && tool.source == ToolSource::Custom
        {
            let text = format!("the config sets custom tools to {}", decision.as_str());
            push("approval.default".to_owned(), decision, text);
            replaces_default = tool.definition.silent;
        }
        replaces_default
    }

    /// Returns true if the file can switch the tool off: a tool that a team requires can only be switched off by this
    /// team and by administrators, for a worker by the worker's file, and for a user by the user's role.
    pub(super) fn can_disable(&self, tool: &Tool) -> bool {
        if !tool.enforced || self.only_restricts() {
            return true;
        }
        self.is_team()
            && match &self.disables {
                EnforcedTools::All => true,
                EnforcedTools::At(locations) => tool.origin.location.starts_with(locations),
                EnforcedTools::None => false,
            }
    }

    /// Returns true if `source:teams` of the file means the team of the tool. True for tools of other sources.
    pub(super) fn covers_team_of(&self, tool: &Tool) -> bool {
        let location = &tool.origin.location;
        let covers = |begins: &Vec<String>| begins.iter().any(|it| location.starts_with(it));
        tool.source != ToolSource::Teams || self.covered_teams.as_ref().is_none_or(covers)
    }

    /// Returns which rules of the file do not count for a tool of a team.
    fn exceptions_for(&self, tool: &Tool) -> TeamRuleExceptions {
        TeamRuleExceptions {
            keeps_enabled: !self.can_disable(tool),
            is_of_other_team: !self.covers_team_of(tool),
        }
    }

    fn evaluate_outdated_team(&self, tool: &Tool, evaluation: &mut PolicyEvaluation) {
        let Some(outdated) = &self.outdated_team else {
            return;
        };
        let location = &tool.origin.location;
        if tool.source == ToolSource::Teams && location.starts_with(&outdated.locations) {
            evaluation.push(DecisionReason {
                layer: PolicyLayer::ToolPolicy,
                decision: Decision::Deny,
                source: self.source.file().to_owned(),
                rule: outdated.limit.clone(),
                text: outdated.text.clone(),
            });
        }
    }

    pub(super) fn evaluate_enabled(&self, tool: &Tool, evaluation: &mut PolicyEvaluation) {
        for (name, settings) in self.settings.restricting(tool) {
            if settings.enabled == Some(false) {
                let key = format!("tools.{name}.enabled");
                evaluation.push(DecisionReason {
                    layer: PolicyLayer::Enabled,
                    decision: Decision::Deny,
                    source: self.source.at(&key),
                    rule: format!("{key}: false"),
                    text: format!("`{name}` is switched off in the config"),
                });
            }
        }
    }
}
