//! The writer of the log. It keeps the file open and knows the last line, so that an event costs one write.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use mimir_core::config::{AuditDurability, AuditSettings};
use mimir_core::files;

use super::batch::TimedLine;
use super::head::{self, HeadFile, HeadState};
use super::line::{LineDraft, UnsealedLine};
use super::log_paths::{LogPaths, is_at};
use super::tail::{LastLine, LogTail, TrailingBytes};
use super::{EventKind, LogHead, is_full, reserve};
use mimir_core::audit::rfc3339;

/// The end of the log as known to this writer.
pub(super) struct ChainWriter {
    /// The head file, which is also the lock: locked from [`ChainWriter::open`] or [`ChainWriter::resume`] to
    /// [`ChainWriter::unlock_log`].
    head: HeadFile,
    log: Arc<File>,
    length: u64,
    tip: LogHead,
    /// The head as last written to its file, possibly outdated, and the time of the last event.
    written_head: LogHead,
    last_event_time: SystemTime,
    /// Sealed lines that are not written yet, and the head after them.
    lines: Vec<u8>,
    next_tip: LogHead,
    /// Recovery details to be recorded before the next event.
    recovery: Option<ChainRecovery>,
    /// Number of times that the writer was resumed.
    resume_count: u32,
    /// True if the reserve was used.
    reserve_used: bool,
}

/// Damage found when the log was opened.
#[derive(Default)]
struct ChainRecovery {
    reasons: Vec<String>,
    /// Bytes at the end that do not form a line.
    torn: Option<TrailingBytes>,
    /// True if the last line lacks its line end.
    lacks_line_end: bool,
    /// Reason why the log had no valid head.
    lost_head: Option<HeadLoss>,
}

/// Reason why the log had no valid head. A crash never removes the head; an attacker might, to hide that lines were
/// removed from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum HeadLoss {
    Missing,
    Damaged,
}

impl ChainRecovery {
    /// Records the bytes after the line `last`. If they are the next line without its line end, returns the head of
    /// that line, and otherwise `last`.
    fn record_trailing_bytes(&mut self, trailing_bytes: TrailingBytes, last: LogHead) -> LogHead {
        self.lacks_line_end = !trailing_bytes.ended;
        if let Some((link, hash)) = trailing_bytes.unended_line
            && (link.seq, link.prev) == (last.seq + 1, last.hash)
        {
            self.reasons.push("a crash cut off a line end".to_owned());
            let seq = link.seq;
            return LogHead { seq, hash };
        }
        self.reasons.push("a crash cut off a line".to_owned());
        self.torn = Some(trailing_bytes);
        last
    }
}

/// A line that the log writes about itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MaintenanceEntry {
    #[serde(serialize_with = "rfc3339")]
    time: SystemTime,
    event: EventKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// For `rotated`: the first line that remains when older ones are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_kept: Option<u64>,
    /// For `recovered`: the number of bytes before this line that do not form a line, and their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_sha256: Option<String>,
    /// For `recovered`: the reason why the log had no valid head.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_head: Option<HeadLoss>,
    ok: bool,
}

impl MaintenanceEntry {
    fn new(event: EventKind, time: SystemTime) -> Self {
        Self {
            time,
            event,
            subject: None,
            detail: None,
            first_kept: None,
            torn_bytes: None,
            torn_sha256: None,
            lost_head: None,
            ok: true,
        }
    }
}

/// Number of resumes after which a writer checks that its file is still the log, and was not removed or moved. A check
/// at each resume would cost as much as the write.
const CHECK_EVERY: u32 = 32;

/// Maximum interval between two events of a burst.
const BURST_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of attempts to open a head file that is being replaced.
const MAX_OPEN_ATTEMPTS: u32 = 100;

impl ChainWriter {
    /// Opens the log, creates it if it is missing, and takes the lock.
    pub(super) fn open(paths: &LogPaths) -> io::Result<Self> {
        paths.create_folder()?;
        let head = open_locked_head(paths)?;
        let mut log = open_log(paths)?;
        let mut tail = LogTail::read(&log)?;
        if let Some(LastLine { tip, rotated: true }) = tail.last {
            // The writer of that line stopped before it renamed the file.
            rename_full_file(paths, tip.seq)?;
            log = open_log(paths)?;
            tail = LogTail::read(&log)?;
        }
        let last = match tail.last {
            Some(last) => Some(last.tip),
            None => last_of_full_files(paths)?,
        };
        let mut last = last.unwrap_or(LogHead::START);
        let mut recovery = ChainRecovery::default();
        if let Some(trailing_bytes) = tail.trailing_bytes {
            last = recovery.record_trailing_bytes(trailing_bytes, last);
        }
        let mut head_state = LogHead::read(head.file())?;
        if head_state == HeadState::Nothing && last == LogHead::START && recovery.reasons.is_empty()
        {
            // The head exists from the first line on: if it is missing later, it was removed.
            last.write(head.file())?;
            head_state = HeadState::Head(last);
        }
        let (tip, why) = reconcile(head_state, last);
        let written_head = match head_state {
            HeadState::Head(head) => head,
            HeadState::Nothing | HeadState::Damaged => LogHead::START,
        };
        recovery.reasons.extend(why);
        recovery.lost_head = match head_state {
            HeadState::Nothing if last.seq > 0 => Some(HeadLoss::Missing),
            HeadState::Damaged => Some(HeadLoss::Damaged),
            HeadState::Nothing | HeadState::Head(_) => None,
        };
        Ok(Self {
            head,
            log: Arc::new(log),
            length: tail.length,
            tip,
            written_head,
            last_event_time: SystemTime::UNIX_EPOCH,
            lines: Vec::new(),
            next_tip: tip,
            recovery: (!recovery.reasons.is_empty()).then_some(recovery),
            resume_count: 0,
            reserve_used: false,
        })
    }

