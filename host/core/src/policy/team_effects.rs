//! Finds settings of users and projects that have no effect because of a team.

use crate::decision::{Decision, DecisionReason, PolicyEvaluation};
use crate::tool::{Tool, ToolSource};

use super::{EnforcedTools, Policy, PolicyFile, UnusedSetting, UnusedSettingKind};

impl Policy {
    /// Finds the settings of a file that would disable a tool that a team enforces, and those that would allow a tool
    /// that a team refuses or asks about.
    pub(super) fn settings_under_teams(
        &self,
        file: &PolicyFile,
        tools: &[&Tool],
    ) -> Vec<UnusedSetting> {
        let mut unused = Vec::new();
        if file.is_team() || file.only_restricts() {
            return unused;
        }
        for tool in tools {
            if !file.can_disable(tool) {
                let team = self.team_of(tool);
                let mut settings = file.disabling_settings(tool);
                settings.extend(file.lowered_limits(tool));
                for (location, key) in settings {
                    let name = tool.name();
                    unused.push(UnusedSetting {
                        location,
                        key,
                        reason: format!("does not count for `{name}`: {team} enforces this tool."),
                        kind: UnusedSettingKind::NoEffect,
                    });
                }
            }
            let allowing = file.allowing_settings(tool);
            if allowing.is_empty() {
                continue;
            }
            if let Some(reason) = self.restriction_of_teams(tool) {
                let decides = match reason.decision {
                    Decision::Deny => "refuses",
                    Decision::Ask | Decision::Allow => "asks about",
                };
                for key in allowing {
                    unused.push(UnusedSetting {
                        location: file.source.at(&key),
                        key,
                        reason: format!(
                            "changes nothing: {} {decides} `{}` with {}.",
                            reason.source,
                            tool.name(),
                            reason.rule
                        ),
                        kind: UnusedSettingKind::NoEffect,
                    });
                }
            }
        }
        unused
    }

    /// Returns the name of the team that a tool comes from, for messages.
    fn team_of(&self, tool: &Tool) -> String {
        let location = &tool.origin.location;
        let mut files = self.team_files();
        let file = files.find(|file| match &file.disables {
            EnforcedTools::At(begin) => location.starts_with(begin),
            EnforcedTools::All | EnforcedTools::None => false,
        });
        file.map_or_else(|| "a team".to_owned(), |file| file.source.file().to_owned())
    }

    /// Returns the strictest reason of the teams' files to refuse a tool or to ask about all its calls.
    fn restriction_of_teams(&self, tool: &Tool) -> Option<DecisionReason> {
        let teams = Self {
            files: self.team_files().cloned().collect(),
            ..Self::default()
        };
        if teams.files.is_empty() {
            return None;
        }
        let mut tool = tool.clone();
        tool.off = false;
        let mut evaluation = PolicyEvaluation::default();
        teams.evaluate_tool_rules(&tool, &mut evaluation);
        let restricting = evaluation
            .reasons()
            .filter(|reason| reason.decision > Decision::Allow);
        restricting.max_by_key(|reason| reason.decision).cloned()
    }
}

impl PolicyFile {
    /// Returns the location and the key of each setting that would disable a tool, if the file could.
    fn disabling_settings(&self, tool: &Tool) -> Vec<(String, String)> {
        let mut evaluation = PolicyEvaluation::default();
        self.evaluate_enabled(tool, &mut evaluation);
        self.lists.evaluate(tool, &self.source, &mut evaluation);
        let covers = self.covers_team_of(tool);
        self.lists
            .evaluate_enforcement(tool, covers, &self.source, &mut evaluation);
        self.commands
            .evaluate_deny_mode(tool, &self.source, &mut evaluation);
        let reasons = evaluation.reasons();
        let mut settings: Vec<(String, String)> = reasons
            .map(|reason| (reason.source.clone(), reason.rule.clone()))
            .collect();
        for (name, block) in self.settings.restricting(tool) {
            if block.approval.level() == Some(Decision::Deny) {
                let key = format!("tools.{name}.approval: deny");
                settings.push((self.source.at(&format!("tools.{name}.approval")), key));
            }
        }
        for name in std::iter::once(tool.name()).chain(&tool.aliases) {
            if self.approval.tools.get(name.as_str()) == Some(&Decision::Deny) {
                let key = format!("approval.tools.{name}");
                settings.push((self.source.at(&key), format!("{key}: deny")));
            }
        }
        if tool.source == ToolSource::Teams {
            let rules = self.rules.blanket_denials(tool).into_iter();
            settings.extend(rules.map(|(name, location)| (location, name)));
        }
        settings
    }

    /// Returns the keys that allow all calls of a tool, or switch it on.
    fn allowing_settings(&self, tool: &Tool) -> Vec<String> {
        let mut keys = Vec::new();
        for (name, block) in self.settings.named(tool) {
            if block.approval.level() == Some(Decision::Allow) {
                keys.push(format!("tools.{name}.approval"));
            }
            if block.enabled == Some(true) {
                keys.push(format!("tools.{name}.enabled"));
            }
        }
        for name in std::iter::once(tool.name()).chain(&tool.aliases) {
            if self.approval.tools.get(name.as_str()) == Some(&Decision::Allow) {
                keys.push(format!("approval.tools.{name}"));
            }
        }
        keys
    }
}
