//! Agent Skills: folders with instructions for a kind of task, and with scripts and documents for it.
//!
//! A skill is used only after a person has added it: the lock file then pins the content of all its files, and the
//! user's own record contains the id of that pin. A skill that came with a checkout, or whose files have changed since,
//! is neither listed for models nor loaded. Scripts of a skill are ordinary files of the workspace: they run in the
//! sandbox of commands or in the engines of `run_code`, with the same questions as any other code. The files of a team's
//! or a deployed skill are written to a folder of mimir in the workspace, so that its scripts run in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use mimir_core::approval::ApprovalStoreError;
use mimir_core::grants::{SkillPin, ToolsLock};
use mimir_core::paths::SHARED_SKILL_FOLDERS;
use mimir_core::skill_grant::{SkillConsent, SkillGrant, SkillPermission};
use mimir_core::text::visible;
use mimir_core::{Policy, ToolError, ToolErrorCode};

use crate::approval_store::{UserApprovalStore, WorkspaceApprovals};
use crate::shared_approvals::SharedApprovalStore;
use crate::teams::TeamInForce;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

mod install;
mod load_skill;
mod skill_archive;
mod skill_artifact;
mod skill_document;
mod skill_files;
mod skill_resources;
mod team_skills;
mod tool_requests;
mod unavailable;

pub use install::{NewSkill, PinnedSkill};
pub use load_skill::LOAD_SKILL;
pub use skill_archive::read_skill_archive;
pub use skill_artifact::{
    PulledSkill, SKILL_ARTIFACT_TYPE, pull_skill, skill_artifact, skill_version,
};
pub use skill_document::{SKILL_FILE, SkillDocument, check_name};
pub use skill_files::{MAX_TOTAL_SIZE, SkillFiles};
pub use skill_resources::SkillResourceSource;
use team_skills::TEAM_FOLDER;
pub use tool_requests::ToolRequest;

/// The folder of installed skills, relative to the workspace root.
pub const FOLDER: &str = ".mimir/skills";

/// Maximum number of skills. The descriptions of all are in the prompt of a model.
const MAX_SKILLS: usize = 100;

/// The skills of a workspace. Files are read at each use, so that changes are noticed.
#[derive(Clone)]
pub struct SkillLibrary {
    user_dirs: UserDirs,
    workspace: WorkspaceFolder,
    teams: Vec<Arc<TeamInForce>>,
    /// The pins that are accepted in the cluster.
    shared: Option<Arc<SharedApprovalStore>>,
    /// The config file that disables the skills of the workspace.
    disabled_by: Option<String>,
}

/// A skill that was found, with its state.
#[derive(Debug, Clone)]
pub struct FoundSkill {
    /// The name of its folder.
    pub name: String,
    /// Its folder, relative to the workspace root; begins with `team:` for the skill of a team.
    pub folder: String,
    /// Its pin in the lock file.
    pub pin: Option<SkillPin>,
    /// True if this user has accepted the pin. Otherwise its source and its signer are claims of the lock file.
    pub is_accepted: bool,
    /// The files and `SKILL.md`, or the reason why the skill is not valid.
    pub content: Result<SkillContent, ToolError>,
    /// Its state.
    pub state: SkillState,
}

/// The content of a valid skill.
#[derive(Debug, Clone)]
pub struct SkillContent {
    /// All files.
    pub files: SkillFiles,
    /// `SKILL.md`.
    pub document: SkillDocument,
}

/// Tells whether a skill can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillState {
    /// A person has accepted the current content. Its instructions are trusted.
    Trusted,
    /// A person has added the current content. Its instructions count as untrusted content.
    Added,
    /// It comes with the bundle of a team, which has accepted the content.
    Team,
    /// No person has added it on this machine.
    New,
    /// A person has added the current content, but the settings disable the skills of the workspace.
    Disabled,
    /// Its files have changed since a person added it.
    Changed,
    /// It is pinned, but its folder is missing.
    Missing,
    /// It breaks a rule of the specification.
    Invalid,
}

