//! The servers that this user has stopped or restarted with `mimir mcp`, in a file that all processes of a workspace
//! follow like the settings.
//!
//! The file is in the user's own folder, so that a checkout can neither start nor stop a server. It never enables a
//! server that the settings disable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_core::config::McpSettings;
use mimir_mcp::client::RunRequests;
use serde::{Deserialize, Serialize};

use crate::approval_store;
use crate::file_error::file_error;
use crate::interface::warn;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// The stopped and restarted servers of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerControl {
    /// By the name of the server.
    servers: BTreeMap<String, ControlEntry>,
}

/// The requests of the user for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ControlEntry {
    /// True if the server is stopped until it is started again.
    stopped: bool,
    /// Number of starts; running processes start a server when it changes.
    starts: u64,
    /// Number of restarts; processes in which the server is running restart it when it changes.
    restarts: u64,
}

impl ServerControl {
    /// Returns the path of the file of a workspace. `None` on platforms without a folder for the user's settings.
    pub fn path(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<PathBuf> {
        approval_store::user_state_path(user_dirs, workspace, "servers")
    }

    /// Reads the file of a workspace. A missing file stops nothing.
    pub fn read(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Result<Self, ToolError> {
        let Some(path) = Self::path(user_dirs, workspace) else {
            return Ok(Self::default());
        };
        let text = private_files::read(&path, OwnerOnly::Writing)
            .map_err(|error| file_error("read", &path, &error))?;
        text.map_or_else(
            || Ok(Self::default()),
            |text| {
                serde_json::from_str(&text).map_err(|error| {
                    let message =
                        format!("the file with the stopped MCP servers is not valid: {error}");
                    let shown = mimir_core::text::visible(&path.display().to_string());
                    ToolError::invalid_input(message)
                        .with_remedies([format!("remove {shown}, which stops no server then")])
                })
            },
        )
    }

    /// Reads the file like [`Self::read`]. A file that is not valid stops nothing, with a warning, so that it does not
    /// break commands.
    pub(crate) fn read_or_warn(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Self {
        Self::read(user_dirs, workspace).unwrap_or_else(|error| {
            warn(format!("{}; {}", error.message, error.remedies.join("; ")));
            Self::default()
        })
    }

    /// Changes the entry of a server in the file of a workspace.
    fn change(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        name: &str,
        change: impl FnOnce(&mut ControlEntry),
    ) -> Result<(), ToolError> {
        Self::change_file(user_dirs, workspace, |control| {
            change(control.servers.entry(name.to_owned()).or_default());
        })
    }

    /// Changes the file of a workspace under an inter-process lock.
    fn change_file(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        change: impl FnOnce(&mut Self),
    ) -> Result<(), ToolError> {
        let path = Self::path(user_dirs, workspace).ok_or_else(|| {
            ToolError::unavailable("this platform has no folder for your settings")
                .with_remedies(["set MIMIR_CONFIG_DIR to a folder of your own".to_owned()])
        })?;
        let fault = |error: std::io::Error| file_error("write", &path, &error);
        let _lock = private_files::lock_for_change(&path).map_err(fault)?;
        let mut control = Self::read_or_warn(user_dirs, workspace);
        change(&mut control);
        let text = serde_json::to_string(&control).map_err(ToolError::internal)?;
        private_files::replace(&path, text.as_bytes(), FileReaders::Owner).map_err(fault)
    }

    /// Stops a server in all processes of a workspace, until it is started again.
    pub fn stop(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        name: &str,
    ) -> Result<(), ToolError> {
        Self::change(user_dirs, workspace, name, |entry| entry.stopped = true)
    }

    /// Starts a server in the running processes of a workspace, and allows its start in later ones.
    pub fn start(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        name: &str,
    ) -> Result<(), ToolError> {
        Self::change(user_dirs, workspace, name, |entry| {
            entry.stopped = false;
            entry.starts = entry.starts.saturating_add(1);
        })
    }

    /// Restarts a server in the processes of a workspace in which it is running. A stopped server is started.
    pub fn restart(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        name: &str,
    ) -> Result<(), ToolError> {
        Self::change(user_dirs, workspace, name, |entry| {
            entry.stopped = false;
            entry.restarts = entry.restarts.saturating_add(1);
        })
    }

    /// Removes the requests for one server, so that a later server of the same name does not inherit them.
    pub fn forget(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
        name: &str,
    ) -> Result<(), ToolError> {
        let control = Self::read_or_warn(user_dirs, workspace);
        if !control.servers.contains_key(name) {
            return Ok(());
        }
        Self::change_file(user_dirs, workspace, |control| {
            control.servers.remove(name);
        })
    }

    /// Returns true if the user has stopped the server.
    pub fn is_stopped(&self, name: &str) -> bool {
        self.servers.get(name).is_some_and(|entry| entry.stopped)
    }

    /// Returns the numbers of starts and restarts, by the name of the server.
    pub(crate) fn restarts(&self) -> BTreeMap<String, RunRequests> {
        let entries = self.servers.iter();
        let requests = entries.map(|(name, entry)| {
            let (starts, restarts) = (entry.starts, entry.restarts);
            (name.clone(), RunRequests { starts, restarts })
        });
        requests.collect()
    }

    /// Disables the stopped servers.
    pub(crate) fn apply(&self, settings: &mut McpSettings) {
        for (name, server) in &mut settings.servers {
            if self.is_stopped(name) {
                server.enabled = Some(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_control_stops_until_a_restart_and_enables_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work/.mimir")).unwrap();
        let workspace = WorkspaceFolder::find(Some(&folder.path().join("work"))).unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().join("user")),
            ..UserDirs::default()
        };
        let settings = || -> McpSettings {
            serde_json::from_value(serde_json::json!({"servers": {
                "a": {"command": "x"}, "off": {"command": "x", "enabled": false},
            }}))
            .unwrap()
        };
        ServerControl::stop(&user_dirs, &workspace, "a").unwrap();
        let control = ServerControl::read(&user_dirs, &workspace).unwrap();
        let mut stopped = settings();
        control.apply(&mut stopped);
        assert!(control.is_stopped("a") && !stopped.servers["a"].is_enabled());
        for name in ["a", "off"] {
            ServerControl::restart(&user_dirs, &workspace, name).unwrap();
        }
        let control = ServerControl::read(&user_dirs, &workspace).unwrap();
        let mut started = settings();
        control.apply(&mut started);
        assert!(started.servers["a"].is_enabled() && !started.servers["off"].is_enabled());
        ServerControl::start(&user_dirs, &workspace, "a").unwrap();
        let requests = ServerControl::read(&user_dirs, &workspace)
            .unwrap()
            .restarts();
        assert_eq!((requests["a"].starts, requests["a"].restarts), (1, 1));
        ServerControl::stop(&user_dirs, &workspace, "a").unwrap();
        ServerControl::forget(&user_dirs, &workspace, "a").unwrap();
        ServerControl::forget(&user_dirs, &workspace, "unknown").unwrap();
        let control = ServerControl::read(&user_dirs, &workspace).unwrap();
        assert!(!control.is_stopped("a") && !control.restarts().contains_key("a"));
        let path = ServerControl::path(&user_dirs, &workspace).unwrap();
        std::fs::write(path, "{").unwrap();
        let error = ServerControl::read(&user_dirs, &workspace).unwrap_err();
        assert!(error.remedies[0].contains("remove "), "{error:?}");
        // It breaks no command, and the next change replaces it.
        let control = ServerControl::read_or_warn(&user_dirs, &workspace);
        assert_eq!(control, ServerControl::default());
        ServerControl::forget(&user_dirs, &workspace, "a").unwrap();
        ServerControl::stop(&user_dirs, &workspace, "a").unwrap();
        let control = ServerControl::read(&user_dirs, &workspace).unwrap();
        assert!(control.is_stopped("a"));
    }
}
