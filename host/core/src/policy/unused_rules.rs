//! Rules that never match, or do less than they seem to: for `mimir policy check`.

use crate::config::{ExecMode, ToolSettings};
use crate::decision::Decision;
use crate::name_suggestions::did_you_mean;
use crate::tool::Tool;

use super::rules::is_every_text;
use super::{Policy, PolicyFile};

/// Shell syntax: a command with it is never matched by a list of words.
const SHELLS: [char; 12] = [';', '|', '&', '<', '>', '$', '`', '\\', '(', ')', '#', '!'];

impl Policy {
    /// Finds rules that never match, given the available tools; one line each.
    pub fn unused_rules(&self, tools: &[&Tool]) -> Vec<String> {
        let mut idle = Vec::new();
        let denied = |tool: &Tool| self.refusal(tool).is_some();
        for file in &self.files {
            idle.extend(file.lists.unused_entries(tools, &file.source));
            idle.extend(file.rules.unused_rules(tools, &denied));
            idle.extend(file.idle_commands());
            for (name, settings) in &file.settings.tools {
                file.idle_tool(name, settings, tools, &mut idle);
            }
            for name in file.approval.tools.keys() {
                file.unknown(&format!("approval.tools.{name}"), name, tools, &mut idle);
            }
        }
        idle
    }

    /// Finds entries of deny lists that match no tool; one line each.
    pub fn unused_denials(&self, tools: &[&Tool]) -> Vec<String> {
        let mut idle = Vec::new();
        // A team's file is for many machines, and may deny tools that this one lacks.
        for file in self.files.iter().filter(|file| !file.is_team()) {
            idle.extend(file.lists.idle_denials(tools, &file.source));
        }
        idle
    }
}

impl PolicyFile {
    /// Reports a name that no tool has.
    fn unknown(&self, key: &str, name: &str, tools: &[&Tool], idle: &mut Vec<String>) {
        if tools.iter().any(|tool| tool.answers_to(name)) {
            return;
        }
        let near = did_you_mean(name, tools.iter().map(|tool| tool.name().as_str()));
        let place = self.source.at(key);
        idle.push(format!("{place}: {key} matches no available tool.{near}"));
    }

    fn idle_tool(
        &self,
        name: &str,
        settings: &ToolSettings,
        tools: &[&Tool],
        idle: &mut Vec<String>,
    ) {
        self.unknown(&format!("tools.{name}"), name, tools, idle);
        let Some(block) = settings.approval.block() else {
            return;
        };
        for (at, pattern) in block.danger_patterns.iter().enumerate() {
            if is_every_text(pattern) {
                let key = format!("tools.{name}.approval.dangerPatterns[{at}]");
                let place = self.source.at(&key);
                idle.push(format!(
                    "{place}: {key} matches everything (`{pattern}`): every call is asked about."
                ));
            }
        }
        let why = match (settings.enabled, block.level) {
            (Some(false), _) => "the tool is switched off",
            (_, Some(Decision::Deny)) => "`level: deny` refuses every call",
            (_, Some(Decision::Ask)) => "`level: ask` asks about every call",
            _ => return,
        };
        let key = format!("tools.{name}.approval");
        let place = self.source.at(&key);
        if !block.danger_patterns.is_empty() {
            idle.push(format!(
                "{place}: {key}.dangerPatterns change nothing: {why}."
            ));
        }
        let conditions = &block.conditions;
        if conditions.unknown_host_requires_approval
            || !conditions.method_requires_approval.is_empty()
        {
            idle.push(format!("{place}: {key}.conditions change nothing: {why}."));
        }
    }

    fn idle_commands(&self) -> Vec<String> {
        let mut idle = Vec::new();
        let mode = self.commands.mode();
        for (at, pattern) in self.commands.written().iter().enumerate() {
            let key = format!("execApprovals.approvals[{at}]");
            let place = self.source.at(&key);
            match mode {
                Some(ExecMode::Allowlist) => {}
                Some(ExecMode::Full) => {
                    idle.push(format!(
                        "{place}: {key} changes nothing: `mode: full` runs every command."
                    ));
                }
                Some(ExecMode::Deny) => {
                    idle.push(format!(
                        "{place}: {key} changes nothing: `mode: deny` runs no command."
                    ));
                }
                None => {
                    idle.push(format!(
                        "{place}: {key} changes nothing without `mode: allowlist`."
                    ));
                }
            }
            if let Some(shell) = pattern.chars().find(|c| SHELLS.contains(c)) {
                idle.push(format!(
                    "{place}: {key} can never match: `{shell}` is shell syntax, and commands with it are asked about whatever the list says."
                ));
            }
        }
        idle
    }
}