impl SkillState {
    /// Returns true if models may load the skill.
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Trusted | Self::Added | Self::Team)
    }

    /// Returns true if the instructions of the skill are those of the user or the team.
    pub const fn is_trusted(self) -> bool {
        matches!(self, Self::Trusted | Self::Team)
    }

    /// Returns the name used in output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Added => "added",
            Self::Team => "team",
            Self::New => "new",
            Self::Disabled => "disabled",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
        }
    }
}

/// A skill that models may load.
#[derive(Debug, Clone)]
pub struct UsableSkill {
    /// The name.
    pub name: String,
    /// The folder, relative to the workspace root; begins with `team:` for the skill of a team.
    pub folder: String,
    /// The files and `SKILL.md`.
    pub content: SkillContent,
    /// True if its instructions are those of the user or the team.
    pub is_trusted: bool,
    /// The permissions while it is in use.
    pub permissions: Vec<SkillPermission>,
    /// The id of its pin. Empty for the skill of a team.
    id: String,
    /// True if its files are outside of the workspace, and copied to it: those of a team's bundle or of a deployment.
    is_copied: bool,
}

impl SkillLibrary {
    /// Creates the library of a workspace. Reads nothing.
    pub fn for_workspace(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Self {
        Self {
            user_dirs: user_dirs.clone(),
            workspace: workspace.clone(),
            teams: Vec::new(),
            shared: None,
            disabled_by: None,
        }
    }

    /// Adds the skills of these teams. They are trusted, because the team has signed them, and have no permissions of
    /// their own.
    #[must_use]
    pub fn with_teams(mut self, teams: &[Arc<TeamInForce>]) -> Self {
        let with_skills = teams.iter().filter(|team| !team.bundle.skills.is_empty());
        self.teams = with_skills.cloned().collect();
        self
    }

    /// Also applies the pins that are accepted or revoked in a cluster.
    #[must_use]
    pub(crate) fn with_shared(mut self, shared: Option<Arc<SharedApprovalStore>>) -> Self {
        self.shared = shared;
        self
    }

    /// Disables the skills of the workspace, because this config file sets `enforcement.disableLocalTools`.
    #[must_use]
    pub fn disable_local(mut self, file: &str) -> Self {
        self.disabled_by = Some(file.to_owned());
        self
    }

    /// Returns true if the workspace or a team may have skills for models. Costs a few system calls, so that workspaces
    /// without skills pay nothing.
    pub fn may_have_skills(&self) -> bool {
        if self.disabled_by.is_some() {
            return !self.teams.is_empty();
        }
        !self.teams.is_empty() || self.has_local_folder()
    }

    /// Returns true if the workspace has a folder for skills.
    fn has_local_folder(&self) -> bool {
        local_folders().any(|folder| self.root_of(folder).join(folder).is_dir())
    }

    /// Finds all skills, sorted by name.
    pub fn find_all(&self) -> Result<Vec<FoundSkill>, ToolError> {
        let consents = SkillConsents::read(self).map_err(ToolError::unavailable)?;
        Ok(self.find_with(&consents, None, false))
    }

    /// Finds the skill `name`.
    pub fn find(&self, name: &str) -> Result<FoundSkill, ToolError> {
        let consents = SkillConsents::read(self).map_err(ToolError::unavailable)?;
        let mut found = self.find_with(&consents, Some(name), false);
        found.pop().ok_or_else(|| {
            let known = self.names(&consents);
            let hint =
                mimir_core::name_suggestions::did_you_mean(name, known.iter().map(String::as_str));
            ToolError::new(
                ToolErrorCode::NotFound,
                format!("the skill `{}` was not found.{hint}", visible(name)),
            )
            .with_remedies(["`mimir skills list` shows the skills of the workspace".to_owned()])
        })
    }

    /// Returns what `map` makes of each skill that models may load. The files of one skill at a time are in memory, and
    /// skills without an accepted pin are not read. An unreadable lock file or record accepts no skill of the workspace.
    pub fn usable_as<T>(&self, map: impl Fn(UsableSkill) -> T) -> Vec<T> {
        if !self.may_have_skills() {
            return Vec::new();
        }
        let consents = SkillConsents::read(self).unwrap_or_else(|error| {
            tracing::warn!(%error, "no skill of the workspace is used");
            SkillConsents::default()
        });
        let names = self.names(&consents).into_iter();
        let skills = names.filter_map(|name| {
            let found = self.find_with(&consents, Some(&name), true);
            found.into_iter().find_map(|found| self.usable(found))
        });
        skills.take(MAX_SKILLS).map(map).collect()
    }

    /// Lets tools read the folders of trusted skills. The copies of teams' skills are compared with the bundle before each
    /// call, because their folders may be missing now.
    pub fn show_in(&self, policy: Policy) -> Policy {
        let policy = policy.with_trusted_skills(self.trusted_folders());
        match self.team_copies() {
            Some(copies) => policy.with_checked_skills(copies),
            None => policy,
        }
    }

    /// Returns the folders of trusted skills of the workspace.
    fn trusted_folders(&self) -> Vec<String> {
        let folders = self.usable_as(|skill| {
            let is_shown = skill.is_trusted && skill.is_in_workspace();
            is_shown.then_some(skill.folder)
        });
        folders.into_iter().flatten().collect()
    }

    /// Returns a line for each skill that is not used any more, because its files have changed since the user accepted
    /// them.
    pub fn warnings(&self) -> Vec<String> {
        if self.disabled_by.is_some() || !self.may_have_skills() {
            return Vec::new();
        }
        // An unreadable lock file is reported with the grants.
        let Ok(consents) = SkillConsents::read(self) else {
            return Vec::new();
        };
        let names = self.names(&consents).into_iter();
        let accepted = names.filter(|name| consents.was_accepted(name));
        let changed = accepted.filter(|name| {
            let found = self.find_with(&consents, Some(name), false);
            found.iter().any(|skill| skill.state == SkillState::Changed)
        });
        let lines = changed.map(|name| {
            format!("the skill {name} is not used, because its files have changed since you accepted them; `mimir skills trust {name}` shows and accepts them")
        });
        lines.collect()
    }

    /// Returns the skill `name` if models may load it now.
    pub fn usable_skill(&self, name: &str) -> Result<UsableSkill, ToolError> {
        let found = self.find(name)?;
        let (state, content) = (found.state, found.content.as_ref().err().cloned());
        if let Some(skill) = self.usable(found) {
            return Ok(skill);
        }
        let why = match state {
            SkillState::Disabled => {
                let by = visible(self.disabled_by.as_deref().unwrap_or("the config"));
                let message = format!(
                    "the skill `{}` cannot be used: {by} sets `enforcement.disableLocalTools`",
                    visible(name)
                );
                return Err(ToolError::new(ToolErrorCode::PolicyDenied, message));
            }
            SkillState::Changed => "its files have changed since it was accepted",
            SkillState::Missing => "its folder is missing",
            SkillState::Invalid => {
                return Err(
                    content.unwrap_or_else(|| ToolError::invalid_input("the skill is not valid"))
                );
            }
            _ => "no person has added it on this machine",
        };
        let message = format!("the skill `{}` cannot be used: {why}", visible(name));
        let remedy =
            format!("`mimir skills trust {name}` shows it and asks; it is for a person to run");
        Err(ToolError::permission_denied(message).with_remedies([remedy]))
    }

    /// Returns the names of all skills, sorted. Reads no skill.
    fn names(&self, consents: &SkillConsents) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = local_folders()
            .flat_map(|folder| folder_names(&self.root_of(folder).join(folder)))
            .collect();
        names.extend(consents.lock.skills.keys().cloned());
        let bundled = self.teams.iter().flat_map(|team| &team.bundle.skills);
        let bundled = bundled.filter_map(|file| file.path.split_once('/'));
        names.extend(bundled.map(|(name, _)| name.to_owned()));
        names
    }

