//! A verified bundle that is in force: its layer of settings, its tools and files, and its age.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use mimir_core::config::Config;
use mimir_core::grants::ToolsLock;
use mimir_core::name_suggestions::snake;
use mimir_core::policy::{EnforcedTools, OutdatedTeam};
use mimir_core::registry::Quarantined;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::OciDigest;
use mimir_registry::team::{BundledFile, TeamBundle, TeamFault};
use mimir_wasm::{Sha256Digest, TeamComponent};

use super::membership::TeamMembership;
use super::team_store::{StoredTeam, TeamStore, has_size};
use crate::settings::{ConfigFile, ConfigLocation, ConfigOwner};
use crate::user_dirs::UserDirs;

/// Begin of the locations of all teams' tools.
pub const LOCATION_PREFIX: &str = "team:";

/// Difference of a check in the future that is explained by an adjusted clock.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(10);

/// A team whose bundle is in force.
#[derive(Debug, Clone)]
pub struct TeamInForce {
    /// The membership.
    pub membership: TeamMembership,
    /// The bundle.
    pub bundle: Arc<TeamBundle>,
    /// Digest of the envelope.
    pub digest: OciDigest,
    /// Id of the key that signed it.
    pub signer_id: String,
    /// The time of the last successful check.
    pub checked_at: Timestamp,
    /// The fault of the last check, if it failed.
    pub last_fault: Option<TeamFault>,
    store: TeamStore,
}

impl TeamInForce {
    /// Reads and verifies the stored bundle of a membership.
    ///
    /// # Errors
    /// No bundle is stored, or it is damaged.
    pub fn read(user_dirs: &UserDirs, membership: TeamMembership) -> Result<Self, ToolError> {
        let store = TeamStore::new(user_dirs, &membership.org_id)?;
        let StoredTeam { accepted, record } = store.load(&membership)?;
        Ok(Self {
            signer_id: accepted.signer.id(),
            digest: accepted.digest,
            bundle: Arc::new(accepted.bundle),
            checked_at: record.checked_at,
            last_fault: record.last_fault,
            membership,
            store,
        })
    }

    /// Returns the name of the team in messages and as a layer of the settings.
    pub fn shown(&self) -> String {
        format!("team {}", self.bundle.team.name)
    }

    /// Returns the store of the bundle.
    pub fn store(&self) -> &TeamStore {
        &self.store
    }

    /// Returns the begin of the locations of this team's tools.
    pub fn location_prefix(&self) -> String {
        format!("{LOCATION_PREFIX}{}/", self.membership.org_id)
    }

    /// Returns why the bundle is too old; `None` if it is not.
    pub fn outdated(&self, now: Timestamp) -> Option<OutdatedTeam> {
        let (shown, checked) = (self.shown(), self.checked_at);
        let (limit, why, remedy) = if now >= self.bundle.expires_at {
            let why = format!("its bundle has expired at {}", self.bundle.expires_at);
            let remedy = OutdatedTeam::RENEWAL;
            (OutdatedTeam::EXPIRY.to_owned(), why, remedy)
        } else if checked > now.checked_add(CLOCK_TOLERANCE).unwrap_or(now) {
            let why = format!(
                "its bundle was last checked at {checked}, but the clock of this machine says {now}: it was set back"
            );
            let remedy = OutdatedTeam::CLOCK;
            (OutdatedTeam::MAX_AGE.to_owned(), why, remedy)
        } else if now >= self.latest_check() {
            let hours = self.membership.max_age.as_hours();
            let why = format!(
                "its bundle was last checked at {checked}, and {} allows {hours} h (`teams.maxAgeHours`)",
                self.membership.shown
            );
            let remedy = OutdatedTeam::CHECK;
            (format!("{}: {hours}", OutdatedTeam::MAX_AGE), why, remedy)
        } else {
            return None;
        };
        Some(OutdatedTeam {
            locations: self.location_prefix(),
            limit,
            text: format!("{shown}: {why}, so its tools are refused; {remedy}"),
        })
    }

    /// Returns why the bundle is too old now; `None` if it is not.
    pub fn outdated_now(&self) -> Option<OutdatedTeam> {
        self.outdated(now())
    }

    /// Returns the time until which the bundle is not too old.
    pub fn deadline(&self) -> Timestamp {
        self.latest_check().min(self.bundle.expires_at)
    }

    fn latest_check(&self) -> Timestamp {
        let latest = self.checked_at.checked_add(self.membership.max_age);
        latest.unwrap_or(Timestamp::MAX)
    }

    /// Returns the team's settings as a config file.
    ///
    /// # Errors
    /// The settings are not valid for this release.
    pub(crate) fn config_file(&self, now: Timestamp) -> Result<ConfigFile, ToolError> {
        let mut file = parse_settings(&self.bundle, self.store.folder().join("config.yml"))?;
        file.outdated = self.outdated(now);
        file.disables = EnforcedTools::At(self.location_prefix());
        Ok(file)
    }

    /// Returns the components of the team's tools, and those that cannot be loaded, with the reasons.
    pub fn components(&self) -> (Vec<TeamComponent>, Vec<Quarantined>) {
        let (mut components, mut quarantined) = (Vec::new(), Vec::new());
        if !self.membership.shared_tools {
            return (components, quarantined);
        }
        for tool in &self.bundle.tools {
            let location = format!("{}{}", self.location_prefix(), tool.file);
            let file = self.store.blob(&tool.digest);
            if has_size(&file, tool.size) {
                components.push(TeamComponent {
                    file,
                    stem: tool.file.trim_end_matches(".wasm").to_owned(),
                    location,
                    digest: Sha256Digest(*tool.digest.as_bytes()),
                    enforced: tool.enforced,
                });
            } else {
                quarantined.push(Quarantined {
                    location,
                    code: ToolErrorCode::Unavailable,
                    reason: format!(
                        "the component of {} is missing or damaged; `mimir team sync` fetches it again",
                        self.shown()
                    ),
                });
            }
        }
        (components, quarantined)
    }

