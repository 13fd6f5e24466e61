//! The settings of one tool besides its approval: paths, limits, labels, masking, audit.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::{
    CacheSettings, Config, DeniedNetwork, ExecutionSettings, LabelSettings, LimitSettings,
    NetworkSettings, RetryBlock, ToolSettings,
};
use crate::limits::{Limits, WallClockSetting};
use crate::paths::PathRules;
use crate::pipeline::cache_refusal;
use crate::redact::Redactor;
use crate::tool::{Tool, ToolSource};

use super::tool_forms::{COMPACT_TOOLS, is_operation_of};
use super::{Policy, PolicyFile};

/// The settings of one file, or the merged settings of all files: for each tool, and for all tools. Settings for a tool
/// override those for all tools.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingsByTool {
    pub(super) tools: BTreeMap<String, ToolSettings>,
    /// The limits for all tools.
    pub(super) limits: LimitSettings,
    /// The network settings for all tools.
    pub(super) network: NetworkSettings,
    /// The configured maximum duration of a call.
    pub(super) max_execution_time: Option<Duration>,
}

impl SettingsByTool {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            tools: config.tools.each.clone(),
            limits: config.limits,
            network: config.network.clone(),
            max_execution_time: config.tools.max_execution_time.map(Duration::from_millis),
        }
    }

    /// Returns the settings of a tool, under its name and its aliases.
    pub(super) fn of_tool<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a ToolSettings> {
        self.named(tool).map(|(_, settings)| settings)
    }

    /// Returns the settings of a tool, each with the name under which they are set.
    pub(super) fn named<'a>(
        &'a self,
        tool: &'a Tool,
    ) -> impl Iterator<Item = (&'a str, &'a ToolSettings)> {
        let names = std::iter::once(tool.name()).chain(&tool.aliases);
        names.filter_map(|name| Some((name.as_str(), self.tools.get(name.as_str())?)))
    }

    /// Returns the settings of the compact tool that has this tool as an operation, with its name, if there are any.
    pub(super) fn of_compact_form(&self, tool: &Tool) -> Option<(&str, &ToolSettings)> {
        let mut names = COMPACT_TOOLS.iter();
        let name = names.find(|name| is_operation_of(tool, name))?;
        let (name, settings) = self.tools.get_key_value(*name)?;
        Some((name.as_str(), settings))
    }

    /// Returns the settings that restrict a tool, each with the name under which they are set: its own, and those of its
    /// compact form.
    pub(super) fn restricting<'a>(
        &'a self,
        tool: &'a Tool,
    ) -> impl Iterator<Item = (&'a str, &'a ToolSettings)> {
        self.named(tool).chain(self.of_compact_form(tool))
    }

    /// Returns the network settings of the other forms of a call of a tool, each with the key of its block: the compact
    /// form, and the equivalent fine-grained tool. Keys that the block does not set restrict nothing.
    pub(super) fn other_form_networks<'a>(
        &'a self,
        tool: &'a Tool,
        equivalent: Option<&'a Tool>,
    ) -> impl Iterator<Item = (String, NetworkSettings)> {
        let fine_grained = equivalent.into_iter().flat_map(|tool| self.named(tool));
        let blocks = self.of_compact_form(tool).into_iter().chain(fine_grained);
        let blocks = blocks.map(|(name, settings)| (name, &settings.network));
        blocks
            .filter(|(_, network)| **network != NetworkSettings::default())
            .map(move |(name, network)| {
                let mut network = network.clone();
                // As for the other form itself, a list has no effect with `mode: any` for all tools.
                if network.allowed_hosts.is_some() {
                    network.mode = network.mode.or(self.network.mode);
                }
                (format!("tools.{name}.network"), network)
            })
    }

    /// Returns the network settings of a tool, merged over those for all tools, and the key of the block that applies.
    pub(super) fn network(&self, tool: Option<&Tool>) -> (String, NetworkSettings) {
        let base = ("network".to_owned(), self.network.clone());
        let blocks = tool.into_iter().flat_map(|tool| self.named(tool));
        blocks.fold(base, |(at, base), (name, settings)| {
            if settings.network == NetworkSettings::default() {
                (at, base)
            } else {
                (
                    format!("tools.{name}.network"),
                    settings.network.over(&base),
                )
            }
        })
    }

    /// Caps the wall clock by the configured maximum for all tools.
    fn cap_execution_time(&self, limits: &mut Limits) {
        if let Some(longest) = self.max_execution_time {
            limits.cap_wall(longest, WallClockSetting::MaxExecutionTime);
        }
    }

    /// Returns the limits that are set for the tool: the tightest of those under its name and its aliases, and where
    /// these set none, those of its compact form. A limit that is not set is unlimited.
    pub(super) fn caps(&self, tool: &Tool) -> Limits {
        let mut base = self.limits.over(Limits::NONE);
        if let Some((_, compact)) = self.of_compact_form(tool) {
            base = compact.limits.over(base);
        }
        let each = self.of_tool(tool);
        let each = each.map(|settings| settings.limits.over(base));
        let mut cap = each.reduce(Limits::tightest).unwrap_or(base);
        self.cap_execution_time(&mut cap);
        cap
    }
}