    /// Reads all skills or `only` this one, sorted by name. With `accepted`, skills of the workspace whose pin this user
    /// has not accepted are left out.
    fn find_with(
        &self,
        consents: &SkillConsents,
        only: Option<&str>,
        accepted: bool,
    ) -> Vec<FoundSkill> {
        let is_named = |name: &str| only.is_none_or(|only| only == name);
        let is_accepted = |name: &str| {
            let pin = consents.lock.skills.get(name);
            pin.is_some_and(|pin| consents.accepts(name, pin))
        };
        let is_wanted = |name: &str| is_named(name) && (!accepted || is_accepted(name));
        let mut skills: BTreeMap<String, FoundSkill> = BTreeMap::new();
        for folder in local_folders() {
            for name in folder_names(&self.root_of(folder).join(folder)) {
                if !is_wanted(&name) || skills.contains_key(&name) || skills.len() >= MAX_SKILLS {
                    continue;
                }
                let folder = format!("{folder}/{name}");
                skills.insert(name.clone(), self.found(&name, folder, consents));
            }
        }
        for (name, pin) in &consents.lock.skills {
            if is_wanted(name) && !skills.contains_key(name) && skills.len() < MAX_SKILLS {
                let error = ToolError::not_found(format!("{} is missing", visible(&pin.folder)));
                skills.insert(
                    name.clone(),
                    FoundSkill {
                        name: name.clone(),
                        folder: pin.folder.clone(),
                        is_accepted: consents.accepts(name, pin),
                        pin: Some(pin.clone()),
                        content: Err(error),
                        state: SkillState::Missing,
                    },
                );
            }
        }
        // Skills of a team take precedence: a checkout cannot replace them.
        for team in &self.teams {
            for skill in team_skills::team_skills(team, is_named) {
                skills.insert(skill.name.clone(), skill);
            }
        }
        skills.into_values().collect()
    }

