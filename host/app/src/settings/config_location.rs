//! Locations of config files, and reading of their text.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::file_error::file_error;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// The owner of a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOwner {
    /// A team, in the file for all users of this machine.
    Machine,
    /// A team, in the file that `MIMIR_TEAM_POLICY` names.
    NamedTeam,
    /// The user.
    User,
    /// The user, in environment variables of this run.
    Environment,
    /// The workspace, whoever wrote the file.
    Project,
}

impl ConfigOwner {
    /// Returns true if a team owns the file, so that it overrides the files of the user and the workspace.
    pub fn is_team(self) -> bool {
        matches!(self, Self::Machine | Self::NamedTeam)
    }

    /// Returns the name of the layer in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Machine | Self::NamedTeam => "team",
            Self::User => "user",
            Self::Environment => "environment",
            Self::Project => "project",
        }
    }
}

/// The location of a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLocation {
    /// Path of the file.
    pub path: PathBuf,
    /// Path of the file, for messages.
    pub shown: String,
    /// Owner of the file.
    pub owner: ConfigOwner,
}

/// Maximum size of a config file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

impl ConfigLocation {
    /// Returns all locations, whether or not the file exists, in the order team, user, workspace.
    pub fn all_locations(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Vec<Self> {
        let machine = user_dirs
            .team
            .iter()
            .map(|path| (path, ConfigOwner::Machine));
        // A variable that names the machine-wide file does not list it twice.
        let named = user_dirs.named_team.iter();
        let named = named.filter(|path| !user_dirs.team.contains(path));
        let named = named.map(|path| (path, ConfigOwner::NamedTeam));
        let user = user_dirs.config.as_ref().map(|dir| dir.join("config.yml"));
        let own = workspace.config();
        machine
            .chain(named)
            .chain(user.iter().map(|path| (path, ConfigOwner::User)))
            .chain([(&own, ConfigOwner::Project)])
            .map(|(path, owner)| ConfigLocation {
                path: path.clone(),
                shown: workspace.display_path(path),
                owner,
            })
            .collect()
    }

    /// Returns true if anything exists at the path, even if it is not a file.
    pub fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Reads the file; `None` if it does not exist. A file that `MIMIR_TEAM_POLICY` names must exist.
    pub fn text(&self) -> Result<Option<String>, ToolError> {
        let Self { path, shown, owner } = self;
        let fault = |code, text| Err(ToolError::new(code, format!("{shown}: {text}")));
        if *owner == ConfigOwner::NamedTeam && !path.is_absolute() {
            let text = "MIMIR_TEAM_POLICY is not an absolute path; set it to the absolute path of a team policy, or unset it";
            return fault(ToolErrorCode::InvalidInput, text.to_owned());
        }
        match self.open() {
            Ok(text) => Ok(Some(text)),
            Err(e) if is_missing(&e) && *owner == ConfigOwner::NamedTeam => fault(
                ToolErrorCode::FileNotFound,
                "MIMIR_TEAM_POLICY names this file and it is not there; create it, or unset the variable".to_owned(),
            ),
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                fault(ToolErrorCode::InvalidInput, "the file is larger than 1 MB, the maximum for a config file".to_owned())
            }
            Err(e) if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
                fault(ToolErrorCode::InvalidInput, format!("cannot be read: {e}"))
            }
            Err(e) if e.kind() == ErrorKind::Other => {
                fault(ToolErrorCode::PermissionDenied, e.to_string())
            }
            Err(e) => Err(file_error("read the config", path, &e)),
        }
    }

    fn open(&self) -> io::Result<String> {
        let file = files::open(&self.path, LinkPolicy::Follow)?;
        if self.owner == ConfigOwner::Machine {
            check_not_writable_by_others(&self.path, &file)?;
        }
        files::text(files::read_open(&file, MAX_FILE_SIZE)?)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Refuses a team file that users other than an administrator or this user can write, or replace in its folder.
fn check_not_writable_by_others(path: &Path, file: &File) -> io::Result<()> {
    let real = path.canonicalize()?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    for (item, meta) in [
        (path, file.metadata()?),
        (folder, std::fs::metadata(folder)?),
    ] {
        if let Some((fault, command)) = open_to_others(&meta) {
            let item = visible(&item.display().to_string());
            return Err(io::Error::other(format!(
                "the team policy is not trusted, because {item} {fault}; as an administrator, run: {command} '{item}'"
            )));
        }
    }
    Ok(())
}

/// Returns the reason why other users can write the item, and the command that fixes it; `None` if they cannot.
#[cfg(unix)]
fn open_to_others(meta: &Metadata) -> Option<(&'static str, &'static str)> {
    use std::os::unix::fs::MetadataExt as _;
    let ours = rustix::process::geteuid().as_raw();
    if meta.uid() != 0 && meta.uid() != ours {
        return Some(("belongs to another user", "chown root"));
    }
    (meta.mode() & 0o022 != 0).then_some(("can be written by others", "chmod go-w"))
}

#[cfg(not(unix))]
fn open_to_others(_: &Metadata) -> Option<(&'static str, &'static str)> {
    None
}