    /// Returns the grants of the team's tools, in the form of a lock file.
    pub fn grants(&self) -> ToolsLock {
        let tools = self.bundle.tools.iter();
        let granted = tools.filter_map(|tool| {
            let location = format!("{}{}", self.location_prefix(), tool.file);
            Some((location, tool.grant.clone()?))
        });
        ToolsLock {
            plugins: granted.collect(),
            ..ToolsLock::default()
        }
    }

    /// Returns the names of the team's tools with the location of each, as far as they are known without the components:
    /// those of the grants, else the name of the file.
    pub fn tool_names(&self) -> Vec<(String, String)> {
        if !self.membership.shared_tools {
            return Vec::new();
        }
        let names = self.bundle.tools.iter().flat_map(|tool| {
            let location = format!("{}{}", self.location_prefix(), tool.file);
            let stem = tool.file.trim_end_matches(".wasm");
            let names: Vec<String> = match &tool.grant {
                Some(grant) => grant.tools.keys().cloned().collect(),
                None => vec![stem.to_owned(), snake(stem)],
            };
            names.into_iter().map(move |name| (name, location.clone()))
        });
        names.collect()
    }

    /// Reads a file of the bundle as text.
    ///
    /// # Errors
    /// The file is missing, damaged or not UTF-8.
    pub fn read_text(&self, file: &BundledFile) -> Result<String, ToolError> {
        let bytes = self.store.read_file(file)?;
        String::from_utf8(bytes).map_err(|_| {
            let message = format!("{}: {} is not UTF-8", self.shown(), file.path);
            ToolError::invalid_input(message)
        })
    }
}

/// Converts a time of the system for comparisons.
pub(super) fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::MAX)
}

/// Returns what a bundle enforces, one line each, for the person who joins.
///
/// # Errors
/// The settings of the bundle are not valid.
pub fn enforced_lines(bundle: &TeamBundle) -> Result<Vec<String>, ToolError> {
    let mut lines = enforced_settings_lines(bundle)?;
    let enforced = bundle.tools.iter().filter(|tool| tool.enforced);
    lines.extend(enforced.map(|tool| format!("{} cannot be disabled", tool.file)));
    Ok(lines)
}

/// Returns what the settings of a bundle enforce, without its tools, one line each.
///
/// # Errors
/// The settings of the bundle are not valid.
pub fn enforced_settings_lines(bundle: &TeamBundle) -> Result<Vec<String>, ToolError> {
    let file = parse_settings(bundle, std::path::PathBuf::from("config.yml"))?;
    let enforcement = &file.config.enforcement;
    let mut lines = Vec::new();
    if enforcement.disable_local_tools {
        lines.push("custom tools, workers and skills of your workspaces are not loaded".to_owned());
    }
    if enforcement.require_signature {
        lines.push("custom tools need a trusted signature".to_owned());
    }
    for (what, only) in [
        ("tools", &enforcement.allow_tools),
        ("models", &enforcement.models),
    ] {
        if !only.is_empty() {
            lines.push(format!(
                "only these {what} can be used: {}",
                only.join(", ")
            ));
        }
    }
    if let Some(mode) = file.config.sandbox.mode {
        let mode = serde_json::to_value(mode).unwrap_or_default();
        let mode = mode.as_str().unwrap_or_default();
        lines.push(format!("commands run in the sandbox `{mode}`"));
    }
    // With values, because a default value can also replace a stricter one of the member.
    let audit = file.config.audit.values().into_iter();
    let audit = audit.filter(|(key, _)| file.sets(key));
    lines.extend(audit.map(|(key, value)| format!("`{key}: {value}`, above your own")));
    for key in ["limits", "network", "policy", "trust"] {
        if file.sets(key) {
            lines.push(format!("`{key}` of its settings, above your own"));
        }
    }
    Ok(lines)
}

/// Returns the keys in a bundle's settings that allow or add something, such as servers, secrets, providers, mounts and
/// `allow`, one line each.
///
/// # Errors
/// The settings of the bundle are not valid.
pub fn allowed_lines(bundle: &TeamBundle) -> Result<Vec<String>, ToolError> {
    let file = parse_settings(bundle, std::path::PathBuf::from("config.yml"))?;
    let sets = |key: &str| file.sets(key);
    let mut lines = file.config.weakening_keys(&Config::default(), sets);
    for (name, provider) in &file.config.providers {
        if let Some(url) = &provider.url {
            let key = format!("providers.{name}");
            if let Some(line) = lines.iter_mut().find(|line| **line == key) {
                *line = format!("{key}: {url}");
            }
        }
    }
    Ok(lines)
}

/// Checks that the settings of a bundle are valid and contain only what a team can set.
///
/// # Errors
/// The text is no config file of this release, or it joins other teams.
pub(crate) fn check_team_settings(bundle: &TeamBundle) -> Result<(), ToolError> {
    let file = parse_settings(bundle, std::path::PathBuf::from("config.yml"))?;
    file.check_rules()?;
    super::memberships(&[file]).map(drop)
}

fn parse_settings(bundle: &TeamBundle, path: std::path::PathBuf) -> Result<ConfigFile, ToolError> {
    let location = ConfigLocation {
        path,
        shown: format!("team {}", bundle.team.name),
        owner: ConfigOwner::JoinedTeam,
    };
    let mut file = ConfigFile::parse(location, &bundle.settings)?;
    // The list of the bundle applies like one in its settings.
    let models = bundle.models.iter().cloned();
    file.config.enforcement.models.extend(models);
    Ok(file)
}