    /// Reads a skill of the workspace, and compares it with its pin and the user's consent.
    fn found(&self, name: &str, folder: String, consents: &SkillConsents) -> FoundSkill {
        let content = SkillFiles::read(self.root_of(&folder), &folder)
            .and_then(|files| SkillContent::new(files, name));
        let pin = consents.lock.skills.get(name);
        let pin = pin.filter(|pin| pin.folder == folder).cloned();
        let state = match (&content, &pin) {
            (Err(_), Some(_)) if consents.was_accepted(name) => SkillState::Changed,
            (Err(_), _) => SkillState::Invalid,
            (Ok(_), None) => SkillState::New,
            (Ok(content), Some(pin)) if !consents.accepts(name, pin) => {
                let same = pin.digest == content.files.digest();
                match consents.was_accepted(name) && !same {
                    true => SkillState::Changed,
                    false => SkillState::New,
                }
            }
            (Ok(content), Some(pin)) if pin.digest != content.files.digest() => SkillState::Changed,
            (Ok(_), Some(_)) if self.disabled_by.is_some() => SkillState::Disabled,
            (Ok(_), Some(pin)) if pin.trusted => SkillState::Trusted,
            (Ok(_), Some(_)) => SkillState::Added,
        };
        FoundSkill {
            name: name.to_owned(),
            is_accepted: (pin.as_ref()).is_some_and(|pin| consents.accepts(name, pin)),
            folder,
            pin,
            content,
            state,
        }
    }

    /// Returns the root that a folder for skills is below: that of the deployment for installed skills, if the workspace
    /// has one.
    fn root_of(&self, folder: &str) -> &Path {
        match is_installed_folder(folder) {
            true => self.workspace.settings_root(),
            false => self.workspace.root(),
        }
    }

    /// Returns a skill that models may load, if this one may be.
    fn usable(&self, found: FoundSkill) -> Option<UsableSkill> {
        let is_deployed =
            self.workspace.deployment().is_some() && is_installed_folder(&found.folder);
        UsableSkill::from_found(found, is_deployed)
    }

    fn approval_store(&self) -> Option<UserApprovalStore> {
        UserApprovalStore::new(&self.user_dirs, &self.workspace)
    }
}

impl FoundSkill {
    /// Returns true if a person has accepted its current content, even if the settings disable it.
    pub fn is_current(&self) -> bool {
        matches!(
            self.state,
            SkillState::Trusted | SkillState::Added | SkillState::Disabled
        )
    }
}

impl SkillContent {
    /// Checks the files of the skill `name`.
    pub fn new(files: SkillFiles, name: &str) -> Result<Self, ToolError> {
        let document = files.document()?;
        if document.name != name {
            return Err(ToolError::invalid_input(format!(
                "the folder is named `{}`, but the `name` in {SKILL_FILE} is `{}`: they must be equal",
                visible(name),
                document.name
            )));
        }
        Ok(Self { files, document })
    }

