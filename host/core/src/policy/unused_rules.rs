//! Finds rules and settings that never match or have less effect than they seem to, for `mimir policy check` and
//! `mimir config check`.

use std::fmt;

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

/// A setting of a file that never matches or has less effect than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedSetting {
    /// The file, with the line if it is known.
    pub location: String,
    /// The key of the setting, such as `tools.web_fetch.retries`.
    pub key: String,
    /// The reason, as the rest of a sentence that begins with the key.
    pub reason: String,
    /// The kind of problem.
    pub kind: UnusedSettingKind,
}

/// The kind of problem with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusedSettingKind {
    /// Its tool is not available.
    UnknownTool,
    /// It changes nothing.
    NoEffect,
    /// It never matches, or matches more than it seems to.
    Misleading,
}

impl fmt::Display for UnusedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.location, self.key, self.reason)
    }
}

impl Policy {
    /// Finds rules and settings that never match with the available tools, or have less effect than they seem to.
    /// Returns one line for each.
    pub fn unused_rules(&self, tools: &[&Tool]) -> Vec<String> {
        let files = self.files.iter();
        let unused = files.flat_map(|file| {
            let mut entries = file.lists.unused_entries(tools, &file.source);
            entries.extend(file.roles.unused_entries(tools));
            let settings = self.unused_settings_of(file, tools).into_iter();
            entries
                .into_iter()
                .chain(settings.map(|setting| setting.to_string()))
        });
        unused.collect()
    }

    /// Finds settings of rules, commands and tools that never match with the available tools, or have less effect than
    /// they seem to.
    pub fn unused_settings(&self, tools: &[&Tool]) -> Vec<UnusedSetting> {
        let files = self.files.iter();
        files
            .flat_map(|file| self.unused_settings_of(file, tools))
            .collect()
    }

    fn unused_settings_of(&self, file: &PolicyFile, tools: &[&Tool]) -> Vec<UnusedSetting> {
        let refusal = |tool: &Tool| self.refusal(tool).map(|reason| reason.source);
        let mut unused = file.rules.unused_rules(tools, &refusal);
        unused.extend(self.settings_under_teams(file, tools));
        unused.extend(file.unused_command_patterns());
        for (name, settings) in &file.settings.tools {
            file.check_tool_settings(name, settings, tools, &mut unused);
        }
        for name in file.approval.tools.keys() {
            file.check_tool_name(&format!("approval.tools.{name}"), name, tools, &mut unused);
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
    fn unused_setting(
        &self,
        key: String,
        kind: UnusedSettingKind,
        reason: String,
    ) -> UnusedSetting {
        UnusedSetting {
            location: self.source.at(&key),
            key,
            reason,
            kind,
        }
    }

    /// Reports a name that matches no available tool.
    fn check_tool_name(
        &self,
        key: &str,
        name: &str,
        tools: &[&Tool],
        unused: &mut Vec<UnusedSetting>,
    ) {
        if tools.iter().any(|tool| tool.answers_to(name)) {
            return;
        }
        let near = did_you_mean(name, tools.iter().map(|tool| tool.name().as_str()));
        let reason = format!("matches no available tool.{near}");
        unused.push(self.unused_setting(key.to_owned(), UnusedSettingKind::UnknownTool, reason));
    }

    /// Reports settings of a tool that match everything or change nothing.
    fn check_tool_settings(
        &self,
        name: &str,
        settings: &ToolSettings,
        tools: &[&Tool],
        unused: &mut Vec<UnusedSetting>,
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
                let reason =
                    format!("matches everything (`{pattern}`): every call is asked about.");
                unused.push(self.unused_setting(key, UnusedSettingKind::Misleading, reason));
            }
        }
        let why = match (settings.enabled, block.level) {
            (Some(false), _) => "the tool is switched off",
            (_, Some(Decision::Deny)) => "`level: deny` refuses every call",
            (_, Some(Decision::Ask)) => "`level: ask` asks about every call",
            _ => return,
        };
        let mut report = |key: &str| {
            let key = format!("tools.{name}.approval.{key}");
            let reason = format!("change nothing: {why}.");
            unused.push(self.unused_setting(key, UnusedSettingKind::NoEffect, reason));
        };
        if !block.danger_patterns.is_empty() {
            report("dangerPatterns");
        }
        let conditions = &block.conditions;
        if conditions.unknown_host_requires_approval
            || !conditions.method_requires_approval.is_empty()
        {
            report("conditions");
        }
    }

    /// Reports retries and reuse of results that a tool does not allow.
    fn check_repeated_calls(
        &self,
        name: &str,
        settings: &ToolSettings,
        tool: &Tool,
        unused: &mut Vec<UnusedSetting>,
    ) {
        let mut report = |key: &str, why: &str| {
            let key = format!("tools.{name}.{key}");
            let reason = format!("changes nothing: {why}.");
            unused.push(self.unused_setting(key, UnusedSettingKind::NoEffect, reason));
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

    /// Finds entries of the command list that change nothing or never match.
    fn unused_command_patterns(&self) -> Vec<UnusedSetting> {
        let mut unused = Vec::new();
        let mode = self.commands.mode();
        for (at, pattern) in self.commands.written().iter().enumerate() {
            let mut report = |kind, reason: String| {
                let key = format!("execApprovals.approvals[{at}]");
                unused.push(self.unused_setting(key, kind, reason));
            };
            let why = match mode {
                Some(ExecMode::Allowlist) => None,
                Some(ExecMode::Full) => Some(": `mode: full` runs every command."),
                Some(ExecMode::Deny) => Some(": `mode: deny` runs no command."),
                None => Some(" without `mode: allowlist`."),
            };
            if let Some(why) = why {
                report(UnusedSettingKind::NoEffect, format!("changes nothing{why}"));
            }
            if let Some(syntax) = pattern.chars().find(|c| SHELL_SYNTAX.contains(c)) {
                let reason = format!(
                    "can never match: `{syntax}` is shell syntax, and the list does not apply to commands with it."
                );
                report(UnusedSettingKind::Misleading, reason);
            }
        }
        unused
    }
}
