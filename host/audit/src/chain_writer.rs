//! The end of the log, held open by a writer. All functions here require the lock of the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use mimir_core::config::{AuditDurability, AuditSettings};
use mimir_core::files;

use super::batch::TimedLine;
use super::head::{self, HeadState};
use super::line::{LineDraft, UnsealedLine};
use super::log_paths::{LogPaths, is_at};
use super::tail::{LastLine, LogTail, TrailingBytes};
use super::{EventKind, LogHead, is_full, reserve};
use mimir_core::audit::rfc3339;

/// The end of the log as known to this writer.
pub(super) struct ChainWriter {
    /// The head file, which is also the lock: locked from [`ChainWriter::open`] or [`ChainWriter::resume`] to
    /// [`ChainWriter::leave`].
    head: File,
    log: Arc<File>,
    length: u64,
    tip: LogHead,
    /// The head as last written to its file, possibly outdated, and the time of the last event.
    headed: LogHead,
    latest: SystemTime,
    /// Sealed lines that are not written yet, and the head after them.
    lines: Vec<u8>,
    next: LogHead,
    /// Recovery details to be recorded before the next event.
    recovery: Option<ChainRecovery>,
    /// Number of times that it was resumed.
    resumed: u32,
    /// True if the reserve was used.
    reserve_used: bool,
}

/// Damage found when the log was opened.
#[derive(Default)]
struct ChainRecovery {
    why: Vec<String>,
    /// Bytes at the end that do not form a line.
    torn: Option<TrailingBytes>,
    /// True if the last line lacks its line end.
    open: bool,
    /// The reason why the head could not be read.
    lost: Option<HeadLoss>,
}

/// The reason why no head named the end of the log. A crash never leaves the log without a valid head, but removing it
/// would hide that lines were removed from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum HeadLoss {
    Missing,
    Damaged,
}

impl ChainRecovery {
    /// Records bytes behind the line `last`. If only the line end is missing, they are the next line.
    fn loose(&mut self, loose: TrailingBytes, last: LogHead) -> LogHead {
        self.open = !loose.ended;
        if let Some((link, hash)) = loose.whole
            && (link.seq, link.prev) == (last.seq + 1, last.hash)
        {
            self.why.push("a crash had cut off a line end".to_owned());
            let seq = link.seq;
            return LogHead { seq, hash };
        }
        self.why.push("a crash had torn a line".to_owned());
        self.torn = Some(loose);
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
    /// For `recovered`: the reason why no head named the end of the log.
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

/// Number of resumes after which the log is looked up by name. In between, a writer does not notice that the file was
/// removed or moved; a check each time costs as much as the write.
const CHECK_EVERY: u32 = 32;

/// Maximum interval of events that count as a burst.
const BURST_INTERVAL: Duration = Duration::from_millis(10);

/// Number of attempts to open a head that is being replaced.
const MAX_OPEN_ATTEMPTS: u32 = 100;

impl ChainWriter {
    /// Opens the log, creates it if it is missing, and takes the lock.
    pub(super) fn open(place: &LogPaths) -> io::Result<Self> {
        place.prepare()?;
        let head = locked(place)?;
        let mut log = open_log(place)?;
        let mut tail = LogTail::read(&log)?;
        if let Some(LastLine { tip, rotated: true }) = tail.last {
            // The writer of that line stopped before it renamed the file.
            give_way(place, tip.seq)?;
            log = open_log(place)?;
            tail = LogTail::read(&log)?;
        }
        let last = match tail.last {
            Some(last) => Some(last.tip),
            None => newest(place)?,
        };
        let mut last = last.unwrap_or(LogHead::START);
        let mut found = ChainRecovery::default();
        if let Some(loose) = tail.loose {
            last = found.loose(loose, last);
        }
        let mut known = LogHead::read(&head)?;
        if known == HeadState::Nothing && last == LogHead::START && found.why.is_empty() {
            // The head exists from the first line on: if it is missing later, it was removed.
            last.write(&head)?;
            known = HeadState::Head(last);
        }
        let (tip, why) = settle(known, last);
        let headed = match known {
            HeadState::Head(head) => head,
            HeadState::Nothing | HeadState::Damaged => LogHead::START,
        };
        found.why.extend(why);
        found.lost = match known {
            HeadState::Nothing if last.seq > 0 => Some(HeadLoss::Missing),
            HeadState::Damaged => Some(HeadLoss::Damaged),
            HeadState::Nothing | HeadState::Head(_) => None,
        };
        Ok(Self {
            head,
            log: Arc::new(log),
            length: tail.length,
            tip,
            headed,
            latest: SystemTime::UNIX_EPOCH,
            lines: Vec::new(),
            next: tip,
            recovery: (!found.why.is_empty()).then_some(found),
            resumed: 0,
            reserve_used: false,
        })
    }

    /// Takes the lock again. Returns false if another writer has written since, so that this one no longer knows the
    /// end.
    pub(super) fn resume(&mut self, place: &LogPaths) -> io::Result<bool> {
        head::lock(&self.head)?;
        self.resumed = self.resumed.wrapping_add(1);
        // Not by metadata: reading the time of the last write slows down the next write.
        let length = (&*self.log).seek(SeekFrom::End(0))?;
        Ok(length == self.length
            && (!self.resumed.is_multiple_of(CHECK_EVERY) || is_at(&self.log, place.log())?))
    }

    /// Releases the lock.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.head.unlock()
    }

    /// Returns true if the reserve was used since the last call.
    pub(super) fn take_reserve_used(&mut self) -> bool {
        std::mem::take(&mut self.reserve_used)
    }

    /// The last line as known to this writer.
    pub(super) fn tip(&self) -> LogHead {
        self.tip
    }

    /// The file that was written to last.
    pub(super) fn log(&self) -> Arc<File> {
        Arc::clone(&self.log)
    }

    /// Writes events, with a single write if they go into one file.
    pub(super) fn append<'a>(
        &mut self,
        events: impl IntoIterator<Item = TimedLine<'a>>,
        place: &LogPaths,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let mut pause = Duration::ZERO;
        for (piece, time) in events {
            // A clock that was set back counts as a pause.
            pause = time.duration_since(self.latest).unwrap_or(BURST_INTERVAL);
            self.latest = time;
            if let Some(recovery) = self.recovery.take() {
                self.recover(recovery, time, place)?;
            }
            let length = self.length + self.lines.len() as u64;
            if length > 0 && length + piece.len() > settings.max_bytes {
                self.write(place, true)?;
                self.rotate(time, place, settings)?;
            }
            self.seal(piece)?;
        }
        self.write(place, pause >= BURST_INTERVAL)
    }

