//! The record as a file of JSON lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{AuditSettings, Durability};

use super::{AuditError, AuditSink, Event};

/// A file that events are appended to, each with a single write, so that several processes can
/// share it. Opened at the first event, so that what records nothing makes no file.
pub struct FileAudit {
    path: PathBuf,
    settings: AuditSettings,
    file: Mutex<Option<File>>,
}

/// The log itself, `state` and `.mimir`: what lies below the workspace root.
const OWN_LEVELS: usize = 3;

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
        // The folders may have come with a checkout: a link in their place could lead anywhere.
        for place in self.path.ancestors().take(OWN_LEVELS) {
            if place.is_symlink() {
                let message = format!("{} is a link; remove it", place.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
        }
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

    /// The open file; the slot is never empty.
    fn opened(&self) -> io::Result<MutexGuard<'_, Option<File>>> {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(self.open()?);
        }
        Ok(slot)
    }

    fn failed(&self, source: io::Error) -> AuditError {
        AuditError {
            place: self.path.display().to_string(),
            source,
        }
    }

    fn append(&self, event: &Event) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        let mut slot = self.opened()?;
        let Some(file) = slot.as_mut() else {
            return Err(io::ErrorKind::NotFound.into());
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
    match options
        .write(true)
        .create_new(true)
        .open(folder.join(".gitignore"))
    {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl AuditSink for FileAudit {
    fn ready(&self) -> Result<(), AuditError> {
        self.opened()
            .map(drop)
            .map_err(|source| self.failed(source))
    }

    fn record(&self, event: &Event) -> Result<(), AuditError> {
        self.append(event).map_err(|source| self.failed(source))
    }

    fn wants_arguments(&self) -> bool {
        self.settings.log_args
    }
}
