//! States of the servers in the processes of a workspace: each process publishes the states of its servers in a file in
//! the user's cache folder, and locks another file while it runs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::{prefix, visible};
use mimir_mcp::client::ServerStatus;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::approval_store;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Maximum length of the name of a process, in bytes.
const MAX_PROGRAM_LENGTH: usize = 64;

/// Maximum number of processes that are read.
const MAX_PROCESSES: usize = 256;

/// A process, with the states of the servers that it has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerProcess {
    /// ID of the process.
    pub pid: u32,
    /// Name of the program, with the name of its command.
    pub program: String,
    /// The servers, by name.
    pub servers: BTreeMap<String, ServerStatus>,
}

/// The states that this process publishes. Nothing is written before a server is used. Dropping it removes its files.
pub struct PublishedStates {
    folder: PathBuf,
    file: Mutex<Option<PublishedFile>>,
}

/// The files of this process.
struct PublishedFile {
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked while this process runs.
    _lock: File,
}

fn folder(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<PathBuf> {
    let folder = user_dirs.cache.as_ref()?.join("mcp").join("running");
    Some(folder.join(approval_store::workspace_key(workspace)))
}

impl PublishedStates {
    /// Returns the publisher of a workspace. `None` on platforms without a cache folder.
    pub fn new(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Option<Self> {
        Some(Self {
            folder: folder(user_dirs, workspace)?,
            file: Mutex::default(),
        })
    }

    /// Publishes the states of this process. A failure only hides them from `mimir mcp status`.
    pub fn publish(&self, servers: &BTreeMap<String, ServerStatus>) {
        if let Err(error) = self.try_publish(servers) {
            tracing::debug!(%error, "cannot publish the states of the servers");
        }
    }

    fn try_publish(&self, servers: &BTreeMap<String, ServerStatus>) -> io::Result<()> {
        let mut file = self.file.lock();
        if file.is_none() {
            if servers.is_empty() {
                return Ok(());
            }
            *file = Some(PublishedFile::create(&self.folder)?);
        }
        let Some(published) = &*file else {
            return Ok(());
        };
        let process = ServerProcess {
            pid: std::process::id(),
            program: program_name(),
            servers: servers.clone(),
        };
        let text = serde_json::to_string(&process)?;
        private_files::replace(&published.path, text.as_bytes(), FileReaders::Owner)
    }
}

impl PublishedFile {
    fn create(folder: &Path) -> io::Result<Self> {
        private_files::private_folder(folder)?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = since_epoch.map_or(0, |since_epoch| since_epoch.as_nanos());
        // The time distinguishes processes of containers with the same ID, and several setups in one process.
        let name = format!("{}-{nanos:x}", std::process::id());
        let lock_path = folder.join(format!("{name}.lock"));
        // Renamed once it is locked, so that no reader takes it for that of an ended process.
        let new_path = folder.join(format!("{name}.new"));
        let lock = files::open_private(&new_path, OpenOptions::new().write(true))?;
        lock.lock()?;
        std::fs::rename(&new_path, &lock_path)?;
        Ok(Self {
            path: folder.join(format!("{name}.json")),
            lock_path,
            _lock: lock,
        })
    }
}

impl Drop for PublishedFile {
    fn drop(&mut self) {
        // An error leaves files that the next reader removes.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

/// Returns the name of this program, with the name of its command if the first argument is a plain word.
fn program_name() -> String {
    let mut args = std::env::args_os();
    let program = args.next().map(PathBuf::from);
    let program = program.as_deref().and_then(Path::file_stem);
    let program = program.map_or_else(|| "mimir".to_owned(), |name| name.display().to_string());
    let command = args.next().and_then(|word| word.into_string().ok());
    let command = command.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
    let name = match command {
        Some(command) => format!("{program} {command}"),
        None => program,
    };
    prefix(&visible(&name), MAX_PROGRAM_LENGTH).to_owned()
}

/// Returns the running processes that have used servers of a workspace, and removes the files of those that have ended.
pub fn running_processes(
    user_dirs: &UserDirs,
    workspace: &WorkspaceFolder,
) -> io::Result<Vec<ServerProcess>> {
    let Some(folder) = folder(user_dirs, workspace) else {
        return Ok(Vec::new());
    };
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut processes = Vec::new();
    for entry in entries.take(2 * MAX_PROCESSES) {
        let lock_path = entry?.path();
        if lock_path
            .extension()
            .is_none_or(|extension| extension != "lock")
        {
            continue;
        }
        let path = lock_path.with_extension("json");
        if has_ended(&lock_path)? {
            // Another reader may have removed them.
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(&lock_path);
            continue;
        }
        let text = private_files::read(&path, OwnerOnly::Writing)?;
        match text.as_deref().map(serde_json::from_str) {
            Some(Ok(process)) => processes.push(process),
            // Another version of mimir has written it.
            Some(Err(error)) => tracing::debug!(%error, "cannot read the states of a process"),
            None => {}
        }
    }
    processes.sort_by_key(|process: &ServerProcess| process.pid);
    Ok(processes)
}

/// Returns true if no process holds the lock.
fn has_ended(lock_path: &Path) -> io::Result<bool> {
    let lock = match files::open(lock_path, LinkPolicy::Refuse) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_mcp::client::ServerState;

    #[test]
    fn server_states_are_published_while_the_process_runs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work/.mimir")).unwrap();
        let workspace = WorkspaceFolder::find(Some(&folder.path().join("work"))).unwrap();
        let user_dirs = UserDirs {
            cache: Some(folder.path().join("cache")),
            ..UserDirs::default()
        };
        let read = || running_processes(&user_dirs, &workspace).unwrap();
        let published = PublishedStates::new(&user_dirs, &workspace).unwrap();
        published.publish(&BTreeMap::new());
        assert!(read().is_empty());
        let status: ServerStatus = serde_json::from_value(serde_json::json!({
            "state": "running", "since": 1, "starts": 1, "tools": 2, "failedCalls": 0,
        }))
        .unwrap();
        published.publish(&BTreeMap::from([("s".to_owned(), status)]));
        let processes = read();
        assert_eq!(processes[0].pid, std::process::id());
        assert_eq!(processes[0].servers["s"].state, ServerState::Running);
        // The files of a killed process stay; without its lock they are removed.
        let own = super::folder(&user_dirs, &workspace).unwrap();
        std::fs::write(own.join("1-0.lock"), "").unwrap();
        std::fs::write(own.join("1-0.json"), "{}").unwrap();
        assert_eq!(read().len(), 1);
        assert!(!own.join("1-0.json").exists());
        drop(published);
        assert!(read().is_empty());
        assert_eq!(std::fs::read_dir(own).unwrap().count(), 0);
    }
}