    fn seal(&mut self, piece: UnsealedLine<'_>) -> io::Result<()> {
        self.next = piece.seal(&self.next, &mut self.lines)?;
        Ok(())
    }

    /// Writes the sealed lines, and the head if it is due or enough lines have gathered.
    fn write(&mut self, place: &LogPaths, due: bool) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let due = due || self.next.seq.saturating_sub(self.headed.seq) >= head::WRITE_EVERY;
        if let Err(error) = self.put(due) {
            // The reserve is meant for this case. Without it, the error goes to the caller.
            if !is_full(&error) || !reserve::release(place.reserve())? {
                return Err(error);
            }
            self.reserve_used = true;
            self.put(due)?;
        }
        if due {
            self.headed = self.next;
        }
        self.length += self.lines.len() as u64;
        self.tip = self.next;
        self.lines.clear();
        Ok(())
    }

    /// Writes the lines, and the head if it is due; on failure neither is written.
    fn put(&self, due: bool) -> io::Result<()> {
        let mut written = (&*self.log).write_all(&self.lines);
        if due {
            written = written.and_then(|()| self.next.write(&self.head));
        }
        if written.is_err() {
            // If this fails as well, the next writer finds a torn line.
            let _ = self.log.set_len(self.length);
        }
        written
    }

    /// Records the damage that was found. Bytes that do not form a line stay in the file.
    fn recover(
        &mut self,
        found: ChainRecovery,
        time: SystemTime,
        place: &LogPaths,
    ) -> io::Result<()> {
        let mut own = MaintenanceEntry::new(EventKind::Recovered, time);
        own.detail = Some(found.why.join("; "));
        own.torn_bytes = found.torn.map(|torn| torn.bytes);
        own.torn_sha256 = found.torn.map(|torn| torn.sha256.to_string());
        own.lost_head = found.lost;
        if found.open {
            self.lines.push(b'\n');
        }
        self.seal(LineDraft::new(&own)?.piece())?;
        self.write(place, true)
    }

    /// Ends this file and continues in a new one.
    fn rotate(
        &mut self,
        time: SystemTime,
        place: &LogPaths,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let last = self.tip.seq + 1;
        let full = place.segment(last);
        let segments = place.segments()?;
        let keep = settings.keep.max(1) as usize;
        let (go, _) = segments.split_at((segments.len() + 1).saturating_sub(keep));
        let mut own = MaintenanceEntry::new(EventKind::Rotated, time);
        own.subject = full
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        own.first_kept = go.last().map(|segment| segment.last + 1);
        self.seal(LineDraft::new(&own)?.piece())?;
        self.write(place, true)?;
        let durable = settings.durability == AuditDurability::Fsync;
        if durable {
            self.log.sync_data()?;
        }
        give_way(place, last)?;
        self.log = Arc::new(open_log(place)?);
        self.length = 0;
        if durable {
            place.sync_names()?;
        }
        for segment in go {
            // Files that cannot be removed now are removed at the next rotation.
            if let Err(error) = std::fs::remove_file(&segment.path) {
                tracing::warn!(%error, path = %segment.path.display(), "cannot remove an old audit log file");
            }
        }
        Ok(())
    }
}

