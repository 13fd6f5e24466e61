//! Settings of users and projects that a team's file replaces.

use mimir_core::config::Config;

use super::{ConfigFile, MergedSettings};

/// The keys of which a team's value replaces that of other files as a whole.
const REPLACED_KEYS: [&str; 26] = [
    "profile",
    "toolDiscovery",
    "toolDiscoveryTokens",
    "tools.autoLoadCustomTools",
    "tools.showTokenCosts",
    "tools.tokenPrice",
    "audit.durability",
    "audit.logArgs",
    "audit.maxBytes",
    "audit.keep",
    "webSearch",
    "embeddings",
    "telemetry",
    "alerts",
    "cluster",
    "console",
    "browser",
    "roles",
    "model",
    "mcp.registry",
    "mcp.marks",
    "sandbox.mode",
    "sandbox.image",
    "sandbox.socket",
    "sandbox.bindMounts",
    "sandbox.networkAccess",
];

impl MergedSettings {
    /// Finds settings of users and projects without effect, because a team's file sets the same key. Returns one line for
    /// each, with the file and the team.
    pub fn overridden_by_teams(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for file in self.files.iter().filter(|file| !file.owner.is_team()) {
            for team in self.team() {
                for key in replaced_keys(file, team) {
                    let place = file.place_of(&key);
                    let line = format!("{place}: {key} changes nothing: {} sets it.", team.shown);
                    // The first team's file is the strongest.
                    let begin = format!("{place}: {key} ");
                    if !lines.iter().any(|known: &String| known.starts_with(&begin)) {
                        lines.push(line);
                    }
                }
            }
        }
        lines
    }
}

/// Returns the keys of a file that a team's file replaces.
fn replaced_keys(file: &ConfigFile, team: &ConfigFile) -> Vec<String> {
    let replaced = REPLACED_KEYS.iter();
    let replaced = replaced.filter(|key| team.sets(key) && file.sets(key));
    let mut keys: Vec<String> = replaced.map(|key| (*key).to_owned()).collect();
    let of_team = named_entries(&team.config);
    let own = named_entries(&file.config).into_iter();
    keys.extend(own.filter(|key| of_team.contains(key)));
    keys
}

/// Returns the keys of entries that a team's entry of the same name replaces.
fn named_entries(config: &Config) -> Vec<String> {
    let providers = config.providers.keys().map(|name| ("providers", name));
    let servers = config.mcp.servers.keys().map(|name| ("mcp.servers", name));
    let secrets = config.secrets.keys().map(|name| ("secrets", name));
    let all = providers.chain(servers).chain(secrets);
    all.map(|(block, name)| format!("{block}.{name}")).collect()
}
