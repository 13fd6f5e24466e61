//! The settings of one tool besides its permission: paths, limits, labels, masking, audit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Config, LabelSettings, LimitSettings, NetworkSettings, ToolSettings};
use crate::limits::Limits;
use crate::paths::PathRules;
use crate::redact::Redactor;
use crate::tool::{Tool, ToolSource};

use super::{Policy, PolicyFile};

/// The settings of each tool, and those of all tools that they override: of one file, or of all files together.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingsByTool {
    pub(super) tools: BTreeMap<String, ToolSettings>,
    /// The limits that are set for all tools.
    pub(super) limits: LimitSettings,
    pub(super) network: NetworkSettings,
    /// Maximum duration of a call.
    pub(super) longest: Option<Duration>,
}

impl SettingsByTool {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            tools: config.tools.each.clone(),
            limits: config.limits,
            network: config.network.clone(),
            longest: config.tools.max_execution_time.map(Duration::from_millis),
        }
    }

    /// The settings of this tool, under its name and its aliases.
    pub(super) fn of_tool<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a ToolSettings> {
        self.named(tool).map(|(_, settings)| settings)
    }

    /// The settings of this tool, each with the name under which they are set.
    pub(super) fn named<'a>(
        &'a self,
        tool: &'a Tool,
    ) -> impl Iterator<Item = (&'a str, &'a ToolSettings)> {
        let names = std::iter::once(tool.name()).chain(&tool.aliases);
        names.filter_map(|name| Some((name.as_str(), self.tools.get(name.as_str())?)))
    }

    /// The network settings of a tool over those of all tools, and the key of the block that takes effect.
    pub(super) fn network(&self, tool: Option<&Tool>) -> (String, NetworkSettings) {
        let base = ("network".to_owned(), self.network.clone());
        let all = tool.into_iter().flat_map(|tool| self.named(tool));
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

    /// The limits that are set for the tool, the tightest under its name and its aliases; those that are not set bound
    /// nothing.
    pub(super) fn caps(&self, tool: &Tool) -> Limits {
        let all = self.limits.over(Limits::NONE);
        let each = self.of_tool(tool);
        let each = each.map(|settings| settings.limits.over(all));
        let mut cap = each.reduce(Limits::tightest).unwrap_or(all);
        cap.wall = cap.wall.min(self.longest.unwrap_or(Duration::MAX));
        cap
    }
}

impl Policy {
    /// The path rules for calls of this tool.
    pub fn paths(&self, tool: &Tool) -> PathRules {
        let mut kept = self.paths.lock();
        if let Some(rules) = kept.get(tool.name().as_str()) {
            return rules.clone();
        }
        let files = || self.files.iter();
        let settings = files().flat_map(|file| file.settings.of_tool(tool));
        let hidden = files().flat_map(|file| &file.hidden);
        let denied = settings.flat_map(|settings| &settings.deny);
        let mut denied = denied.chain(hidden).peekable();
        let shown = self.accepted_files();
        let shown = shown.flat_map(|file| file.settings.of_tool(tool));
        let mut shown = shown.flat_map(|settings| &settings.reveal).peekable();
        let mut rules = Ok(PathRules::protected());
        if denied.peek().is_some() {
            rules = rules.and_then(|rules| rules.deny(denied));
        }
        if shown.peek().is_some() {
            rules = rules.and_then(|rules| rules.reveal(shown));
        }
        // All rules were validated when the file was read; should one fail all the same, nothing is reachable.
        let rules = rules.unwrap_or_else(|_| PathRules::hide_everything());
        kept.insert(tool.name().to_string(), rules.clone());
        rules
    }

    /// The redactor for the results of this tool: `redactor` without the tool's exceptions.
    pub fn redactor(&self, tool: &Tool, redactor: &Redactor) -> Redactor {
        let settings = self.accepted_files();
        let settings = settings.flat_map(|file| file.settings.of_tool(tool));
        let mut exceptions = settings
            .flat_map(|settings| &settings.redaction.exceptions)
            .peekable();
        if exceptions.peek().is_none() {
            return redactor.clone();
        }
        // The exceptions were validated when the file was read; should one fail all the same, none counts.
        redactor
            .except(exceptions)
            .unwrap_or_else(|_| redactor.clone())
    }

    /// The names of the secrets that the server behind this tool receives.
    pub(crate) fn secrets_of(&self, tool: &Tool) -> &[String] {
        let server = Some(&tool.origin.location).filter(|_| tool.source == ToolSource::Mcp);
        let given = server.and_then(|server| self.server_secrets.get(server));
        given.map_or(&[], Vec::as_slice)
    }

    /// The audit setting for a tool's arguments, if any: a team's value wins, otherwise a single `false` is enough.
    /// `same` is the equivalent tool: its `false` counts too.
    pub fn logs_arguments(&self, tool: &Tool, same: Option<&Tool>) -> Option<bool> {
        let of = |tool| {
            let team = self.set_to_log(tool, PolicyFile::is_team);
            team.or_else(|| self.set_to_log(tool, |file| !file.is_team()))
        };
        match same.and_then(of) {
            Some(false) => Some(false),
            _ => of(tool),
        }
    }

    fn set_to_log(&self, tool: &Tool, counts: impl Fn(&PolicyFile) -> bool) -> Option<bool> {
        let files = self.files.iter().filter(|file| counts(file));
        let set = files.flat_map(|file| {
            let each = file.settings.of_tool(tool);
            let each = each.filter_map(|settings| settings.audit.log_args);
            each.filter(|logs| !logs || file.allows_count())
        });
        set.reduce(|one, other| one && other)
    }

    /// The label settings of this tool: of several files the strictest value.
    pub fn labels(&self, tool: &Tool) -> LabelSettings {
        let mut all = LabelSettings::default();
        let labels = self.files.iter().flat_map(|file| {
            let each = file.settings.of_tool(tool);
            let each = each.map(|settings| settings.labels);
            each.map(|labels| match file.allows_count() {
                true => labels,
                false => labels.strict(),
            })
        });
        for labels in labels {
            all.output_trust = all.output_trust.max(labels.output_trust);
            all.output_data_class = all.output_data_class.max(labels.output_data_class);
            all.accepts_untrusted = match (all.accepts_untrusted, labels.accepts_untrusted) {
                (Some(one), Some(other)) => Some(one && other),
                (one, other) => one.or(other),
            };
        }
        all
    }

    /// All settings of this tool, under its name and its aliases.
    pub fn settings<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a ToolSettings> {
        self.settings.of_tool(tool)
    }

    /// The limits of a call of this tool.
    pub fn limits(&self, tool: &Tool) -> Limits {
        let mut limits = self.limits;
        if self.settings.limits.time_ms.is_none() && !tool.definition.needs.commands.is_empty() {
            limits.wall = Limits::WALL_WITH_COMMANDS;
        }
        for settings in self.settings(tool) {
            limits = settings.limits.over(limits);
        }
        limits.wall = limits
            .wall
            .min(self.settings.longest.unwrap_or(Duration::MAX));
        let mut own = self.settings(tool).map(|settings| settings.limits.fuel);
        if self.settings.limits.fuel.is_none() && !own.any(|fuel| fuel.is_some()) {
            limits.fuel = Limits::fuel_within(limits.wall);
        }
        // A team's limits are caps.
        let teams = self.team_files();
        teams.fold(limits, |limits, team| {
            limits.tightest(team.settings.caps(tool))
        })
    }
}
