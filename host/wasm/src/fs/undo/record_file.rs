//! The record of a call that is running.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};

use super::{RecordDocument, RecordedChange, UndoTarget};
use crate::backend::create_backups_folder;

/// The end of a record, after its last change.
const END: &[u8] = b"]}";

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
        let mut file = File::create_new(target.folder.join(format!("{}.json", target.id)))?;
        file.write_all(&json)?;
        Ok(Self {
            file,
            end: (json.len() - END.len()) as u64,
            empty: true,
        })
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