    /// Takes the lock again. Returns false if the log has changed since, so that the writer no longer knows the end.
    pub(super) fn resume(&mut self, paths: &LogPaths) -> io::Result<bool> {
        self.head.lock()?;
        self.resume_count = self.resume_count.wrapping_add(1);
        // Not by metadata: reading the time of the last write slows down the next write.
        let length = (&*self.log).seek(SeekFrom::End(0))?;
        Ok(length == self.length
            && (!self.resume_count.is_multiple_of(CHECK_EVERY) || is_at(&self.log, paths.log())?))
    }

    /// Releases the lock.
    pub(super) fn unlock_log(&mut self) -> io::Result<()> {
        self.head.unlock()
    }

    /// Returns true if the reserve was used since the last call.
    pub(super) fn take_reserve_used(&mut self) -> bool {
        std::mem::take(&mut self.reserve_used)
    }

    /// Returns the last line as known to this writer.
    pub(super) fn tip(&self) -> LogHead {
        self.tip
    }

    /// Returns the current file of the log.
    pub(super) fn log(&self) -> Arc<File> {
        Arc::clone(&self.log)
    }

    /// Writes events, with a single write if they fit into one file. Requires the lock.
    pub(super) fn append<'a>(
        &mut self,
        events: impl IntoIterator<Item = TimedLine<'a>>,
        paths: &LogPaths,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let mut pause = Duration::ZERO;
        for (line, time) in events {
            // A clock that was set back counts as a pause.
            pause = time
                .duration_since(self.last_event_time)
                .unwrap_or(BURST_INTERVAL);
            self.last_event_time = time;
            if let Some(recovery) = self.recovery.take() {
                self.recover(recovery, time, paths)?;
            }
            let length = self.length + self.lines.len() as u64;
            if length > 0 && length + line.len() > settings.max_bytes {
                self.write(paths, true)?;
                self.rotate(time, paths, settings)?;
            }
            self.seal(line)?;
        }
        self.write(paths, pause >= BURST_INTERVAL)
    }

    /// Links a line to the chain and adds it to the lines to be written.
    fn seal(&mut self, line: UnsealedLine<'_>) -> io::Result<()> {
        self.next_tip = line.seal(&self.next_tip, &mut self.lines)?;
        Ok(())
    }

    /// Writes the sealed lines, and the head if it is due or lags by [`head::WRITE_EVERY`] lines.
    fn write(&mut self, paths: &LogPaths, is_head_due: bool) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let is_head_due = is_head_due
            || self.next_tip.seq.saturating_sub(self.written_head.seq) >= head::WRITE_EVERY;
        if let Err(error) = self.write_or_truncate(is_head_due) {
            // The reserve is meant for this case. Without it, the error goes to the caller.
            if !is_full(&error) || !reserve::release(paths.reserve())? {
                return Err(error);
            }
            self.reserve_used = true;
            self.write_or_truncate(is_head_due)?;
        }
        if is_head_due {
            self.written_head = self.next_tip;
        }
        self.length += self.lines.len() as u64;
        self.tip = self.next_tip;
        self.lines.clear();
        Ok(())
    }

    /// Writes the lines, and the head if it is due; on failure neither is written.
    fn write_or_truncate(&self, is_head_due: bool) -> io::Result<()> {
        let mut written = (&*self.log).write_all(&self.lines);
        if is_head_due {
            written = written.and_then(|()| self.next_tip.write(self.head.file()));
        }
        if written.is_err() {
            // If this fails as well, the next writer finds a torn line.
            let _ = self.log.set_len(self.length);
        }
        written
    }

    /// Records damage that was found. Bytes that do not form a line stay in the file.
    fn recover(
        &mut self,
        recovery: ChainRecovery,
        time: SystemTime,
        paths: &LogPaths,
    ) -> io::Result<()> {
        let mut entry = MaintenanceEntry::new(EventKind::Recovered, time);
        entry.detail = Some(recovery.reasons.join("; "));
        entry.torn_bytes = recovery.torn.map(|torn| torn.bytes);
        entry.torn_sha256 = recovery.torn.map(|torn| torn.sha256.to_string());
        entry.lost_head = recovery.lost_head;
        if recovery.lacks_line_end {
            self.lines.push(b'\n');
        }
        self.seal(LineDraft::new(&entry)?.unsealed())?;
        self.write(paths, true)
    }

    /// Ends the current file, continues in a new one, and removes expired files.
    fn rotate(
        &mut self,
        time: SystemTime,
        paths: &LogPaths,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let last = self.tip.seq + 1;
        let full = paths.segment(last);
        let segments = paths.segments()?;
        let keep = settings.keep.max(1) as usize;
        let (expired, _) = segments.split_at((segments.len() + 1).saturating_sub(keep));
        let mut entry = MaintenanceEntry::new(EventKind::Rotated, time);
        entry.subject = full
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        entry.first_kept = expired.last().map(|segment| segment.last + 1);
        self.seal(LineDraft::new(&entry)?.unsealed())?;
        self.write(paths, true)?;
        let durable = settings.durability == AuditDurability::Fsync;
        if durable {
            self.log.sync_data()?;
        }
        rename_full_file(paths, last)?;
        self.log = Arc::new(open_log(paths)?);
        self.length = 0;
        if durable {
            paths.sync_names()?;
        }
        for segment in expired {
            // Files that cannot be removed now are removed at the next rotation.
            if let Err(error) = std::fs::remove_file(&segment.path) {
                tracing::warn!(%error, path = %segment.path.display(), "cannot remove an old audit log file");
            }
        }
        Ok(())
    }
}

