//! Merging of config files. A setting of the workspace replaces that of the user. Every denial stays in force, because
//! the rules of each file are evaluated separately.

use std::sync::Arc;

use mimir_core::config::{
    AuditFailureMode, Config, EnforcementSettings, ModelAllowList, ProviderSettings, TrustLayer,
};
use mimir_core::policy::{PolicyError, PolicyFile, RuleSource};
use mimir_core::{Policy, ToolError};
use serde_yaml::Value;

use super::{ConfigFile, ConfigOwner, MergedSettings, key_lines};

/// Merges the files. Team files must come first in the list; they override the others.
pub fn merge_layers(files: &[ConfigFile]) -> Result<Config, ToolError> {
    let all = files;
    let teams = all.iter().take_while(|file| file.owner.is_team()).count();
    let (teams, others) = files.split_at(teams);
    let mut config = below_teams(others)?;
    // In reverse, so that the machine-wide file is applied last and wins.
    for team in teams.iter().rev() {
        config.under_team(&team.config, |key| team.sets(key));
    }
    // `audit.onFailure: refuse` in any file cannot be overridden.
    if files.iter().any(sets_refuse) {
        config.audit.on_failure = AuditFailureMode::Refuse;
    }
    // No file lifts what another enforces.
    config.enforcement =
        EnforcementSettings::union(all.iter().map(|file| &file.config.enforcement));
    let with_models = all
        .iter()
        .filter(|file| !file.config.enforcement.models.is_empty());
    let lists = with_models.map(|file| ModelAllowList {
        source: file.shown.clone(),
        patterns: file.config.enforcement.models.clone(),
    });
    config.model_lists = lists.collect();
    Ok(config)
}

fn below_teams(files: &[ConfigFile]) -> Result<Config, ToolError> {
    let mut config = match files {
        [] => return Ok(Config::default()),
        [one] => one.config.clone(),
        many => {
            let merged = by_precedence(many)
                .into_iter()
                .fold(Value::Null, |below, file| {
                    merge_values(below, file.value.clone())
                });
            match merged {
                Value::Null => Config::default(),
                merged => serde_yaml::from_value(merged).map_err(|e| {
                    ToolError::invalid_input(format!("the config files contradict each other: {e}"))
                })?,
            }
        }
    };
    // The following blocks are taken from one file as a whole, so that a provider never gets the key of another file.
    let ascending = by_precedence(files);
    let last = |sets: fn(&Config) -> bool| ascending.iter().rfind(|file| sets(&file.config));
    if let Some(file) = last(|config| config.web_search.is_some()) {
        config.web_search.clone_from(&file.config.web_search);
    }
    if let Some(file) = last(|config| config.embeddings.is_some()) {
        config.embeddings.clone_from(&file.config.embeddings);
    }
    if let Some(file) = last(|config| config.telemetry.is_some()) {
        config.telemetry.clone_from(&file.config.telemetry);
    }
    if let Some(file) = last(|config| config.alerts.is_some()) {
        config.alerts.clone_from(&file.config.alerts);
    }
    if let Some(file) = last(|config| config.cluster.is_some()) {
        config.cluster.clone_from(&file.config.cluster);
    }
    // A project does not decide who answers questions about it, even if a person has accepted its other settings.
    let own = ascending
        .iter()
        .filter(|file| file.owner != ConfigOwner::Project);
    let mut console = own.filter_map(|file| file.config.console.clone());
    config.console = console.next_back();
    if let Some(file) = last(|config| config.browser.is_some()) {
        config.browser.clone_from(&file.config.browser);
    }
    // Roles of one file are in an order that says which of them applies.
    if let Some(file) = last(|config| !config.roles.is_empty()) {
        config.roles.clone_from(&file.config.roles);
    }
    let trust = ascending.iter();
    config.merge_trust(trust.map(|file| (trust_layer(file), &file.config)));
    for (name, provider) in &mut config.providers {
        let blocks = ascending.iter();
        let blocks = blocks.filter_map(|file| file.config.providers.get(name));
        *provider = ProviderSettings::merge(blocks);
    }
    let servers: Vec<_> = ascending.iter().map(|file| &file.config.mcp).collect();
    config.mcp.merge_files(&servers);
    for (name, settings) in &mut config.tools.each {
        settings.deny = union_of_lists(files, |file| {
            file.tools.each.get(name).map(|tool| tool.deny.as_slice())
        });
    }
    if let Some((last, below)) = files.split_last()
        && last.unaccepted
    {
        config.clamp_to(&below_teams(below)?);
    }
    Ok(config)
}

