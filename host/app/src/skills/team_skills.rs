//! Skills in the bundles of teams. Their files are in the user's own store of teams; a copy in the workspace, compared
//! with the bundle at each start and at each load, lets commands and engines run their scripts.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::{ToolError, files};
use mimir_registry::team::BundledFile;

use super::install::replace_folder;
use super::skill_files::SkillFiles;
use super::{FoundSkill, MAX_SKILLS, SkillContent, SkillLibrary, SkillState, UsableSkill};
use crate::file_error::file_error;
use crate::teams::TeamInForce;

/// The folder with the copies, relative to the workspace root. No tool can change it, and its skills are hidden unless
/// they are those of a current bundle.
const TEAM_FOLDER: &str = ".mimir/team-skills";

impl SkillLibrary {
    /// Returns the folder of a team's skill in the workspace, or `None` if its files differ from the bundle and cannot
    /// be replaced. The folder may be missing until the skill is loaded.
    pub(super) fn checked_team_folder(&self, skill: &UsableSkill) -> Option<String> {
        let folder = format!("{TEAM_FOLDER}/{}", skill.name);
        let path = self.workspace.root().join(&folder);
        if std::fs::symlink_metadata(&path).is_err() {
            return Some(folder);
        }
        match self.write_team_skill(skill) {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::warn!(%error, skill = skill.name, "the copy of a team's skill stays hidden");
                None
            }
        }
    }

    /// Writes the files of a team's skill to the workspace, unless they are there already, and returns their folder. Files
    /// that differ from the bundle are replaced.
    pub(super) fn write_team_skill(&self, skill: &UsableSkill) -> Result<String, ToolError> {
        let folder = format!("{TEAM_FOLDER}/{}", skill.name);
        let root = self.workspace.root();
        let target = root.join(&folder);
        self.workspace.check_no_links(&target)?;
        let digest = skill.content.files.digest();
        let is_current = || {
            let found = SkillFiles::read(root, &folder);
            found.is_ok_and(|found| found.digest() == digest)
        };
        if is_current() {
            return Ok(folder);
        }
        let parent = root.join(TEAM_FOLDER);
        std::fs::create_dir_all(&parent)
            .and_then(|()| files::ignore(&parent))
            .map_err(|error| file_error("create", &parent, &error))?;
        let written = if std::fs::symlink_metadata(&target).is_ok() {
            replace_folder(&target, |target| skill.content.files.write(target))
        } else {
            skill.content.files.write(&target)
        };
        match written {
            // Another process may have written the same files.
            Err(error) if !is_current() => Err(error),
            _ => Ok(folder),
        }
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
