//! The config files: read, checked with their line numbers, and laid over each other.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::config::Config;
use mimir_core::{Code, Policy, Tool, ToolError};
use serde_yaml::Value;

use crate::exit::file_error;
use crate::places::Places;
use crate::workspace::Workspace;

mod faults;
mod merge;

/// One config file that was read.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// How messages call it.
    pub shown: String,
    /// What it says by itself.
    pub config: Config,
    value: Value,
}

/// All config files together.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What they say together.
    pub config: Config,
    /// The files, the user's before the workspace's.
    pub files: Vec<ConfigFile>,
}

/// A longer file is no config.
const LONGEST: u64 = 1 << 20;

impl Settings {
    /// Reads the user's file and the workspace's, as far as they are there.
    pub fn read(places: &Places, workspace: &Workspace) -> Result<Self, ToolError> {
        let user = places.config.as_ref().map(|dir| dir.join("config.yml"));
        let own = workspace.config();
        let mut files = Vec::new();
        for path in user.into_iter().chain([own]) {
            let shown = workspace.shown(&path);
            if let Some(text) = text(&path, &shown)? {
                files.push(ConfigFile::parse(path, shown, &text)?);
            }
        }
        let config = merge::layers(&files)?;
        Ok(Self { config, files })
    }

    /// Bounds the wall clock of calls of `tool`, in place of what the files say. `maxExecutionTime` still holds.
    pub fn bound(&mut self, tool: &Tool, time: Duration) {
        let each = &mut self.config.tools.each;
        let mut names = std::iter::once(tool.name()).chain(&tool.aliases);
        let set = names.find(|name| each.contains_key(name.as_str()));
        let name = set.unwrap_or(tool.name()).to_string();
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        each.entry(name).or_default().limits.time_ms = Some(millis);
    }

    /// The rules that the files state.
    pub fn policy(&self) -> Result<Policy, ToolError> {
        merge::policy(self)
    }
}

impl ConfigFile {
    fn parse(path: PathBuf, shown: String, text: &str) -> Result<Self, ToolError> {
        let fault = |error: serde_yaml::Error| faults::explain(&shown, &error);
        let value: Value = serde_yaml::from_str(text).map_err(fault)?;
        let config = match value {
            // A file of comments only.
            Value::Null => Config::default(),
            _ => serde_yaml::from_str(text).map_err(fault)?,
        };
        Ok(Self {
            path,
            shown,
            config,
            value,
        })
    }
}

fn text(path: &Path, shown: &str) -> Result<Option<String>, ToolError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(file_error("read the config", path, &e)),
    };
    let mut text = String::new();
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|e| ToolError::new(Code::InvalidInput, format!("{shown}: cannot be read: {e}")))?;
    if text.len() as u64 > LONGEST {
        return Err(ToolError::new(
            Code::InvalidInput,
            format!("{shown}: a config has at most 1 MB"),
        ));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
