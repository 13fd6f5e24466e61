//! The open consoles of a workspace, at which a person can answer questions.
//!
//! Each console has a file in a folder beside the user's settings, and locks it while it runs. The lock ends with the
//! process, so that a console that has crashed never looks open.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::ToolError;

use crate::approval_store::user_state_path;
use crate::cluster::ClusterMembership;
use crate::file_error::file_error;
use crate::private_files;
use crate::process_lock::{ProcessLock, process_file_name};
use crate::setup::HostSetup;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Maximum number of files that are looked at.
const MAX_FILES: usize = 64;

/// End of the names of files of open consoles.
const SUFFIX: &str = "lock";

/// The folder of the open consoles of a workspace.
#[derive(Debug, Clone)]
pub struct ConsoleFolder(PathBuf);

/// A console of this process. Dropping it closes the console for other processes.
#[derive(Debug)]
pub struct OpenConsole(#[expect(dead_code, reason = "ends when it is dropped")] ProcessLock);

impl ConsoleFolder {
    /// Returns the folder of a workspace. `None` on platforms without a folder for the user's settings.
    pub fn find(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<Self> {
        user_state_path(user_dirs, workspace, "consoles").map(Self)
    }

    /// Opens a console. Questions of other processes wait for it from now on.
    pub fn open(&self) -> Result<OpenConsole, ToolError> {
        OpenConsole::create(&self.0).map_err(|error| file_error("create", &self.0, &error))
    }

    /// Returns true if a console is open. Removes the files of those that have crashed.
    pub fn has_open_console(&self) -> bool {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(%error, "the open consoles cannot be read");
                }
                return false;
            }
        };
        let paths = entries
            .take(MAX_FILES)
            .filter_map(|entry| Some(entry.ok()?.path()));
        paths
            .filter(|path| path.extension().is_some_and(|end| end == SUFFIX))
            .any(|path| match ProcessLock::is_held(&path) {
                Ok(true) => true,
                Ok(false) => {
                    // Another reader may have removed it.
                    let _ = std::fs::remove_file(&path);
                    false
                }
                Err(error) => {
                    tracing::debug!(%error, "the file of a console cannot be read");
                    false
                }
            })
    }
}

impl OpenConsole {
    fn create(folder: &Path) -> io::Result<Self> {
        private_files::private_folder(folder)?;
        let name = process_file_name()?;
        let path = folder.join(format!("{name}.{SUFFIX}"));
        ProcessLock::create(path).map(Self)
    }
}

/// An announced console of this process. Dropping it closes the console for other processes.
pub struct AnnouncedConsole(ConsoleAnnouncement);

enum ConsoleAnnouncement {
    /// For the processes of this machine.
    Local(#[expect(dead_code, reason = "closes the console when it is dropped")] OpenConsole),
    /// For all nodes of a cluster.
    Cluster(Arc<ClusterMembership>),
}

impl Drop for AnnouncedConsole {
    fn drop(&mut self) {
        if let ConsoleAnnouncement::Cluster(cluster) = &self.0 {
            cluster.node().set_console(false);
        }
    }
}

impl HostSetup {
    /// Announces a console of this process, so that questions which cannot be asked elsewhere wait for it while the
    /// returned guard exists. In a cluster, questions of all nodes wait for it.
    ///
    /// # Errors
    /// The file of the console cannot be created, or this platform has no folder for the user's settings.
    pub fn announce_console(&self) -> Result<AnnouncedConsole, ToolError> {
        if let Some(cluster) = self.cluster() {
            cluster.node().set_console(true);
            return Ok(AnnouncedConsole(ConsoleAnnouncement::Cluster(Arc::clone(
                cluster,
            ))));
        }
        let folder = ConsoleFolder::find(&self.user_dirs, &self.workspace).ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR",
            )
        })?;
        let open = folder.open()?;
        Ok(AnnouncedConsole(ConsoleAnnouncement::Local(open)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_presence_ends_with_the_console_or_its_process() {
        let temp = tempfile::tempdir().unwrap();
        let folder = ConsoleFolder(temp.path().join("w.consoles"));
        assert!(!folder.has_open_console(), "no folder");
        let one = folder.open().unwrap();
        let two = folder.open().unwrap();
        assert!(folder.has_open_console());
        drop(one);
        assert!(folder.has_open_console(), "one of two is left");
        drop(two);
        assert!(!folder.has_open_console());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
        // A file that no process has locked, as after a crash; others are ignored.
        let crashed = folder.0.join("1-0.lock");
        std::fs::write(&crashed, "").unwrap();
        std::fs::write(folder.0.join("other"), "").unwrap();
        std::fs::create_dir(folder.0.join("folder.lock")).unwrap();
        assert!(!folder.has_open_console());
        assert!(!crashed.exists());
    }
}
