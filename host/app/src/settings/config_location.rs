//! Locations of config files, and reading of their text.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform::{AccessFault, FileAccessRule, OwnerOnly};
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
    /// A team that the user or an administrator has joined, in its signed bundle.
    JoinedTeam,
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
        matches!(self, Self::Machine | Self::NamedTeam | Self::JoinedTeam)
    }

    /// Returns true if files of this owner are above a bundle that a file of `required_by` requires. A bundle that the
    /// machine's file requires is above the file that a variable names, because users set variables.
    pub(crate) fn is_above_bundle(self, required_by: Self) -> bool {
        match self {
            Self::Machine | Self::JoinedTeam => true,
            Self::NamedTeam => required_by != Self::Machine,
            Self::User | Self::Environment | Self::Project => false,
        }
    }

    /// Returns the name of the layer in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Machine | Self::NamedTeam | Self::JoinedTeam => "team",
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

/// Name of the config file of a deployment in messages.
const PUBLISHED_CONFIG: &str =
    "published from a project: change it there and run `mimir cluster publish`; .mimir/config.yml";

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
                shown: match owner {
                    // The copy of this node is not the file to change.
                    ConfigOwner::Project if workspace.deployment().is_some() => {
                        PUBLISHED_CONFIG.to_owned()
                    }
                    _ => workspace.display_path(path),
                },
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
            // A policy on a share that is not mounted must not count as absent.
            Err(e) if is_missing(&e) && *owner == ConfigOwner::Machine && is_behind_dangling_link(path) => fault(
                ToolErrorCode::FileNotFound,
                "the team policy is behind a link whose target is not there; as an administrator, restore the target or remove the link".to_owned(),
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
            check_not_writable_by_others("the team policy", &self.path, &file)?;
        }
        files::text(files::read_open(&file, MAX_FILE_SIZE)?)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns true if the path, or the first of the folders above it at which anything exists, is a link without a target.
fn is_behind_dangling_link(path: &Path) -> bool {
    let mut existing = path.ancestors().filter(|at| at.symlink_metadata().is_ok());
    existing.next().is_some_and(|at| at.metadata().is_err())
}

/// Refuses a file of an administrator that users other than an administrator or this user can write, or replace in its
/// folder or in that of a link to it. `what` names it in the error.
pub(crate) fn check_not_writable_by_others(what: &str, path: &Path, file: &File) -> io::Result<()> {
    let real = path.canonicalize()?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    let rule = FileAccessRule::of_user_or_administrator(OwnerOnly::Writing);
    // A link in this folder can be replaced by whoever can write the folder.
    let named = path.parent().unwrap_or(folder);
    for (item, fault) in [
        (path, rule.check_file(file)?),
        (folder, rule.check_path(folder)?),
        (named, rule.check_path(named)?),
    ] {
        if let Some(fault) = fault {
            let item = visible(&item.display().to_string());
            let (fault, command) = (fault.describe(), fix_as_administrator(fault, &item));
            return Err(io::Error::other(format!(
                "{what} is not trusted, because {item} {fault}; as an administrator, run: {command}"
            )));
        }
    }
    Ok(())
}

/// Returns the command of an administrator that removes the fault of an item.
fn fix_as_administrator(fault: AccessFault, item: &str) -> String {
    match fault {
        AccessFault::OtherOwner if cfg!(windows) => format!("takeown /a /f \"{item}\""),
        AccessFault::OtherOwner => format!("chown root '{item}'"),
        // Administrators and SYSTEM change it, Users read it.
        _ if cfg!(windows) => format!(
            "icacls \"{item}\" /inheritance:r /grant:r *S-1-5-32-544:F *S-1-5-18:F *S-1-5-32-545:RX"
        ),
        _ => format!("chmod go-w '{item}'"),
    }
}
