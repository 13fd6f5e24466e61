//! The config files: reading, validation with line numbers, and merging.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mimir_core::config::{Config, EnforcementSettings};
use mimir_core::policy::{EnforcedTools, OutdatedTeam};
use mimir_core::redact::Redactor;
use mimir_core::{Limits, Policy, Quarantined, Tool, ToolError, ToolName};
use mimir_wasm::TeamComponent;
use serde_yaml::{Mapping, Value};
use sha2::{Digest, Sha256};

use crate::approval_store::UserApprovalStore;
use crate::interface::warn;
use crate::secrets::UserSecrets;
use crate::servers::control::ServerControl;
use crate::teams::{self, TeamInForce};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

mod case_settings;
mod config_location;
mod config_schema;
mod defaults;
mod edit;
pub mod environment;
mod excerpts;
mod file_paths;
mod key_descriptions;
mod key_lines;
mod layer_value;
mod leaf_settings;
mod lower_files;
mod merge;
mod preview;
mod reload;
mod sync_layers;
mod team_overrides;
mod team_text;
mod unknown_variables;
mod write;
mod yaml_errors;

pub(crate) use config_location::check_not_writable_by_others;
pub use config_location::{ConfigLocation, ConfigOwner};
pub use config_schema::ConfigSchema;
pub use edit::{ConfigEdit, apply_edits};
pub use key_descriptions::KeyDescription;
pub use layer_value::LayerValue;
pub use leaf_settings::LeafSetting;
use lower_files::LowerFiles;
pub use preview::ConfigPreview;
pub use reload::{SettingsChange, SettingsWatcher, WatchedFiles};
pub(crate) use team_text::check_bundle_settings;
pub use write::{change_config, retry_change};
pub use yaml_errors::explain;

/// The config file that `mimir init` writes: the most common keys, commented out.
pub const TEMPLATE: &str = include_str!("settings/config.template.yml");

/// An example config file: every key, commented out.
pub const EXAMPLE: &str = include_str!("settings/config.example.yml");

/// A parsed config file.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the file, for messages.
    pub shown: String,
    /// The settings of this file alone.
    pub config: Config,
    value: Value,
    text: Arc<str>,
    /// True if the file weakens a restriction and the user has not accepted it. Only set for the workspace's file.
    unaccepted: bool,
    /// True if the user has not accepted the file, so that rule names and reasons in it are hidden from models.
    unaccepted_text: bool,
    /// Why the tools of a team are refused, for the settings of a team's bundle.
    pub(crate) outdated: Option<OutdatedTeam>,
    /// The tools enforced by teams that the file can disable, for a team's file.
    pub(crate) disables: EnforcedTools,
    /// Begins of the locations of the tools that `source:teams` means, for an administrator's file.
    covered_teams: Option<Vec<String>>,
    /// The owner of the file.
    pub owner: ConfigOwner,
}

/// The merged settings of all config files.
#[derive(Debug, Clone, Default)]
pub struct MergedSettings {
    /// The settings in force.
    pub config: Config,
    /// The existing files, in the order team, user, environment variables, workspace. This is not the precedence:
    /// environment variables override the workspace.
    pub files: Vec<ConfigFile>,
    /// The servers that the user has stopped or restarted.
    pub server_control: ServerControl,
    /// The teams whose bundles are in force.
    pub teams: Vec<Arc<TeamInForce>>,
    withheld: Vec<String>,
}

