//! The record of a call that is running.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use tempfile::NamedTempFile;

use super::{RecordDocument, RecordedChange, UndoTarget};
use crate::backend::create_backups_folder;

/// The end of a record, after its last change.
const END: &[u8] = b"]}";

/// Returns the path of a call's record.
pub(super) fn record_path(target: &UndoTarget) -> PathBuf {
    target.folder.join(format!("{}.json", target.id))
}

/// The record on disk, which is valid JSON after each change. The states after the call are not known yet.
#[derive(Debug)]
pub(super) struct RecordFile {
    file: File,
    /// The position after the last change.
    end: u64,
    empty: bool,
}

impl RecordFile {
    /// Creates the record, which must not exist, and the folder of the backups.
    pub(super) fn create(target: &UndoTarget, record: &RecordDocument<'_>) -> io::Result<Self> {
        create_backups_folder(&target.workspace, &target.folder)?;
        let json = serde_json::to_vec(record)?;
        let mut file = File::create_new(record_path(target))?;
        file.write_all(&json)?;
        Ok(Self::at_end(file, &json, record))
    }

    /// Writes the whole record, in place of the one on disk.
    pub(super) fn replace(target: &UndoTarget, record: &RecordDocument<'_>) -> io::Result<Self> {
        create_backups_folder(&target.workspace, &target.folder)?;
        let json = serde_json::to_vec(record)?;
        let mut file = NamedTempFile::new_in(&target.folder)?;
        file.write_all(&json)?;
        let file = file.persist(record_path(target))?;
        Ok(Self::at_end(file, &json, record))
    }

    fn at_end(file: File, json: &[u8], record: &RecordDocument<'_>) -> Self {
        Self {
            file,
            end: (json.len() - END.len()) as u64,
            empty: record.changes.is_empty(),
        }
    }

    /// Appends a change. If that fails, the record is left as it was.
    pub(super) fn append(&mut self, change: &RecordedChange) -> io::Result<()> {
        let mut json = if self.empty { Vec::new() } else { vec![b','] };
        serde_json::to_writer(&mut json, change)?;
        json.extend_from_slice(END);
        self.file.seek(SeekFrom::Start(self.end))?;
        if let Err(error) = self.file.write_all(&json) {
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(END)?;
            self.file.set_len(self.end + END.len() as u64)?;
            return Err(error);
        }
        self.end += (json.len() - END.len()) as u64;
        self.empty = false;
        Ok(())
    }
}
