//! The files of the user and the workspace, which may be replaced by their last valid content.

use mimir_core::ToolError;

use super::{ConfigFile, ConfigLocation, ConfigOwner, environment, merge};
use crate::teams;
use crate::user_dirs::UserDirs;

/// The origin of the files of the user and the workspace. Files of teams are always read.
#[derive(Clone, Copy)]
pub(super) enum LowerFiles<'a> {
    /// The current files.
    Current,
    /// The current files, and of those that are not valid the last valid ones.
    CurrentOr(&'a [ConfigFile]),
    /// These files.
    Of(&'a [ConfigFile]),
}

impl LowerFiles<'_> {
    /// Returns the file of a location; `None` if it does not exist.
    pub(super) fn read(self, location: ConfigLocation) -> Result<Option<ConfigFile>, ToolError> {
        if location.owner.is_team() {
            return ConfigFile::read(location);
        }
        let known = |files: &[ConfigFile]| {
            let mut files = files.iter();
            files.find(|file| file.path == location.path).cloned()
        };
        match self {
            Self::Current => ConfigFile::read(location),
            Self::Of(files) => Ok(known(files)),
            Self::CurrentOr(files) => {
                let last_valid = known(files);
                let current = ConfigFile::read(location);
                Ok(current.and_then(check).unwrap_or(last_valid))
            }
        }
    }

    /// Returns the settings of environment variables.
    pub(super) fn variables(self, user_dirs: &UserDirs) -> Result<Option<ConfigFile>, ToolError> {
        match self {
            Self::Current | Self::CurrentOr(_) => environment::read(&user_dirs.variables),
            Self::Of(files) => {
                let mut files = files.iter();
                let file = files.find(|file| file.owner == ConfigOwner::Environment);
                Ok(file.cloned())
            }
        }
    }
}

/// Checks the parts of a file that are otherwise checked together with those of other files.
fn check(file: Option<ConfigFile>) -> Result<Option<ConfigFile>, ToolError> {
    if let Some(file) = &file {
        merge::policy_of_file(file)?;
        teams::memberships(std::slice::from_ref(file))?;
    }
    Ok(file)
}