/// Returns true if the permissions of a block apply to the tool: if the block names a server, only to tools of the server.
pub(super) fn is_for_source(settings: &ToolSettings, tool: &Tool) -> bool {
    settings.server.as_deref().is_none_or(|server| {
        tool.source == ToolSource::Mcp && tool.origin.location.strip_prefix("mcp:") == Some(server)
    })
}

/// Returns true if a second call with the same arguments has no further effect, as the tool states.
pub(super) fn is_repeatable(tool: &Tool) -> bool {
    let hints = tool.definition.hints;
    hints.read_only || hints.idempotent
}

impl Policy {
    /// Returns the path rules for calls of a tool. The folders of skills that have to be checked are checked now.
    pub fn paths(&self, tool: &Tool) -> PathRules {
        let checked = self.checked_skills.as_ref();
        let checked = checked.map_or_else(Vec::new, |checked| checked.0.folders());
        // Neither names of tools nor folders of skills contain spaces.
        let key = [&[tool.name().to_string()], &*checked].concat().join(" ");
        let mut cache = self.paths.lock();
        if let Some(rules) = cache.get(&key) {
            return rules.clone();
        }
        let files = || self.files.iter();
        let settings = files().flat_map(|file| file.settings.restricting(tool));
        let settings = settings.map(|(_, settings)| settings);
        let hidden = files().flat_map(|file| &file.hidden);
        let denied = settings.flat_map(|settings| &settings.deny);
        let mut denied = denied.chain(hidden).peekable();
        let accepted = self.accepted_files();
        let revealing = accepted.flat_map(|file| file.settings.of_tool(tool));
        let mut revealed = revealing.flat_map(|settings| &settings.reveal).peekable();
        let mut rules = Ok(PathRules::protected());
        if denied.peek().is_some() {
            rules = rules.and_then(|rules| rules.deny(denied));
        }
        if revealed.peek().is_some() {
            rules = rules.and_then(|rules| rules.reveal(revealed));
        }
        if !self.skill_folders.is_empty() || !checked.is_empty() {
            let shown = self.skill_folders.iter().chain(&checked);
            rules = rules.and_then(|rules| rules.show_skills(shown));
        }
        // All rules were checked when the file was read. If one fails nevertheless, no path is reachable.
        let rules = rules.unwrap_or_else(|_| PathRules::hide_everything());
        cache.insert(key, rules.clone());
        rules
    }

    /// Returns the redactor for the results of a tool: `redactor` with the exceptions that accepted files set.
    pub fn redactor(&self, tool: &Tool, redactor: &Redactor) -> Redactor {
        let settings = self.accepted_files();
        let settings = settings.flat_map(|file| file.settings.of_tool(tool));
        let mut exceptions = settings
            .flat_map(|settings| &settings.redaction.exceptions)
            .peekable();
        if exceptions.peek().is_none() {
            return redactor.clone();
        }
        // The exceptions were checked when the file was read. If one fails nevertheless, none applies.
        redactor
            .except(exceptions)
            .unwrap_or_else(|_| redactor.clone())
    }

    /// Returns the names of the secrets that the settings pass to the server of this tool.
    pub(crate) fn secrets_of(&self, tool: &Tool) -> &[String] {
        let server = Some(&tool.origin.location).filter(|_| tool.source == ToolSource::Mcp);
        let secrets = server.and_then(|server| self.server_secrets.get(server));
        secrets.map_or(&[], Vec::as_slice)
    }

