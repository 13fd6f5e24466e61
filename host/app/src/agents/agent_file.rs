//! A config file of an agent on disk: where it really is, its text, and atomic changes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::files::{self, LinkPolicy};

use super::agent_environment::AgentEnvironment;
use super::agent_kind::AgentKind;
use super::config_text::{EntryEdit, TextError};
use super::setup_error::{AgentSetupError, shown};
use crate::private_files;

/// Maximum size in bytes. Files that agents also use as a database may be longer; they are not edited.
const MAX_CONFIG_SIZE: u64 = 16 << 20;

/// A config file, as it was when it was read.
#[derive(Debug, Clone)]
pub(crate) struct AgentFile {
    /// Its agent.
    pub(crate) agent: AgentKind,
    /// The path that the agent reads.
    pub(crate) path: PathBuf,
    /// The file that is written: the path with all links resolved.
    pub(crate) target: PathBuf,
    /// The text; `None` if there is no file.
    pub(crate) text: Option<String>,
    /// True if the file belongs to the project.
    pub(crate) in_project: bool,
}

impl AgentFile {
    /// Locates and reads the file of an agent for a project.
    pub(crate) fn read(
        agent: AgentKind,
        project: &Path,
        environment: &AgentEnvironment,
    ) -> Result<Self, AgentSetupError> {
        let (path, in_project) = agent.config_file(project, environment)?;
        Self::read_path(agent, path, in_project.then_some(project))
    }

    /// Reads a file. One of a project must not lead out of it: links there may have come with a checkout. In the user's
    /// own folders links are followed, because people keep their settings in repositories and link to them.
    pub(crate) fn read_path(
        agent: AgentKind,
        path: PathBuf,
        project: Option<&Path>,
    ) -> Result<Self, AgentSetupError> {
        let target = real_path(&path)?;
        if let Some(project) = project {
            let root = real_path(project)?;
            if !target.starts_with(&root) {
                return Err(AgentSetupError::LeadsOut {
                    path: shown(&path),
                    target: shown(&target),
                });
            }
        }
        let text = read_optional(&target)?;
        Ok(Self {
            agent,
            path,
            target,
            text,
            in_project: project.is_some(),
        })
    }

    /// The path for messages: relative to the project, or absolute.
    pub(crate) fn shown_path(&self) -> String {
        shown(&self.path)
    }

    /// The text after an edit of the entry.
    pub(crate) fn edit(&self, edit: EntryEdit<'_>) -> Result<String, AgentSetupError> {
        let text = self.text.as_deref().unwrap_or_default();
        let (format, servers) = (self.agent.format(), self.agent.servers_key());
        format
            .edit(text, servers, edit)
            .map_err(|error| self.text_error(error))
    }

    /// The entry of mimir.
    pub(crate) fn entry(&self) -> Result<Option<serde_json::Value>, AgentSetupError> {
        self.entry_in(self.text.as_deref().unwrap_or_default())
    }

    /// The entry of mimir in another text of this file.
    pub(crate) fn entry_in(
        &self,
        text: &str,
    ) -> Result<Option<serde_json::Value>, AgentSetupError> {
        let (format, servers) = (self.agent.format(), self.agent.servers_key());
        format
            .entry(text, servers)
            .map_err(|error| self.text_error(error))
    }

    fn text_error(&self, error: TextError) -> AgentSetupError {
        let (path, agent) = (self.shown_path(), self.agent.name());
        match error {
            TextError::NotValid {
                line,
                column,
                message,
            } => AgentSetupError::NotValid {
                path,
                line,
                column,
                format: self.agent.format().label(),
                message: mimir_core::text::visible(&message),
                agent,
            },
            TextError::NotEditable(reason) => AgentSetupError::NotEditable {
                path,
                reason,
                agent,
            },
        }
    }

    /// Folders that have to be created for the file, outermost first.
    pub(crate) fn missing_folders(&self) -> Vec<PathBuf> {
        let folders = self.target.ancestors().skip(1);
        let mut missing: Vec<PathBuf> = folders
            .take_while(|folder| folder.symlink_metadata().is_err())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        missing
    }

    /// Replaces the text, or removes the file, unless either has changed since it was read.
    pub(crate) fn replace(&self, after: Option<&str>) -> Result<(), AgentSetupError> {
        let is_unchanged =
            real_path(&self.path)? == self.target && read_optional(&self.target)? == self.text;
        if !is_unchanged {
            return Err(AgentSetupError::Changed {
                path: self.shown_path(),
            });
        }
        match after {
            Some(after) => {
                let write = || {
                    std::fs::create_dir_all(self.target.parent().unwrap_or(&self.target))?;
                    private_files::rewrite(&self.target, after.as_bytes())
                };
                write().map_err(|error| AgentSetupError::file("write", &self.path, error))
            }
            None if self.text.is_none() => Ok(()),
            None => std::fs::remove_file(&self.target)
                .map_err(|error| AgentSetupError::file("remove", &self.path, error)),
        }
    }
}

/// Reads a file; `None` if there is none.
fn read_optional(path: &Path) -> Result<Option<String>, AgentSetupError> {
    match files::read_text(path, LinkPolicy::Refuse, MAX_CONFIG_SIZE) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AgentSetupError::file("read", path, error)),
    }
}

/// The path with all links resolved. Its end need not exist.
fn real_path(path: &Path) -> Result<PathBuf, AgentSetupError> {
    for folder in path.ancestors() {
        if folder.symlink_metadata().is_err() {
            continue;
        }
        let real = match folder.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(AgentSetupError::BrokenLink {
                    path: shown(folder),
                });
            }
            Err(error) => return Err(AgentSetupError::file("read", folder, error)),
        };
        let rest = path.strip_prefix(folder).unwrap_or(Path::new(""));
        return Ok(if rest.as_os_str().is_empty() {
            real
        } else {
            real.join(rest)
        });
    }
    Ok(path.to_owned())
}