impl MergedSettings {
    /// Reads the existing files of team, user and workspace, and the environment variables.
    pub fn read(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Result<Self, ToolError> {
        let found = Self::find(user_dirs, workspace, true, LowerFiles::Current);
        found.map_err(|error| mask_secrets(error, Some(user_dirs)))
    }

    /// Reads the settings without those of joined teams. Only for commands that fetch their bundles: the restrictions of
    /// the teams are missing.
    pub fn read_without_teams(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Result<Self, ToolError> {
        let found = Self::find(user_dirs, workspace, false, LowerFiles::Current);
        found.map_err(|error| mask_secrets(error, Some(user_dirs)))
    }

    /// Reads the layers of teams, with the last valid files of the user and the workspace in place of those that are not
    /// valid now, so that a faulty file does not keep a team's newer rules out of force.
    ///
    /// # Errors
    /// A team's layer cannot be read.
    fn read_over_last_valid(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        last_valid: &[ConfigFile],
    ) -> Result<(Self, Policy), ToolError> {
        let read = |lower| {
            let settings = Self::find(user_dirs, workspace, true, lower)?;
            let policy = merge::policy(&settings)?;
            Ok((settings, policy))
        };
        read(LowerFiles::CurrentOr(last_valid))
            // The files may be valid only without each other.
            .or_else(|_| read(LowerFiles::Of(last_valid)))
            .map_err(|error| mask_secrets(error, Some(user_dirs)))
    }

    /// Returns the files of the user and the workspace, and the environment variables.
    fn lower_files(&self) -> Vec<ConfigFile> {
        let lower = self.files.iter().filter(|file| !file.owner.is_team());
        lower.cloned().collect()
    }

    fn find(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        with_teams: bool,
        lower: LowerFiles<'_>,
    ) -> Result<Self, ToolError> {
        let mut files = Vec::new();
        let mut variables = lower.variables(user_dirs)?;
        for location in ConfigLocation::all_locations(user_dirs, workspace) {
            if location.owner == ConfigOwner::Project {
                // Inserted before the workspace's file, whose settings are compared with all files before it.
                files.extend(variables.take());
            }
            let Some(file) = lower.read(location)? else {
                continue;
            };
            if file.owner.is_team() {
                // Invalid rules of a team stop every command, not only commands that evaluate calls.
                merge::policy_of_file(&file)?;
            }
            files.push(file);
        }
        let memberships = teams::memberships(&files)?;
        let mut teams = Vec::new();
        for membership in memberships.into_iter().filter(|_| with_teams) {
            let owner = membership.owner;
            let team = TeamInForce::read(user_dirs, membership)?;
            let file = team.config_file(Timestamp::now())?;
            merge::policy_of_file(&file)?;
            insert_bundle(&mut files, file, owner);
            teams.push(Arc::new(team));
        }
        for file in &mut files {
            file.covered_teams = covered_teams(file.owner, &teams);
        }
        unknown_variables::warn_once(&user_dirs.variables, &files);
        let withheld = withheld_keys(&mut files, user_dirs, workspace)?;
        let config = merge::merge_layers(&files)?;
        let server_control = ServerControl::read_or_warn(user_dirs, workspace);
        let mut settings = Self {
            config,
            files,
            server_control,
            teams,
            withheld,
        };
        settings.server_control.apply(&mut settings.config.mcp);
        Ok(settings)
    }

    /// Reads the files including their rules. Returns the errors of all files instead of only the first.
    pub fn read_all(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Result<Self, Vec<ToolError>> {
        let locations = ConfigLocation::all_locations(user_dirs, workspace).into_iter();
        let errors: Vec<ToolError> = locations
            .filter_map(|location| {
                let file = ConfigFile::read(location).transpose()?;
                file.and_then(|file| merge::policy_of_file(&file)).err()
            })
            .map(|error| mask_secrets(error, Some(user_dirs)))
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let settings_or_error = Self::read(user_dirs, workspace)
            .and_then(|settings| settings.policy().map(|_| settings));
        settings_or_error.map_err(|error| vec![error])
    }

    /// Checks that `text` would be a valid config file at this location.
    fn check(location: &ConfigLocation, text: &str) -> Result<(), ToolError> {
        let file = ConfigFile::parse(location.clone(), text);
        let policy = file.and_then(|file| merge::policy_of_file(&file));
        policy.map(drop).map_err(|error| mask_secrets(error, None))
    }

    /// Returns the workspace's file, if it exists.
    pub fn project(&self) -> Option<&ConfigFile> {
        let mut files = self.files.iter();
        files.find(|file| file.owner == ConfigOwner::Project)
    }

    /// Returns the team files.
    pub fn team(&self) -> impl Iterator<Item = &ConfigFile> {
        self.files.iter().filter(|file| file.owner.is_team())
    }

    /// Returns the block of a key in each team's file that sets it, with the name of the file.
    pub(crate) fn team_blocks(&self, key: &str) -> Vec<(&str, &Value)> {
        let set = self.team().filter(|file| file.sets(key));
        let blocks = set.filter_map(|file| Some((file.shown.as_str(), file.value.get(key)?)));
        blocks.collect()
    }

    /// Returns the limits, with those for compiling. Without those of enforced tools, a file of the user or the workspace
    /// could prevent that they are compiled.
    pub(crate) fn compile_limits(&self) -> Limits {
        let limits = self.config.limits();
        let mut tools = self.teams.iter().flat_map(|team| &team.bundle.tools);
        if !tools.any(|tool| tool.enforced) {
            return limits;
        }
        let teams: Vec<ConfigFile> = self.team().cloned().collect();
        let Ok(of_teams) = merge::merge_layers(&teams) else {
            return limits;
        };
        let least = of_teams.limits();
        Limits {
            compile_time: limits.compile_time.max(least.compile_time),
            compile_memory: limits.compile_memory.max(least.compile_memory),
            ..limits
        }
    }

    /// Returns true if a team policy denies every call of the tool, regardless of the other files and of a tool file
    /// that switches the tool off.
    pub fn is_denied_by_team(&self, tool: &Tool) -> Result<bool, ToolError> {
        let mut tool = tool.clone();
        tool.off = false;
        let files = self.team().map(merge::policy_of_file);
        let files = files.collect::<Result<_, _>>()?;
        let teams = Policy::from_files(&Config::default(), files);
        Ok(teams.refusal(&tool).is_some())
    }

    /// Returns the keys of the workspace's file that are ignored until the user accepts its current content.
    pub fn withheld(&self) -> &[String] {
        &self.withheld
    }

    /// Returns the keys of the workspace's rules whose names and reasons are hidden from models until the user accepts
    /// the file.
    pub fn unaccepted_texts(&self) -> Vec<String> {
        let file = self.project().filter(|file| file.unaccepted_text);
        let keys = file.map(ConfigFile::model_text_keys).unwrap_or_default();
        let is_withheld = |key: &String| {
            self.withheld
                .iter()
                .any(|withheld| withheld.starts_with(key))
        };
        keys.into_iter().filter(|key| !is_withheld(key)).collect()
    }

    /// Returns the path of each file, as in messages, with the SHA-256 of its content.
    pub fn digests(&self) -> Vec<(String, String)> {
        let files = self.files.iter();
        let files = files.filter(|file| file.owner != ConfigOwner::Environment);
        files
            .map(|file| (file.shown.clone(), file.digest()))
            .collect()
    }

    /// Replaces the configured time limit of calls of `tool`. `tools.maxExecutionTime` still applies.
    pub fn limit_tool_time(&mut self, tool: &Tool, time: Duration) {
        let each = &mut self.config.tools.each;
        let mut names = std::iter::once(tool.name()).chain(&tool.aliases);
        let set = names.find(|name| each.contains_key(name.as_str()));
        let name = set.unwrap_or(tool.name()).to_string();
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        each.entry(name).or_default().limits.time_ms = Some(millis);
    }

    /// Returns true if the custom tools of the workspace are loaded.
    pub fn loads_custom_tools(&self) -> bool {
        self.config.tools.auto_load_custom_tools && !self.config.enforcement.disable_local_tools
    }

    /// Returns the components of all teams' tools, and those that cannot be loaded, with the reasons.
    pub fn team_components(&self) -> (Vec<TeamComponent>, Vec<Quarantined>) {
        let (mut components, mut quarantined) = (Vec::new(), Vec::new());
        for team in &self.teams {
            let (own, damaged) = team.components();
            components.extend(own);
            quarantined.extend(damaged);
        }
        (components, quarantined)
    }

    /// Returns the first file whose block `enforcement` has a switch, for messages.
    pub fn enforcing_file(&self, has: impl Fn(&EnforcementSettings) -> bool) -> Option<&str> {
        let mut files = self.files.iter();
        let file = files.find(|file| has(&file.config.enforcement));
        file.map(|file| file.shown.as_str())
    }

    /// Returns these settings without the addresses that the project's file gives to names (`network.hosts`): for
    /// requests with keys of the user, which a project must not send elsewhere, also if the user has accepted its file.
    #[must_use]
    pub fn without_project_hosts(&self) -> Self {
        let mut settings = self.clone();
        let others = self.files.iter();
        let others: Vec<_> = others
            .filter(|file| file.owner != ConfigOwner::Project)
            .map(|file| &file.config.network.hosts.0)
            .collect();
        // The last file that names the host counts, as in the merged settings.
        let hosts = &mut settings.config.network.hosts.0;
        hosts.clear();
        for known in others.iter().rev() {
            for (name, addresses) in *known {
                hosts
                    .entry(name.clone())
                    .or_insert_with(|| addresses.clone());
            }
        }
        settings
    }

    /// Returns the policy that the files define.
    pub fn policy(&self) -> Result<Policy, ToolError> {
        merge::policy(self).map_err(|error| mask_secrets(error, None))
    }
}

/// Inserts the settings of a bundle below the administrators' files. The file that a variable names, if it is below,
/// cannot disable what the bundle enforces.
fn insert_bundle(files: &mut Vec<ConfigFile>, bundle: ConfigFile, required_by: ConfigOwner) {
    let is_machine = required_by == ConfigOwner::Machine;
    let is_above = |file: &&ConfigFile| file.owner.is_above_bundle(required_by);
    let above = files.iter().take_while(is_above).count();
    files.insert(above, bundle);
    let named = files
        .iter_mut()
        .filter(|file| is_machine && file.owner == ConfigOwner::NamedTeam);
    named.for_each(|file| file.disables = EnforcedTools::None);
}

/// Returns the begins of the locations of the tools that `source:teams` means in a file: in an administrator's file only
/// those of teams that administrators require, so that a user's own team is not among them. `None` for all teams.
fn covered_teams(owner: ConfigOwner, teams: &[Arc<TeamInForce>]) -> Option<Vec<String>> {
    let owners: &[ConfigOwner] = match owner {
        ConfigOwner::Machine => &[ConfigOwner::Machine],
        ConfigOwner::NamedTeam => &[ConfigOwner::Machine, ConfigOwner::NamedTeam],
        _ => return None,
    };
    let teams = teams.iter();
    let required = teams.filter(|team| owners.contains(&team.membership.owner));
    Some(required.map(|team| team.location_prefix()).collect())
}

/// Masks stored secrets in an error that quotes a file.
fn mask_secrets(mut error: ToolError, user_dirs: Option<&UserDirs>) -> ToolError {
    let secrets = user_dirs.and_then(UserSecrets::new);
    let values = secrets.and_then(|secrets| secrets.values(&[]).ok());
    let redactor = Redactor::new().with_values(values.unwrap_or_default());
    redactor.mask_all([&mut error.message], error.details.as_mut());
    error
}

/// Returns the keys of the workspace's file that weaken a restriction, or none if this user has accepted the file. Marks
/// a file that is not accepted.
fn withheld_keys(
    files: &mut [ConfigFile],
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
) -> Result<Vec<String>, ToolError> {
    let split = files.split_last_mut();
    let Some((file, below)) = split.filter(|(file, _)| file.owner == ConfigOwner::Project) else {
        return Ok(Vec::new());
    };
    let below = merge::merge_layers(below)?;
    let withheld = file.config.weakening_keys(&below, |key| file.sets(key));
    let approvals = UserApprovalStore::new(user_dirs, workspace).map(|store| store.read());
    let accepted = match approvals {
        Some(Ok(approvals)) => approvals.settings.contains(&file.digest()),
        Some(Err(error)) => {
            warn(error);
            false
        }
        None => false,
    };
    file.unaccepted_text = !accepted;
    file.unaccepted = !accepted && !withheld.is_empty();
    Ok(if accepted { Vec::new() } else { withheld })
}

impl ConfigFile {
    /// Returns the SHA-256 of the file in lower-case hex.
    pub fn digest(&self) -> String {
        digest(&self.text)
    }

    /// Returns the keys of rules with a name or a reason, which models read once the user has accepted the file.
    pub fn model_text_keys(&self) -> Vec<String> {
        let each = self.config.tools.each.iter();
        let own = each.map(|(name, tool)| (format!("tools.{name}.rules"), &tool.rules));
        let all =
            std::iter::once(("policy.rules".to_owned(), &self.config.policy.rules)).chain(own);
        let mut keys = Vec::new();
        for (key, rules) in all {
            let with_text = rules.iter().enumerate();
            let with_text =
                with_text.filter(|(_, rule)| rule.name.is_some() || rule.reason.is_some());
            keys.extend(with_text.map(|(at, _)| format!("{key}[{at}]")));
        }
        keys
    }

    /// Reads and parses the file; `None` if it does not exist.
    fn read(location: ConfigLocation) -> Result<Option<Self>, ToolError> {
        let text = location.text()?;
        text.map(|text| Self::parse(location, &text)).transpose()
    }

    pub(crate) fn parse(location: ConfigLocation, text: &str) -> Result<Self, ToolError> {
        let ConfigLocation { path, shown, owner } = location;
        let fault = |error: serde_yaml::Error| yaml_errors::explain(&shown, &error);
        let yaml = edit::strip_bom(text);
        mimir_script::yaml::check_yaml(yaml)
            .map_err(|rejection| yaml_errors::yaml_shape_error(&shown, &rejection))?;
        let mut value: Value = serde_yaml::from_str(yaml).map_err(fault)?;
        let had_null_tools = expand_null_tools(&mut value);
        let mut config = match value {
            // A file with comments only.
            Value::Null => Config::default(),
            _ => match serde_yaml::from_str(yaml) {
                Ok(config) => config,
                // Reports the error of the text, which has a line number.
                Err(error) if had_null_tools => {
                    serde_yaml::from_value(value.clone()).map_err(|_| fault(error))?
                }
                Err(error) => return Err(fault(error)),
            },
        };
        if owner != ConfigOwner::Project
            && let Some(folder) = path.parent()
            && file_paths::anchor_file_paths(&mut value, folder)
        {
            config = serde_yaml::from_value(value.clone()).map_err(fault)?;
        }
        Ok(Self {
            path,
            shown,
            config,
            value,
            text: text.into(),
            unaccepted: false,
            unaccepted_text: false,
            outdated: None,
            disables: EnforcedTools::All,
            covered_teams: None,
            owner,
        })
    }

    /// Returns true if the file sets a key, such as `audit.keep`.
    pub(crate) fn sets(&self, key: &str) -> bool {
        let value = key.split('.').try_fold(&self.value, |at, key| at.get(key));
        value.is_some_and(|value| !value.is_null())
    }

    /// Returns `file:line` of a key, or only the file if the line is not known.
    pub(crate) fn place_of(&self, key: &str) -> String {
        self.key_location(&key_lines::key_lines(&self.text), key)
    }

    /// Returns the line of each key, such as `policy.deny[0]`.
    pub fn key_lines(&self) -> BTreeMap<String, u64> {
        key_lines::key_lines(&self.text)
    }

    /// Checks the rules and limits of the file.
    pub(crate) fn check_rules(&self) -> Result<(), ToolError> {
        merge::policy_of_file(self).map(drop)
    }
}

/// Replaces null values of tools, as in `tools: {git: ~}`, by empty blocks, because `git:` alone means an empty block.
/// Returns true if there were any.
fn expand_null_tools(value: &mut Value) -> bool {
    let tools = value.get_mut("tools").and_then(Value::as_mapping_mut);
    let tools = tools.into_iter().flat_map(|tools| tools.iter_mut());
    let is_tool_name = |key: &Value| key.as_str().is_some_and(|key| ToolName::new(key).is_ok());
    let mut any = false;
    for (_, tool) in tools.filter(|(key, tool)| tool.is_null() && is_tool_name(key)) {
        *tool = Value::Mapping(Mapping::new());
        any = true;
    }
    any
}

/// Returns the text of a YAML file other than a config without its byte order mark. Fails if its structure exceeds the
/// limits.
pub fn check_yaml_text<'a>(shown: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let yaml = edit::strip_bom(text);
    mimir_script::yaml::check_yaml(yaml)
        .map_err(|rejection| yaml_errors::yaml_shape_error(shown, &rejection))?;
    Ok(yaml)
}

/// Returns the line number of each key in a YAML text.
pub fn config_key_lines(text: &str) -> BTreeMap<String, u64> {
    key_lines::key_lines(text)
}

/// Returns the SHA-256 of a text in lower-case hex.
fn digest(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests;
