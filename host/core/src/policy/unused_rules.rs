//! Finds rules that never match or have less effect than they seem to, for `mimir policy check`.

use crate::config::{ExecMode, ToolSettings};
use crate::decision::Decision;
use crate::name_suggestions::did_you_mean;
use crate::pipeline::cache_refusal;
use crate::tool::Tool;

use super::rules::is_every_text;
use super::tool_settings::is_repeatable;
use super::{Policy, PolicyFile};

/// Characters of shell syntax. A pattern of words with one of them never matches a command.
const SHELL_SYNTAX: [char; 12] = [';', '|', '&', '<', '>', '$', '`', '\\', '(', ')', '#', '!'];

impl Policy {
    /// Finds rules that never match with the available tools. Returns one line for each.
    pub fn unused_rules(&self, tools: &[&Tool]) -> Vec<String> {
        let mut unused = Vec::new();
        let is_denied = |tool: &Tool| self.refusal(tool).is_some();
        for file in &self.files {
            unused.extend(file.lists.unused_entries(tools, &file.source));
            unused.extend(file.rules.unused_rules(tools, &is_denied));
            unused.extend(file.unused_command_patterns());
            for (name, settings) in &file.settings.tools {
                file.check_tool_settings(name, settings, tools, &mut unused);
            }
            for name in file.approval.tools.keys() {
                file.check_tool_name(&format!("approval.tools.{name}"), name, tools, &mut unused);
            }
        }
        unused
    }

    /// Finds entries of deny lists that match no tool. Returns one line for each.
    pub fn unused_denials(&self, tools: &[&Tool]) -> Vec<String> {
        let mut unused = Vec::new();
        // A team's file is for many machines, and may deny tools that this machine lacks.
        for file in self.files.iter().filter(|file| !file.is_team()) {
            unused.extend(file.lists.unused_denials(tools, &file.source));
        }
        unused
    }
}

impl PolicyFile {
    /// Reports a name that matches no available tool.
    fn check_tool_name(&self, key: &str, name: &str, tools: &[&Tool], unused: &mut Vec<String>) {
        if tools.iter().any(|tool| tool.answers_to(name)) {
            return;
        }
        let near = did_you_mean(name, tools.iter().map(|tool| tool.name().as_str()));
        let location = self.source.at(key);
        unused.push(format!(
            "{location}: {key} matches no available tool.{near}"
        ));
    }

    /// Reports settings of a tool that match everything or change nothing.
    fn check_tool_settings(
        &self,
        name: &str,
        settings: &ToolSettings,
        tools: &[&Tool],
        unused: &mut Vec<String>,
    ) {
        self.check_tool_name(&format!("tools.{name}"), name, tools, unused);
        if let Some(tool) = tools.iter().find(|tool| tool.answers_to(name)) {
            self.check_repeated_calls(name, settings, tool, unused);
        }
        let Some(block) = settings.approval.block() else {
            return;
        };
        for (at, pattern) in block.danger_patterns.iter().enumerate() {
            if is_every_text(pattern) {
                let key = format!("tools.{name}.approval.dangerPatterns[{at}]");
                let location = self.source.at(&key);
                unused.push(format!(
                    "{location}: {key} matches everything (`{pattern}`): every call is asked about."
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
        let location = self.source.at(&key);
        if !block.danger_patterns.is_empty() {
            unused.push(format!(
                "{location}: {key}.dangerPatterns change nothing: {why}."
            ));
        }
        let conditions = &block.conditions;
        if conditions.unknown_host_requires_approval
            || !conditions.method_requires_approval.is_empty()
        {
            unused.push(format!(
                "{location}: {key}.conditions change nothing: {why}."
            ));
        }
    }

    /// Reports retries and reuse of results that a tool does not allow.
    fn check_repeated_calls(
        &self,
        name: &str,
        settings: &ToolSettings,
        tool: &Tool,
        unused: &mut Vec<String>,
    ) {
        let mut report = |key: &str, why: &str| {
            let key = format!("tools.{name}.{key}");
            let location = self.source.at(&key);
            unused.push(format!("{location}: {key} changes nothing: {why}."));
        };
        if settings.retries.max() > 0 && !is_repeatable(tool) {
            report(
                "retries",
                "the tool declares neither that it only reads nor that it is idempotent",
            );
        }
        if let Some(why) = cache_refusal(tool).filter(|_| settings.cache.is_some()) {
            report("cache", why);
        }
    }

    /// Finds entries of the command list that change nothing or never match. Returns one line for each.
    fn unused_command_patterns(&self) -> Vec<String> {
        let mut unused = Vec::new();
        let mode = self.commands.mode();
        for (at, pattern) in self.commands.written().iter().enumerate() {
            let key = format!("execApprovals.approvals[{at}]");
            let location = self.source.at(&key);
            match mode {
                Some(ExecMode::Allowlist) => {}
                Some(ExecMode::Full) => {
                    unused.push(format!(
                        "{location}: {key} changes nothing: `mode: full` runs every command."
                    ));
                }
                Some(ExecMode::Deny) => {
                    unused.push(format!(
                        "{location}: {key} changes nothing: `mode: deny` runs no command."
                    ));
                }
                None => {
                    unused.push(format!(
                        "{location}: {key} changes nothing without `mode: allowlist`."
                    ));
                }
            }
            if let Some(syntax) = pattern.chars().find(|c| SHELL_SYNTAX.contains(c)) {
                unused.push(format!(
                    "{location}: {key} can never match: `{syntax}` is shell syntax, and the list does not apply to commands with it."
                ));
            }
        }
        unused
    }
}
