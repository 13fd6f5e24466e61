//! A snapshot of the log, for reading while others write.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::LineHash;
use super::head::{self, HeadState, LogHead};
use super::line::ChainLink;
use super::log_paths::LogPaths;
use super::tail::read_range;

/// An audit log for reading.
#[derive(Debug, Clone)]
pub struct AuditLog {
    pub(super) paths: LogPaths,
}

impl AuditLog {
    /// Creates a reader for the log whose current file is at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            paths: LogPaths::from_log(path.into()),
        }
    }

    /// Returns the path of the current file.
    pub fn path(&self) -> &Path {
        self.paths.log()
    }

    /// Takes a snapshot of the log. Writers wait while it is taken, but not while it is read.
    pub fn snapshot(&self) -> io::Result<LogSnapshot> {
        let head = match self.paths.open(self.paths.head()) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Dropping the file releases the lock.
        let head_state = match &head {
            Some(file) => {
                head::lock(file)?;
                LogHead::read(file)?
            }
            None => HeadState::Nothing,
        };
        let mut parts = Vec::new();
        for segment in self.paths.segments()? {
            parts.push(SegmentSnapshot::open(&self.paths, &segment.path)?);
        }
        match SegmentSnapshot::open(&self.paths, self.paths.log()) {
            Ok(part) => parts.push(part),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(LogSnapshot { parts, head_state })
    }
}

/// A file of the log, up to its length at the time of the snapshot.
#[derive(Debug)]
pub(super) struct SegmentSnapshot {
    /// The name of the file.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) length: u64,
}

impl SegmentSnapshot {
    fn open(paths: &LogPaths, path: &Path) -> io::Result<Self> {
        let file = paths.open(path)?;
        Ok(Self {
            name: path
                .file_name()
                .map(|name| mimir_core::text::visible(&name.to_string_lossy()))
                .unwrap_or_default(),
            length: file.metadata()?.len(),
            file,
        })
    }