    /// Returns the requests in `allowed-tools`.
    pub fn requests(&self) -> Vec<ToolRequest> {
        ToolRequest::from_entries(&self.document.allowed_tools)
    }
}

impl UsableSkill {
    fn from_found(found: FoundSkill, is_deployed: bool) -> Option<Self> {
        if !found.state.is_usable() {
            return None;
        }
        let content = found.content.ok()?;
        let id = match &found.pin {
            Some(pin) => pin.id(&found.name),
            None => String::new(),
        };
        let granted: BTreeSet<&String> = match &found.pin {
            Some(pin) if pin.trusted => pin.allowed_tools.iter().collect(),
            _ => BTreeSet::new(),
        };
        let requests = content.requests().into_iter();
        let permissions = requests
            .filter(|request| granted.contains(&request.entry))
            .filter_map(|request| request.permission.ok())
            .collect();
        Some(Self {
            is_copied: is_deployed || found.state == SkillState::Team,
            is_trusted: found.state.is_trusted(),
            name: found.name,
            folder: found.folder,
            content,
            permissions,
            id,
        })
    }

    /// Returns true if its folder is one of the workspace. Tools can read it there if the skill is trusted.
    fn is_in_workspace(&self) -> bool {
        !self.is_copied
    }

    /// Returns the folder in which tools can read the files of the skill, once they are written.
    fn script_folder(&self) -> String {
        match self.is_copied {
            true => format!("{TEAM_FOLDER}/{}", self.name),
            false => self.folder.clone(),
        }
    }

    /// Returns the permissions for a session that uses the skill.
    fn grant(&self, library: &SkillLibrary) -> SkillGrant {
        SkillGrant {
            skill: self.name.clone(),
            folder: self.script_folder(),
            permissions: self.permissions.clone(),
            consent: Arc::new(PinnedConsent {
                library: library.clone(),
                name: self.name.clone(),
                id: self.id.clone(),
            }),
        }
    }
}

/// The consent to one pin of a skill.
struct PinnedConsent {
    library: SkillLibrary,
    name: String,
    id: String,
}

impl SkillConsent for PinnedConsent {
    fn is_in_force(&self) -> bool {
        let skill = self.library.usable_skill(&self.name);
        skill.is_ok_and(|skill| skill.id == self.id)
    }
}

/// The pins of the lock file, and this user's record of consents.
#[derive(Default)]
struct SkillConsents {
    lock: ToolsLock,
    approvals: WorkspaceApprovals,
}

impl SkillConsents {
    fn read(library: &SkillLibrary) -> Result<Self, ApprovalStoreError> {
        let Some(store) = library.approval_store() else {
            return Ok(Self::default());
        };
        let (mut lock, mut approvals) = (store.lock().read()?, store.read()?);
        if let Some(shared) = &library.shared {
            shared.apply_skills(&mut lock, &mut approvals.grants)?;
        }
        Ok(Self { lock, approvals })
    }

    fn accepts(&self, name: &str, pin: &SkillPin) -> bool {
        let recorded = self.approvals.grants.get(&consent_key(name));
        recorded.is_some_and(|recorded| *recorded == pin.id(name))
    }

    /// Returns true if this user has accepted some content of the skill.
    fn was_accepted(&self, name: &str) -> bool {
        self.approvals.grants.contains_key(&consent_key(name))
    }
}

/// The key of a skill in the user's record of consents. No location of a plugin has this form.
pub(crate) fn consent_key(name: &str) -> String {
    format!("skill:{name}")
}

/// Returns true for the folder of installed skills, and folders below it.
fn is_installed_folder(folder: &str) -> bool {
    let below = folder.strip_prefix(FOLDER);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Returns the folders of the workspace in which mimir finds skills, in order of precedence.
fn local_folders() -> impl Iterator<Item = &'static str> {
    [FOLDER].into_iter().chain(SHARED_SKILL_FOLDERS)
}

/// Returns the names of the folders in `folder` that are valid names of skills, sorted. Fails silently, because the
/// folder may be missing.
fn folder_names(folder: &std::path::Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name().into_string().ok()?;
        (is_folder && check_name(&name).is_ok()).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.truncate(MAX_SKILLS);
    names
}

#[cfg(test)]
mod tests;
