//! The end position of a workspace's audit log when this user last wrote to the log. It reveals a truncated or replaced
//! log.
//!
//! The position is stored in the user's own folder, so that a process that can only write the workspace cannot change
//! it. After a mismatch the stored position stays, until a person removes its file: a truncated log does not become
//! valid by growing again.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use mimir_audit::{AuditLog, FileAuditSink, LogHead};
use mimir_core::config::AuditSettings;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::platform;
use mimir_core::text::visible;

use crate::approval_store::UserApprovalStore;
use crate::interface::warn;
use crate::private_files::{self, FileReaders};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// The stored last line of the log. When a command that has written to the log ends, dropping this value stores the new
/// last line.
pub struct AuditWatermark {
    path: Option<PathBuf>,
    log: PathBuf,
    writer: OnceLock<(Arc<FileAuditSink>, Option<LogHead>)>,
}

/// Change of a config file since mimir last read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFileChange {
    /// The file is new, or has another content.
    Changed {
        /// The hash of its content.
        sha256: String,
    },
    /// The file does not exist any more.
    Removed,
}

/// Maximum size of the position file in bytes. A valid file is shorter.
const MAX_HEAD_SIZE: u64 = 1024;

/// Maximum size in bytes of the file with the hashes of the config files, one line each.
const MAX_SEEN_SIZE: u64 = 64 << 10;

impl AuditWatermark {
    /// Creates the watermark of a workspace. Reads nothing until it is needed.
    pub fn for_workspace(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> Self {
        let approval_store = UserApprovalStore::new(user_dirs, workspace);
        Self {
            path: approval_store.map(|approval_store| approval_store.path().with_extension("head")),
            log: workspace.audit(),
            writer: OnceLock::new(),
        }
    }

    /// Returns the writer of the log. It is created once.
    pub fn writer(&self, settings: AuditSettings) -> Arc<FileAuditSink> {
        let create = || {
            // Read before the log is opened, so that lines that other processes write in between come after the
            // position.
            let position = self.read();
            (Arc::new(FileAuditSink::new(&self.log, settings)), position)
        };
        Arc::clone(&self.writer.get_or_init(create).0)
    }

    /// Returns the stored last line, if there is a valid one.
    pub fn read(&self) -> Option<LogHead> {
        let bytes = files::read(self.path.as_ref()?, LinkPolicy::Follow, MAX_HEAD_SIZE).ok()?;
        LogHead::decode(&bytes)
    }

    /// Stores the current hashes of the config files, given as pairs of file and hash. Returns the files that have
    /// changed since the last call. Returns nothing on the first call.
    pub fn changed_files(&self, current: &[(String, String)]) -> Vec<(String, ConfigFileChange)> {
        let Some(path) = self.path.as_ref().map(|path| path.with_extension("seen")) else {
            return Vec::new();
        };
        let text: String = current
            .iter()
            .map(|(file, digest)| format!("{digest} {file}\n"))
            .collect();
        let previous = files::read_text(&path, LinkPolicy::Follow, MAX_SEEN_SIZE).ok();
        if previous.as_deref() == Some(text.as_str()) {
            return Vec::new();
        }
        let folder = path.parent().map_or(Ok(()), private_files::private_folder);
        let written = folder
            .and_then(|()| private_files::replace(&path, text.as_bytes(), FileReaders::Owner));
        if let Err(error) = written {
            tracing::debug!(%error, "cannot store the hashes of the config files");
        }
        let Some(previous) = previous else {
            return Vec::new();
        };
        let lines: Vec<&str> = text.lines().collect();
        let changed = current.iter().zip(&lines);
        let changed = changed.filter(|(_, line)| {
            !previous
                .lines()
                .any(|previous_file| previous_file == **line)
        });
        let changed = changed.map(|((file, digest), _)| {
            let sha256 = digest.clone();
            (file.clone(), ConfigFileChange::Changed { sha256 })
        });
        let removed = previous.lines().filter_map(|line| line.split_once(' '));
        let removed = removed
            .filter(|(_, previous_file)| !current.iter().any(|(file, _)| file == previous_file));
        let removed =
            removed.map(|(_, previous_file)| (previous_file.to_owned(), ConfigFileChange::Removed));
        changed.chain(removed).collect()
    }

    /// Returns the hint for a person who has removed or replaced the log on purpose.
    pub fn remedy(&self) -> String {
        let path = self.path.as_deref().unwrap_or(&self.log);
        format!(
            "if you removed or replaced the log yourself, remove {} too",
            visible(&path.display().to_string())
        )
    }

    /// Removes the stored position, because the person has removed the log.
    pub fn remove(user_dirs: &UserDirs, workspace: &WorkspaceFolder) -> io::Result<()> {
        let watermark = Self::for_workspace(user_dirs, workspace);
        let Some(path) = &watermark.path else {
            return Ok(());
        };
        for path in [&path.with_extension("seen"), path] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores the new end position, unless the log no longer contains the previously stored line (`previous`).
    fn store_position(&self, audit: &FileAuditSink, previous: Option<LogHead>) -> io::Result<()> {
        let (Some(path), Some((opened, current))) = (&self.path, audit.opened_and_current()) else {
            return Ok(());
        };
        if let Some(previous) = previous
            && previous != opened
            && (opened.seq <= previous.seq
                || !AuditLog::at(&self.log).snapshot()?.has_line(previous)?)
        {
            warn(format_args!(
                "the audit log was replaced, or its end is missing; `mimir audit verify` shows details"
            ));
            return Ok(());
        }
        if self.read().is_some_and(|stored| stored.seq >= current.seq) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            private_files::private_folder(folder)?;
        }
        match platform::create_private_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true);
        // Written in place. The length is constant, so that the file never contains a partial record.
        files::open_with(path, LinkPolicy::Follow, &mut options)?.write_all(&current.encode())
    }
}

impl Drop for AuditWatermark {
    fn drop(&mut self) {
        if let Some((audit, position)) = self.writer.get()
            && let Err(error) = self.store_position(audit, *position)
        {
            tracing::debug!(%error, "cannot store the end position of the audit log");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_and_removed_config_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().join("user")),
            ..UserDirs::default()
        };
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let workspace = WorkspaceFolder::find(Some(&folder.path().join("work"))).unwrap();
        let watermark = AuditWatermark::for_workspace(&user_dirs, &workspace);
        let files = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(file, digest)| ((*file).into(), (*digest).into()))
                .collect()
        };
        let first = files(&[("a b.yml", "1"), ("c.yml", "1")]);
        assert!(watermark.changed_files(&first).is_empty());
        assert!(watermark.changed_files(&first).is_empty());
        assert_eq!(
            watermark.changed_files(&files(&[("a b.yml", "2")])),
            [
                (
                    "a b.yml".to_owned(),
                    ConfigFileChange::Changed { sha256: "2".into() }
                ),
                ("c.yml".to_owned(), ConfigFileChange::Removed),
            ]
        );
    }
}