impl Drop for ChainWriter {
    /// Writes the head, so that lines that are removed from the end later are noticed.
    fn drop(&mut self) {
        if self.written_head == self.tip || self.head.lock().is_err() {
            return;
        }
        let is_behind = match LogHead::read(self.head.file()) {
            Ok(HeadState::Head(head)) => head.seq < self.tip.seq,
            // A damaged or missing head stays as it is, and verification reports it.
            Ok(HeadState::Nothing | HeadState::Damaged) | Err(_) => false,
        };
        if is_behind && let Err(error) = self.tip.write(self.head.file()) {
            tracing::warn!(%error, "audit.head is behind the log");
        }
    }
}

/// Opens the head file and takes the lock. If the file was replaced meanwhile, opens it again.
fn open_locked_head(paths: &LogPaths) -> io::Result<HeadFile> {
    for _ in 0..MAX_OPEN_ATTEMPTS {
        let file = files::open_private(paths.head(), OpenOptions::new().read(true).write(true))?;
        let mut head = HeadFile::new(file);
        head.lock()?;
        if is_at(head.file(), paths.head())? {
            return Ok(head);
        }
    }
    Err(io::Error::other(
        "`audit.head` is being replaced continuously",
    ))
}

fn open_log(paths: &LogPaths) -> io::Result<File> {
    files::open_private(paths.log(), OpenOptions::new().read(true).append(true))
}

/// Renames the full file.
fn rename_full_file(paths: &LogPaths, last: u64) -> io::Result<()> {
    let full = paths.segment(last);
    if full.exists() {
        let message = format!(
            "{} already exists; move it to another folder",
            full.display()
        );
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    std::fs::rename(paths.log(), full)
}

/// Returns the last line of the newest full file.
fn last_of_full_files(paths: &LogPaths) -> io::Result<Option<LogHead>> {
    let Some(segment) = paths.segments()?.pop() else {
        return Ok(None);
    };
    let tail = LogTail::read(&paths.open(&segment.path)?)?;
    Ok(tail.last.map(|last| last.tip))
}

/// Determines the end of the chain, with a reason if head and log differ. The chain continues after the later of the
/// two: the head is behind after a crash, and the log is behind if lines were removed from its end.
fn reconcile(head_state: HeadState, log: LogHead) -> (LogHead, Option<String>) {
    match head_state {
        HeadState::Nothing if log.seq == 0 => (log, None),
        HeadState::Nothing => (log, Some("audit.head was missing".to_owned())),
        HeadState::Damaged => (log, Some("audit.head was damaged".to_owned())),
        HeadState::Head(head) if head == log => (log, None),
        HeadState::Head(head) if head.is_slightly_behind(log.seq) => (log, None),
        HeadState::Head(head) if head.seq < log.seq => {
            let why = format!(
                "audit.head named line {}, but the log had reached line {}",
                head.seq, log.seq
            );
            (log, Some(why))
        }
        HeadState::Head(head) => {
            let why = format!(
                "audit.head named line {}, which was missing or different in the log; the last line was {}",
                head.seq, log.seq
            );
            (head, Some(why))
        }
    }
}