    /// Returns the setting for recording a tool's arguments, if any. A team's value wins; otherwise `false` in any file
    /// wins. `equivalent` is the fine-grained tool with the same effect; `false` for it wins, too.
    pub fn logs_arguments(&self, tool: &Tool, equivalent: Option<&Tool>) -> Option<bool> {
        let setting_for = |tool| {
            let team = self.log_setting(tool, PolicyFile::is_team);
            team.or_else(|| self.log_setting(tool, |file| !file.is_team()))
        };
        match equivalent.and_then(setting_for) {
            Some(false) => Some(false),
            _ => setting_for(tool),
        }
    }

    fn log_setting(&self, tool: &Tool, is_included: impl Fn(&PolicyFile) -> bool) -> Option<bool> {
        let files = self.files.iter().filter(|file| is_included(file));
        let set = files.flat_map(|file| {
            let each = file.settings.of_tool(tool);
            let each = each.filter_map(|settings| settings.audit.log_args);
            each.filter(|logs| !logs || file.permissions_apply())
        });
        set.reduce(|one, other| one && other)
    }

    /// Returns the label settings of a tool. The strictest value of all files wins.
    pub fn labels(&self, tool: &Tool) -> LabelSettings {
        let mut strictest = LabelSettings::default();
        let labels = self.files.iter().flat_map(|file| {
            let each = file.settings.of_tool(tool);
            each.map(|settings| {
                if file.permissions_apply() && is_for_source(settings, tool) {
                    settings.labels
                } else {
                    settings.labels.strict()
                }
            })
        });
        for labels in labels {
            strictest.output_trust = strictest.output_trust.max(labels.output_trust);
            strictest.output_data_class = strictest.output_data_class.max(labels.output_data_class);
            strictest.accepts_untrusted =
                match (strictest.accepts_untrusted, labels.accepts_untrusted) {
                    (Some(one), Some(other)) => Some(one && other),
                    (one, other) => one.or(other),
                };
        }
        strictest
    }

    /// Returns the merged settings of a tool, under its name and its aliases.
    pub fn settings<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a ToolSettings> {
        self.settings.of_tool(tool)
    }

    /// Returns the restrictions of how a tool runs: the strictest of all files. Those of its compact form apply, too.
    pub fn execution(&self, tool: &Tool) -> ExecutionSettings {
        let files = self.files.iter();
        let each = files.flat_map(|file| file.settings.restricting(tool));
        each.map(|(_, settings)| settings.execution)
            .fold(ExecutionSettings::default(), ExecutionSettings::strictest)
    }

    /// Returns the key of the setting that denies the network to a tool, if there is one.
    pub(super) fn denied_network_key(&self, tool: &Tool) -> Option<String> {
        let files = self.files.iter();
        let mut each = files.flat_map(|file| file.settings.restricting(tool));
        let denying =
            each.find(|(_, settings)| settings.execution.network == Some(DeniedNetwork::None));
        denying.map(|(name, _)| format!("tools.{name}.execution.network"))
    }

    /// Returns the retries of calls of a tool. `None` if they are not set, or if repeating a call could have a further
    /// effect. A team's number of retries is a maximum. The settings for `judged`, the tool whose rules apply to the
    /// call, precede those for the tool itself.
    pub fn retries(&self, judged: &Tool, tool: &Tool) -> Option<RetryBlock> {
        if !is_repeatable(tool) {
            return None;
        }
        let mut settings = self.settings(judged).chain(self.settings(tool));
        let mut retries = settings.find_map(|settings| settings.retries.block())?;
        for team in self.team_files() {
            let mut blocks = team.settings.of_tool(judged);
            if let Some(block) = blocks.find_map(|settings| settings.retries.block()) {
                retries.max = retries.max.min(block.max);
            }
        }
        (retries.max > 0).then_some(retries)
    }

    /// Returns the settings for reusing results of a tool. `None` if they are not set, or if results of the tool are
    /// never reused. The settings for `judged`, the tool whose rules apply to the call, precede those for the tool
    /// itself.
    pub fn cache(&self, judged: &Tool, tool: &Tool) -> Option<CacheSettings> {
        let mut settings = self.settings(judged).chain(self.settings(tool));
        let cache = settings.find_map(|settings| settings.cache)?;
        cache_refusal(tool).is_none().then_some(cache)
    }

