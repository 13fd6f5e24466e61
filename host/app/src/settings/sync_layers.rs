//! The settings for fetching bundles of teams, without the file of the project.

use mimir_core::ToolError;

use super::{
    ConfigFile, ConfigLocation, ConfigOwner, MergedSettings, environment, mask_secrets, merge,
};
use crate::servers::control::ServerControl;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

impl MergedSettings {
    /// Reads the settings of administrators, the user and the environment variables, without bundles. A project's file,
    /// even one that is not valid, must not keep the newer rules of a team away.
    pub fn read_for_sync(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Result<Self, ToolError> {
        let found = find(user_dirs, workspace);
        found.map_err(|error| mask_secrets(error, Some(user_dirs)))
    }
}

fn find(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Result<MergedSettings, ToolError> {
    let mut files = Vec::new();
    let locations = ConfigLocation::all_locations(user_dirs, workspace).into_iter();
    for location in locations.filter(|location| location.owner != ConfigOwner::Project) {
        files.extend(ConfigFile::read(location)?);
    }
    for file in files.iter().filter(|file| file.owner.is_team()) {
        merge::policy_of_file(file)?;
    }
    files.extend(environment::read(&user_dirs.variables)?);
    let mut settings = MergedSettings {
        config: merge::merge_layers(&files)?,
        files,
        server_control: ServerControl::read_or_warn(user_dirs, workspace),
        ..MergedSettings::default()
    };
    settings.server_control.apply(&mut settings.config.mcp);
    Ok(settings)
}
