//! A log file that is copied from elsewhere, line by line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mimir_core::files;

use crate::LineHash;
use crate::head::{HeadState, LogHead};
use crate::line::ChainLink;
use crate::tail::LogTail;

/// A log file with a copy of a chain. `mimir audit verify` accepts it.
pub struct ExportedLog {
    log: File,
    head: File,
    tip: LogHead,
    path: PathBuf,
}

impl ExportedLog {
    /// Opens the file at `path`, or creates it. Bytes that a crash has left after the last line are removed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let log = files::open_private(path, OpenOptions::new().read(true).append(true))?;
        let head_path = path.with_extension("head");
        let head = files::open_private(&head_path, OpenOptions::new().read(true).write(true))?;
        let tail = LogTail::read(&log)?;
        if let Some(trailing) = tail.trailing_bytes {
            log.set_len(tail.length - trailing.bytes)?;
        }
        let tip = tail.last.map_or(LogHead::START, |last| last.tip);
        if let HeadState::Head(stored) = LogHead::read(&head)?
            && stored.seq > tip.seq
        {
            return Err(Self::invalid(
                path,
                &format!(
                    "line {} is missing at its end: expected the file as it was exported; export into another folder",
                    stored.seq
                ),
            ));
        }
        Ok(Self {
            log,
            head,
            tip,
            path: path.to_owned(),
        })
    }

    fn invalid(path: &Path, text: &str) -> io::Error {
        let path = mimir_core::text::visible(&path.display().to_string());
        io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {text}"))
    }

    /// Returns the last line.
    pub fn tip(&self) -> LogHead {
        self.tip
    }

    /// Appends lines with their line ends. Lines that the file has are skipped. The first line of a file may have any
    /// number, since older lines may have been removed. Fails if a line does not continue the chain.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<u64> {
        let (mut tip, mut new, mut count) = (self.tip, Vec::new(), 0);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let Some(link) = ChainLink::read(text) else {
                return Err(Self::invalid(&self.path, "a line is not a line of the log"));
            };
            if link.seq <= tip.seq {
                continue;
            }
            let continues = (link.seq, link.prev) == (tip.seq + 1, tip.hash);
            if !continues && tip != LogHead::START {
                let text = format!("line {} does not continue line {}", link.seq, tip.seq);
                return Err(Self::invalid(&self.path, &text));
            }
            new.extend_from_slice(text);
            new.push(b'\n');
            count += 1;
            tip = LogHead {
                seq: link.seq,
                hash: LineHash::digest_line(text),
            };
        }
        self.log.write_all(&new)?;
        self.tip = tip;
        Ok(count)
    }

    /// Writes the head, and waits until everything is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.log.sync_data()?;
        self.tip.write(&self.head)?;
        self.head.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AuditLog, LineDraft, verify};
    use serde_json::json;

    fn lines(count: usize) -> Vec<u8> {
        let (mut head, mut lines) = (LogHead::START, Vec::new());
        for number in 0..count {
            let draft = LineDraft::new(&json!({"event": "call", "number": number})).unwrap();
            head = draft.seal(&head, &mut lines).unwrap();
        }
        lines
    }

    #[test]
    fn exported_log_is_continued_and_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writer.jsonl");
        let lines = lines(5);
        let two = lines.split_inclusive(|byte| *byte == b'\n').take(2);
        let two: Vec<u8> = two.flatten().copied().collect();
        let mut log = ExportedLog::open(&path).unwrap();
        assert_eq!(log.append(&two).unwrap(), 2);
        log.sync().unwrap();
        // A crash in the middle of a line.
        drop(log);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":\"ca").unwrap();
        let mut log = ExportedLog::open(&path).unwrap();
        assert_eq!(log.append(&lines).unwrap(), 3);
        assert_eq!(log.append(&lines).unwrap(), 0);
        log.sync().unwrap();
        let snapshot = AuditLog::at(&path).snapshot().unwrap();
        let report = verify(&snapshot, None, None).unwrap();
        assert!(report.ok && report.findings.is_empty(), "{report:?}");
        assert_eq!(report.head, log.tip());
    }

    #[test]
    fn exported_log_may_begin_late_and_has_no_gap_after_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writer.jsonl");
        let all = lines(6);
        let from = |skip: usize, count: usize| -> Vec<u8> {
            let lines = all.split_inclusive(|byte| *byte == b'\n').skip(skip);
            lines.take(count).flatten().copied().collect()
        };
        let mut log = ExportedLog::open(&path).unwrap();
        log.append(&from(3, 3)).unwrap();
        log.sync().unwrap();
        let check = |expected: bool| {
            let snapshot = AuditLog::at(&path).snapshot().unwrap();
            let report = crate::verify_exported(&snapshot).unwrap();
            assert_eq!(report.ok, expected, "{report:?}");
            assert_eq!(report.first, Some(4));
            assert!(!verify(&snapshot, None, None).unwrap().ok);
        };
        check(true);
        std::fs::write(&path, [from(3, 1), from(5, 1)].concat()).unwrap();
        check(false);
    }

    #[test]
    fn exported_log_refuses_lines_of_another_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writer.jsonl");
        let mut log = ExportedLog::open(&path).unwrap();
        log.append(&lines(1)).unwrap();
        let mut other = Vec::new();
        let tip = LogHead {
            seq: 1,
            hash: LineHash::digest_line(b"other"),
        };
        let draft = LineDraft::new(&json!({"event": "call"})).unwrap();
        draft.seal(&tip, &mut other).unwrap();
        let error = log.append(&other).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("line 2 does not continue line 1")
        );
        assert!(log.append(b"{}\n").is_err());
        log.sync().unwrap();
        // Somebody has cut the file.
        std::fs::write(&path, b"").unwrap();
        assert!(ExportedLog::open(&path).is_err());
    }
}