    /// Returns the limits for a call of a tool: the configured limits, capped by a team's limits. Those for its compact
    /// form apply where the tool has none of its own. For an enforced tool, files that cannot disable it do not lower the
    /// defaults.
    pub fn limits(&self, tool: &Tool) -> Limits {
        let mut limits = self.limits;
        if self.settings.limits.time_ms.is_none() && !tool.definition.needs.commands.is_empty() {
            limits.wall = Limits::WALL_WITH_COMMANDS;
            limits.wall_setting = WallClockSetting::TimeMs;
        }
        let compact = self.settings.of_compact_form(tool);
        let compact = compact.into_iter().map(|(_, settings)| settings);
        let own: Vec<LimitSettings> = compact
            .chain(self.settings(tool))
            .map(|settings| settings.limits)
            .collect();
        for settings in &own {
            limits = settings.over(limits);
        }
        self.settings.cap_execution_time(&mut limits);
        let timeout = self.execution(tool).wall();
        limits.cap_wall(timeout, WallClockSetting::ExecutionTimeout);
        let sets_fuel = own.iter().any(|settings| settings.fuel.is_some());
        if self.settings.limits.fuel.is_none() && !sets_fuel {
            limits.fuel = Limits::fuel_for_wall_time(limits.wall);
        }
        if tool.enforced {
            limits = limits.raised_to(least_limits(tool));
        }
        // Those of a file that cannot disable the tool are among the raised ones.
        let teams = self.team_files().filter(|team| team.can_disable(tool));
        teams.fold(limits, |mut limits, team| {
            for (_, settings) in team.settings.restricting(tool) {
                let timeout = settings.execution.wall();
                limits.cap_wall(timeout, WallClockSetting::ExecutionTimeout);
            }
            limits.tightest(team.settings.caps(tool))
        })
    }
}

/// Returns the limits that every call of a tool has if no file sets any. Only files that can disable an enforced tool
/// lower them for it, because no call succeeds with 1 byte of output.
fn least_limits(tool: &Tool) -> Limits {
    let mut limits = Limits::default();
    if !tool.definition.needs.commands.is_empty() {
        limits.wall = Limits::WALL_WITH_COMMANDS;
        limits.fuel = Limits::fuel_for_wall_time(limits.wall);
    }
    limits
}

impl PolicyFile {
    /// Returns the location and the text of each setting that lowers a limit of a tool below its default.
    pub(super) fn lowered_limits(&self, tool: &Tool) -> Vec<(String, String)> {
        let settings = &self.settings;
        let least = least_limits(tool);
        let mut lowered = lowering_keys("limits", settings.limits, least);
        for (name, block) in settings.restricting(tool) {
            let key = format!("tools.{name}.limits");
            lowered.extend(lowering_keys(&key, block.limits, least));
            if block.execution.wall() < least.wall {
                let key = format!("tools.{name}.execution.timeout");
                lowered.push((key, block.execution.wall().as_millis().to_string()));
            }
        }
        if let Some(longest) = settings.max_execution_time
            && longest < least.wall
        {
            let key = "tools.maxExecutionTime".to_owned();
            lowered.push((key, longest.as_millis().to_string()));
        }
        let lines = lowered.into_iter();
        lines
            .map(|(key, value)| (self.source.at(&key), format!("{key}: {value}")))
            .collect()
    }
}

/// Returns the keys of a block, with their values, that lower a limit below `least`.
fn lowering_keys(block: &str, settings: LimitSettings, least: Limits) -> Vec<(String, String)> {
    let Ok(Value::Object(keys)) = serde_json::to_value(settings) else {
        return Vec::new();
    };
    let lowers = |key: &str, value: &Value| {
        let single = json!({ key: value });
        let single = serde_json::from_value::<LimitSettings>(single).unwrap_or_default();
        let limits = single.over(least);
        limits.raised_to(least) != limits
    };
    let lowering = keys.iter().filter(|(key, value)| lowers(key, value));
    lowering
        .map(|(key, value)| (format!("{block}.{key}"), value.to_string()))
        .collect()
}
