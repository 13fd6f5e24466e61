//! Reading of new lines while other processes write to the log, across rotations.

use std::fs::File;
use std::io;

use super::line::ChainLink;
use super::log_paths::{LogPaths, is_at};
use super::snapshot::{AuditLog, LogSnapshot};
use super::tail::{is_rotated, read_range};

/// Maximum number of bytes read at once.
const MAX_READ_BYTES: u64 = 1 << 20;

/// A reader that returns new lines of a log.
#[derive(Debug)]
pub struct LogFollower {
    paths: LogPaths,
    file: Option<File>,
    /// Offset up to which the file was read, and the beginning of a line that is not complete yet.
    offset: u64,
    partial_line: Vec<u8>,
    /// Number of the last line.
    seq: u64,
    /// True if the last line was the last of its file.
    file_ended: bool,
}

impl LogFollower {
    /// Creates a reader that begins after the last whole line of `snapshot`.
    pub fn after(log: &AuditLog, snapshot: LogSnapshot) -> io::Result<Self> {
        let mut follower = Self {
            paths: log.paths.clone(),
            file: None,
            offset: 0,
            partial_line: Vec::new(),
            seq: 0,
            file_ended: false,
        };
        for line in snapshot.last(1)? {
            follower.record_line(&line);
        }
        if let Some(last) = snapshot.parts.into_iter().next_back() {
            let tail = last.length.saturating_sub(MAX_READ_BYTES);
            let bytes = read_range(&last.file, tail, last.length)?;
            let incomplete = bytes.iter().rev().take_while(|byte| **byte != b'\n');
            follower.partial_line = bytes[bytes.len() - incomplete.count()..].to_vec();
            follower.offset = last.length;
            follower.file = Some(last.file);
        }
        Ok(follower)
    }

    /// Returns the new lines without their line ends. Does not wait for lines.
    pub fn poll(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        loop {
            self.read(&mut lines)?;
            // A file is read to its end before the reader moves to the next one.
            if !self.has_next_file()? || self.read(&mut lines)? {
                return Ok(lines);
            }
            if !self.open_next_file()? {
                return Ok(lines);
            }
        }
    }

    /// Reads the new bytes. Returns false if there were none.
    fn read(&mut self, lines: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let bytes = read_range(file, self.offset, self.offset + MAX_READ_BYTES)?;
        self.offset += bytes.len() as u64;
        let is_new = !bytes.is_empty();
        self.partial_line.extend_from_slice(&bytes);
        let Some(end) = self.partial_line.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(is_new);
        };
        let rest = self.partial_line.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial_line, rest);
        for line in whole[..end].split(|byte| *byte == b'\n') {
            self.record_line(line);
            lines.push(line.to_vec());
        }
        Ok(is_new)
    }

    fn record_line(&mut self, line: &[u8]) {
        if let Some(link) = ChainLink::read(line) {
            self.seq = link.seq;
            self.file_ended = is_rotated(line);
        }
    }

    /// Returns true if the log continues in another file.
    fn has_next_file(&self) -> io::Result<bool> {
        match &self.file {
            Some(_) if self.file_ended => Ok(true),
            Some(file) => Ok(!is_at(file, self.paths.log())?),
            None => Ok(true),
        }
    }

    /// Opens the next file: a full file with later lines, or the current file. Returns false if it does not exist yet.
    fn open_next_file(&mut self) -> io::Result<bool> {
        let segments = self.paths.segments()?;
        let later = segments.iter().find(|segment| segment.last > self.seq);
        if let (None, Some(file)) = (later, &self.file)
            && is_at(file, self.paths.log())?
        {
            // The file has its last line and is about to be renamed.
            return Ok(false);
        }
        let path = later.map_or(self.paths.log(), |segment| segment.path.as_path());
        let file = match self.paths.open(path) {
            Ok(file) => file,
            // Between two files, or just renamed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        self.file = Some(file);
        self.offset = 0;
        self.partial_line.clear();
        self.file_ended = false;
        Ok(true)
    }
}
