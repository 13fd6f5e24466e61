//! The record as a file of JSON lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::config::{AuditSettings, Durability};

use super::{AuditError, AuditSink, Event};

/// A file that events are appended to, each with a single write, so that several processes and
/// threads can share it. There is no lock here: the system appends one write after the other, and
/// threads that sleep for one another cost more than that. Opened at the first event, so that what
/// records nothing makes no file.
pub struct FileAudit {
    path: PathBuf,
    settings: AuditSettings,
    file: OnceLock<File>,
}

/// The log itself, `state` and `.mimir`: what lies below the workspace root.
const OWN_LEVELS: usize = 3;

impl FileAudit {
    /// A log at `path`; its folder is made when it is needed.
    pub fn new(path: impl Into<PathBuf>, settings: AuditSettings) -> Self {
        Self {
            path: path.into(),
            settings,
            file: OnceLock::new(),
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

    /// The open file. Of two that open it at once, one is used.
    fn opened(&self) -> io::Result<&File> {
        match self.file.get() {
            Some(file) => Ok(file),
            None => {
                let file = self.open()?;
                Ok(self.file.get_or_init(|| file))
            }
        }
    }

    fn failed(&self, source: io::Error) -> AuditError {
        AuditError {
            place: self.path.display().to_string(),
            source,
        }
    }

    fn append(&self, event: &Event) -> io::Result<()> {
        let mut line = Vec::with_capacity(LINE);
        serde_json::to_writer(&mut line, event)?;
        line.push(b'\n');
        let mut file = self.opened()?;
        file.write_all(&line)?;
        match self.settings.durability {
            Durability::Write => Ok(()),
            Durability::Fsync => file.sync_data(),
        }
    }
}

/// Room for a usual event, so that the line need not grow while it is written.
const LINE: usize = 768;

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
