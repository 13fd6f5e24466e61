//! The record as a file of JSON lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::config::{AuditSettings, Durability};

use super::{AuditError, AuditSink, Event};

/// A file that events are appended to, each with a single write, so that several processes can
/// share it. Opened at the first event, so that what records nothing makes no file.
pub struct FileAudit {
    path: PathBuf,
    settings: AuditSettings,
    file: Mutex<Option<File>>,
}

impl FileAudit {
    /// A log at `path`; its folder is made when it is needed.
    pub fn new(path: impl Into<PathBuf>, settings: AuditSettings) -> Self {
        Self {
            path: path.into(),
            settings,
            file: Mutex::default(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
            ignore(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        options.open(&self.path)
    }

    fn append(&self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *slot {
            Some(file) => file,
            empty => empty.insert(self.open()?),
        };
        file.write_all(&line)?;
        match self.settings.durability {
            Durability::Write => Ok(()),
            Durability::Fsync => file.sync_data(),
        }
    }
}

/// Keeps the folder of the log out of version control.
fn ignore(folder: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).open(folder.join(".gitignore")) {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl AuditSink for FileAudit {
    fn record(&self, event: &Event) -> Result<(), AuditError> {
        self.append(event).map_err(|source| AuditError {
            place: self.path.display().to_string(),
            source,
        })
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}