impl Drop for ChainWriter {
    /// Writes the head at the end. If lines were removed before, the head shows it.
    fn drop(&mut self) {
        if self.headed == self.tip || head::lock(&self.head).is_err() {
            return;
        }
        let behind = match LogHead::read(&self.head) {
            Ok(HeadState::Head(head)) => head.seq < self.tip.seq,
            // A damaged or missing head stays as it is, and verification reports it.
            Ok(HeadState::Nothing | HeadState::Damaged) | Err(_) => false,
        };
        if behind && let Err(error) = self.tip.write(&self.head) {
            tracing::warn!(%error, "audit.head is behind the log");
        }
    }
}

/// Opens the head and takes the lock. If the head was replaced meanwhile, it is opened again.
fn locked(place: &LogPaths) -> io::Result<File> {
    for _ in 0..MAX_OPEN_ATTEMPTS {
        let file = files::open_private(place.head(), OpenOptions::new().read(true).write(true))?;
        head::lock(&file)?;
        if is_at(&file, place.head())? {
            return Ok(file);
        }
    }
    Err(io::Error::other(
        "`audit.head` is being replaced continuously",
    ))
}

fn open_log(place: &LogPaths) -> io::Result<File> {
    files::open_private(place.log(), OpenOptions::new().read(true).append(true))
}

/// Renames the full file.
fn give_way(place: &LogPaths, last: u64) -> io::Result<()> {
    let full = place.segment(last);
    if full.exists() {
        let message = format!(
            "{} already exists; move it to another folder",
            full.display()
        );
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    std::fs::rename(place.log(), full)
}

/// The last line of the newest full file.
fn newest(place: &LogPaths) -> io::Result<Option<LogHead>> {
    let Some(segment) = place.segments()?.pop() else {
        return Ok(None);
    };
    let tail = LogTail::read(&place.open(&segment.path)?)?;
    Ok(tail.last.map(|last| last.tip))
}

/// Determines the end of the chain, with a note if head and log differ. The one that is further along is right: the
/// head is behind after a crash, and the log is behind if lines were removed from its end.
fn settle(known: HeadState, log: LogHead) -> (LogHead, Option<String>) {
    match known {
        HeadState::Nothing if log.seq == 0 => (log, None),
        HeadState::Nothing => (log, Some("audit.head was missing".to_owned())),
        HeadState::Damaged => (log, Some("audit.head was damaged".to_owned())),
        HeadState::Head(head) if head == log => (log, None),
        HeadState::Head(head) if head.is_little_behind(log.seq) => (log, None),
        HeadState::Head(head) if head.seq < log.seq => {
            let why = format!(
                "audit.head named line {}, but the log had reached line {}",
                head.seq, log.seq
            );
            (log, Some(why))
        }
        HeadState::Head(head) => {
            let why = format!(
                "audit.head named line {}, which the log lacked or had differently; its last line was {}",
                head.seq, log.seq
            );
            (head, Some(why))
        }
    }
}
