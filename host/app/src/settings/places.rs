//! Where config files are looked for, and how each is read.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mimir_core::files::{self, Links};
use mimir_core::text::visible;
use mimir_core::{Code, ToolError};

use crate::file_error::file_error;
use crate::places::Places;
use crate::workspace::Workspace;

/// Who speaks in a config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A team, to everybody on this machine.
    Machine,
    /// A team, in the file that `MIMIR_TEAM_POLICY` names.
    NamedTeam,
    /// The user.
    User,
    /// The user, in variables of this one run.
    Environment,
    /// The workspace, whoever wrote it.
    Project,
}

impl Whose {
    /// Whether it stands above the user's and the workspace's.
    pub fn is_team(self) -> bool {
        matches!(self, Self::Machine | Self::NamedTeam)
    }

    /// What it is called in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Machine | Self::NamedTeam => "team",
            Self::User => "user",
            Self::Environment => "environment",
            Self::Project => "project",
        }
    }
}

/// A place where a config file is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub path: PathBuf,
    /// How messages call it.
    pub shown: String,
    /// Who speaks there.
    pub whose: Whose,
}

/// A longer file is no config.
const LONGEST: u64 = 1 << 20;

impl Place {
    /// All of them, the strongest first: a team's, the user's, the workspace's.
    pub fn all(places: &Places, workspace: &Workspace) -> Vec<Self> {
        let machine = places.team.iter().map(|path| (path, Whose::Machine));
        // The machine's file does not speak twice.
        let named = places.named_team.iter();
        let named = named.filter(|path| !places.team.contains(path));
        let named = named.map(|path| (path, Whose::NamedTeam));
        let user = places.config.as_ref().map(|dir| dir.join("config.yml"));
        let own = workspace.config();
        machine
            .chain(named)
            .chain(user.iter().map(|path| (path, Whose::User)))
            .chain([(&own, Whose::Project)])
            .map(|(path, whose)| Place {
                path: path.clone(),
                shown: workspace.shown(path),
                whose,
            })
            .collect()
    }

    /// Whether anything is there, even if it is no file.
    pub fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// What is written there; nothing where no file is. A file that `MIMIR_TEAM_POLICY` names has to be there.
    pub fn text(&self) -> Result<Option<String>, ToolError> {
        let Self { path, shown, whose } = self;
        let fault = |code, text| Err(ToolError::new(code, format!("{shown}: {text}")));
        if *whose == Whose::NamedTeam && !path.is_absolute() {
            let text = "MIMIR_TEAM_POLICY wants an absolute path; nothing is decided until it names a team's file";
            return fault(Code::InvalidInput, text.to_owned());
        }
        match self.open() {
            Ok(text) => Ok(Some(text)),
            Err(e) if is_missing(&e) && *whose == Whose::NamedTeam => fault(
                Code::FileNotFound,
                "MIMIR_TEAM_POLICY names this file and it is not there; put it there or unset the variable".to_owned(),
            ),
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                fault(Code::InvalidInput, "a config has at most 1 MB".to_owned())
            }
            Err(e) if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
                fault(Code::InvalidInput, format!("cannot be read: {e}"))
            }
            Err(e) if e.kind() == ErrorKind::Other => {
                fault(Code::PermissionDenied, e.to_string())
            }
            Err(e) => Err(file_error("read the config", path, &e)),
        }
    }

    fn open(&self) -> io::Result<String> {
        let file = files::open(&self.path, Links::Followed)?;
        if self.whose == Whose::Machine {
            closed(&self.path, &file)?;
        }
        files::text(files::read_open(&file, LONGEST)?)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Refuses a team's file that somebody else than an administrator or this user may have written, or replaced in
/// its folder.
fn closed(path: &Path, file: &File) -> io::Result<()> {
    let real = path.canonicalize()?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    for (place, meta) in [
        (path, file.metadata()?),
        (folder, std::fs::metadata(folder)?),
    ] {
        if let Some((fault, command)) = open_to_others(&meta) {
            let place = visible(&place.display().to_string());
            return Err(io::Error::other(format!(
                "a team's policy is not believed where {place} {fault}; as an administrator: {command} '{place}'"
            )));
        }
    }
    Ok(())
}

/// What about its owner or its permissions lets others write it, and the command that mends that.
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