/// Returns the layer of the trust settings of a file that no team owns.
fn trust_layer(file: &ConfigFile) -> TrustLayer {
    match file.owner {
        ConfigOwner::Project => TrustLayer::Project,
        _ => TrustLayer::User,
    }
}

/// Returns the files in ascending precedence. Environment variables override the others.
fn by_precedence(files: &[ConfigFile]) -> Vec<&ConfigFile> {
    let is_environment = |file: &&ConfigFile| file.owner == ConfigOwner::Environment;
    let (environment, others): (Vec<_>, Vec<_>) = files.iter().partition(is_environment);
    others.into_iter().chain(environment).collect()
}

/// Returns true if the file sets `audit.onFailure: refuse` explicitly.
fn sets_refuse(file: &ConfigFile) -> bool {
    file.value["audit"]["onFailure"].as_str() == Some("refuse")
}

/// Returns the union of a list over all files, without duplicates.
fn union_of_lists<'a>(
    files: &'a [ConfigFile],
    list: impl Fn(&'a Config) -> Option<&'a [String]>,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for item in files.iter().filter_map(|file| list(&file.config)).flatten() {
        if !all.contains(item) {
            all.push(item.clone());
        }
    }
    all
}

/// Merges two values: mappings key by key, otherwise `above` replaces `below` unless it is null.
pub fn merge_values(below: Value, above: Value) -> Value {
    match (below, above) {
        (Value::Mapping(mut below), Value::Mapping(above)) => {
            for (key, value) in above {
                let merged = match below.remove(&key) {
                    Some(old) => merge_values(old, value),
                    None => value,
                };
                below.insert(key, merged);
            }
            Value::Mapping(below)
        }
        (below, Value::Null) => below,
        (_, above) => above,
    }
}

/// Returns the policy with the rules of all files.
pub fn policy(settings: &MergedSettings) -> Result<Policy, ToolError> {
    let files = settings.files.iter().map(policy_of_file);
    let files = files.collect::<Result<_, _>>()?;
    Ok(Policy::from_files(&settings.config, files))
}

/// Returns the rules of one file.
pub fn policy_of_file(file: &ConfigFile) -> Result<PolicyFile, ToolError> {
    let ConfigFile {
        config,
        shown,
        text,
        unaccepted,
        unaccepted_text: has_unaccepted_text,
        owner,
        ..
    } = file;
    let text = Arc::clone(text);
    let source = RuleSource::new(shown.as_str(), move || key_lines::key_lines(&text));
    let mut rules = PolicyFile::new(config, source).map_err(|e| policy_error(&e))?;
    if *has_unaccepted_text {
        rules = rules.with_untrusted_text();
    }
    if *unaccepted {
        rules = rules.unaccepted();
    }
    if owner.is_team() {
        rules = rules.as_team().disabling(file.disables.clone());
    }
    if let Some(locations) = &file.covered_teams {
        rules = rules.covering_teams(locations.clone());
    }
    if let Some(outdated) = &file.outdated {
        rules = rules.with_outdated_team(outdated.clone());
    }
    Ok(rules)
}

fn policy_error(error: &PolicyError) -> ToolError {
    ToolError::invalid_input(error)
}
