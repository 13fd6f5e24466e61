//! Skills in the bundles of teams and in deployments. Their files are in the user's own folder; a copy in the workspace,
//! compared with them at each load of the skill and before each call, lets commands and engines run their scripts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::policy::CheckedSkillFolders;
use mimir_core::{ToolError, files};
use mimir_registry::team::BundledFile;

use super::skill_files::{SkillFiles, SkillFilesState};
use super::{FoundSkill, MAX_SKILLS, SkillContent, SkillLibrary, SkillState, UsableSkill};
use crate::file_error::file_error;
use crate::private_files;
use crate::teams::TeamInForce;

/// The folder with the copies, relative to the workspace root. No tool can change it, and its skills are hidden unless
/// they are those of a current bundle.
pub(super) const TEAM_FOLDER: &str = ".mimir/team-skills";

impl SkillLibrary {
    /// Writes the files of a team's or deployed skill to the workspace, unless they are there already, and returns their folder. Files
    /// that differ from the bundle are replaced.
    pub(super) fn write_team_skill(&self, skill: &UsableSkill) -> Result<String, ToolError> {
        let folder = format!("{TEAM_FOLDER}/{}", skill.name);
        let root = self.workspace.root();
        let target = root.join(&folder);
        self.workspace.check_no_links(&target)?;
        let expected = skill.content.files.state();
        let is_current = || {
            let found = SkillFiles::read(root, &folder);
            found.is_ok_and(|found| expected.is_met_by(&found))
        };
        if is_current() {
            return Ok(folder);
        }
        let parent = root.join(TEAM_FOLDER);
        std::fs::create_dir_all(&parent)
            .and_then(|()| files::ignore(&parent))
            .map_err(|error| file_error("create", &parent, &error))?;
        // Another process that finds the same difference must not replace what this one has compared.
        let lock = parent.join(format!(".{}", skill.name));
        let lock = private_files::lock_for_change(&lock)
            .map_err(|error| file_error("lock", &target, &error))?;
        if !is_current() {
            remove_aside(&parent, &target)?;
            skill.content.files.write(&target)?;
        }
        drop(lock);
        Ok(folder)
    }

    /// Returns the copies in the workspace of trusted skills of teams and the deployment, which are compared at each call;
    /// `None` without any.
    pub(super) fn team_copies(&self) -> Option<Arc<dyn CheckedSkillFolders>> {
        if self.teams.is_empty() && self.workspace.deployment().is_none() {
            return None;
        }
        let skills = self.usable_as(|skill| {
            let state = skill.content.files.state();
            let is_copied = skill.is_trusted && !skill.is_in_workspace();
            is_copied.then_some((skill.name, state))
        });
        let skills: Vec<_> = skills.into_iter().flatten().collect();
        if skills.is_empty() {
            return None;
        }
        Some(Arc::new(TeamSkillCopies {
            library: self.clone(),
            skills,
        }))
    }
}

/// Moves whatever is at `target` aside and removes it. It is never moved back: it is not the skill of the team.
fn remove_aside(parent: &Path, target: &Path) -> Result<(), ToolError> {
    if std::fs::symlink_metadata(target).is_err() {
        return Ok(());
    }
    let failed = |error| file_error("replace", target, &error);
    let aside = tempfile::Builder::new()
        .prefix(".old-skill-")
        .tempdir_in(parent)
        .map_err(failed)?;
    std::fs::rename(target, aside.path().join("skill")).map_err(failed)
}

/// The copies of skills, and what they must contain.
struct TeamSkillCopies {
    library: SkillLibrary,
    skills: Vec<(String, SkillFilesState)>,
}

impl TeamSkillCopies {
    /// Returns the folder of a copy that equals the bundle. One that differs is replaced. `None` if it does not exist:
    /// it is written when the skill is loaded.
    fn checked_folder(&self, name: &str, expected: &SkillFilesState) -> Option<String> {
        let folder = format!("{TEAM_FOLDER}/{name}");
        let root = self.library.workspace.root();
        std::fs::symlink_metadata(root.join(&folder)).ok()?;
        let found = SkillFiles::read(root, &folder);
        if found.is_ok_and(|found| expected.is_met_by(&found)) {
            return Some(folder);
        }
        let written = self.library.usable_skill(name).and_then(|skill| {
            let is_same = skill.is_trusted
                && !skill.is_in_workspace()
                && skill.content.files.state() == *expected;
            match is_same {
                true => self.library.write_team_skill(&skill),
                false => Err(ToolError::permission_denied("the skill has changed")),
            }
        });
        match written {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::warn!(%error, skill = name, "the copy of a team's skill stays hidden");
                None
            }
        }
    }
}

impl CheckedSkillFolders for TeamSkillCopies {
    fn folders(&self) -> Vec<String> {
        let skills = self.skills.iter();
        skills
            .filter_map(|(name, expected)| self.checked_folder(name, expected))
            .collect()
    }
}

/// Reads the skills in the bundle of a team, unless the bundle is too old. Invalid ones are left out.
pub(super) fn team_skills(team: &TeamInForce, is_named: impl Fn(&str) -> bool) -> Vec<FoundSkill> {
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::MAX);
    if team.outdated(now).is_some() {
        return Vec::new();
    }
    let mut by_name: BTreeMap<&str, Vec<(&str, &BundledFile)>> = BTreeMap::new();
    for file in &team.bundle.skills {
        if let Some((name, path)) = file.path.split_once('/') {
            by_name.entry(name).or_default().push((path, file));
        }
    }
    let skills = by_name
        .into_iter()
        .take(MAX_SKILLS)
        .filter(|(name, _)| is_named(name))
        .filter_map(|(name, bundled)| match team_content(team, name, &bundled) {
            Ok(content) => Some(FoundSkill {
                name: name.to_owned(),
                folder: format!("{}skills/{name}", team.location_prefix()),
                pin: None,
                is_accepted: false,
                content: Ok(content),
                state: SkillState::Team,
            }),
            Err(error) => {
                tracing::warn!(%error, name, "a skill of the team is left out");
                None
            }
        });
    skills.collect()
}

fn team_content(
    team: &TeamInForce,
    name: &str,
    bundled: &[(&str, &BundledFile)],
) -> Result<SkillContent, ToolError> {
    let mut files = SkillFiles::default();
    for (path, file) in bundled {
        files.check_room(path, file.size)?;
        files.insert(path, team.store().read_file(file)?)?;
    }
    SkillContent::new(files, name)
}