    /// Calls `visit` with each line until `visit` breaks.
    fn for_each_line(
        &self,
        visit: &mut dyn FnMut(AuditLine<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        (&self.file).seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, (&self.file).take(self.length));
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            if (&mut reader)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut bytes)?
                == 0
            {
                return Ok(ControlFlow::Continue(()));
            }
            let ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
            number += 1;
            let line = AuditLine {
                file: &self.name,
                number,
                bytes: &bytes,
                ended,
            };
            if visit(line).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Calls `visit` with each line, the last one first, until `visit` breaks. Bytes after the last line end count as a
    /// line. A line that is longer than the maximum is left out.
    fn for_each_line_reversed(
        &self,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let mut end = self.length;
        // The beginning of the block that was read last: the end of a line whose beginning is not read yet.
        let mut line_end: Vec<u8> = Vec::new();
        let mut is_too_long = false;
        while end > 0 {
            let start = end.saturating_sub(REVERSE_BLOCK_BYTES);
            let mut block = read_range(&self.file, start, end)?;
            end = start;
            let Some(first_end) = block.iter().position(|byte| *byte == b'\n') else {
                is_too_long |= (line_end.len() + block.len()) as u64 > MAX_LINE_BYTES;
                if is_too_long {
                    line_end.clear();
                } else {
                    block.append(&mut line_end);
                    line_end = block;
                }
                continue;
            };
            let mut lines = block[first_end + 1..].rsplit(|byte| *byte == b'\n');
            if let Some(begin) = lines.next()
                && !std::mem::take(&mut is_too_long)
            {
                let whole = [begin, &line_end].concat();
                if !whole.is_empty() && visit(&whole).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            for line in lines {
                if !line.is_empty() && visit(line).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            block.truncate(first_end);
            line_end = block;
        }
        if line_end.is_empty() || is_too_long {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(visit(&line_end))
    }
}

/// Size of the blocks that are read from the end to the beginning, in bytes.
const REVERSE_BLOCK_BYTES: u64 = 256 << 10;

/// Size of the read buffer in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum length of a line in bytes; a longer line is split. Lines of the log are much shorter.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// A line of a file in the log.
#[derive(Debug, Clone, Copy)]
pub struct AuditLine<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The number of the line in its file, from 1.
    pub number: u64,
    /// The line without its line end.
    pub bytes: &'a [u8],
    /// True if the line has a line end.
    pub ended: bool,
}

/// A snapshot of the log.
#[derive(Debug)]
pub struct LogSnapshot {
    pub(super) parts: Vec<SegmentSnapshot>,
    pub(super) head_state: HeadState,
}

impl LogSnapshot {
    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.parts.len()
    }

    /// Returns the total size of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// Calls `visit` with each line, the oldest first, until `visit` breaks.
    pub fn lines(&self, mut visit: impl FnMut(AuditLine<'_>) -> ControlFlow<()>) -> io::Result<()> {
        for part in &self.parts {
            if part.for_each_line(&mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `visit` with each line, the newest first, until `visit` breaks. Reads no more of the files than it needs.
    pub fn lines_newest_first(
        &self,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for part in self.parts.iter().rev() {
            if part.for_each_line_reversed(&mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns true if the line that `head` names exists, or was removed by rotation.
    pub fn has_line(&self, head: LogHead) -> io::Result<bool> {
        for part in self.parts.iter().rev() {
            let mut matches = None;
            let _ = part.for_each_line(&mut |line| match ChainLink::read(line.bytes) {
                Some(link) if link.seq == head.seq => {
                    matches = Some(LineHash::digest_line(line.bytes) == head.hash);
                    ControlFlow::Break(())
                }
                // The line can only be in an older file.
                Some(link) if link.seq > head.seq => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })?;
            if let Some(matches) = matches {
                return Ok(matches);
            }
        }
        Ok(head.seq == 0 || self.first_seq()?.is_some_and(|first| first > head.seq))
    }

    /// Returns the number of the oldest line, if there is one.
    pub(super) fn first_seq(&self) -> io::Result<Option<u64>> {
        let mut first = None;
        self.lines(|line| {
            first = ChainLink::read(line.bytes).map(|link| link.seq);
            match first {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        Ok(first)
    }

    /// Returns the last `count` lines, the oldest first.
    pub fn last(&self, count: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for part in self.parts.iter().rev() {
            if lines.len() >= count {
                break;
            }
            let mut part_lines = std::collections::VecDeque::new();
            let _ = part.for_each_line(&mut |line| {
                if line.ended {
                    part_lines.push_back(line.bytes.to_vec());
                }
                if part_lines.len() > count - lines.len() {
                    part_lines.pop_front();
                }
                ControlFlow::Continue(())
            })?;
            lines.splice(..0, part_lines);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reversed(text: &[u8]) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut lines = Vec::new();
        let snapshot = AuditLog::at(&path).snapshot().unwrap();
        let read = snapshot.lines_newest_first(|line| {
            lines.push(line.to_vec());
            ControlFlow::Continue(())
        });
        read.unwrap();
        lines
    }

    #[test]
    fn snapshot_lines_newest_first_are_those_of_the_file() {
        let block = usize::try_from(REVERSE_BLOCK_BYTES).unwrap();
        for lengths in [
            vec![],
            vec![1],
            vec![3, 1, 5],
            vec![block - 1, 1, block, block + 1, 2],
            vec![5, 3 * block, 7],
            vec![block / 2; 5],
        ] {
            let lines: Vec<Vec<u8>> = lengths
                .iter()
                .enumerate()
                .map(|(at, length)| vec![b'a' + u8::try_from(at).unwrap(); *length])
                .collect();
            let mut text: Vec<u8> = lines
                .iter()
                .flat_map(|line| [line, &b"\n"[..]].concat())
                .collect();
            let mut expected = lines;
            expected.reverse();
            assert_eq!(reversed(&text), expected);
            text.pop();
            assert_eq!(reversed(&text), expected, "without the last line end");
        }
    }

    #[test]
    fn snapshot_lines_newest_first_end_early() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, "1\n2\n3\n").unwrap();
        let mut first = Vec::new();
        let snapshot = AuditLog::at(&path).snapshot().unwrap();
        let read = snapshot.lines_newest_first(|line| {
            first = line.to_vec();
            ControlFlow::Break(())
        });
        read.unwrap();
        assert_eq!(first, b"3");
    }
}
