//! The end of the log, held open by a writer. Everything here happens under the lock of the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use mimir_core::config::{AuditSettings, Durability};
use mimir_core::files;

use super::gather::Entry;
use super::head::{self, Known};
use super::line::{Draft, Piece};
use super::place::{Place, is_at};
use super::tail::{Last, Loose, Tail};
use super::{Head, Kind, is_full, reserve};
use mimir_core::audit::rfc3339;

/// The end of the log as this writer knows it.
pub(super) struct Chain {
    /// The head, which is the lock: held from [`Chain::open`] or [`Chain::resume`] to [`Chain::leave`].
    head: File,
    log: Arc<File>,
    length: u64,
    tip: Head,
    /// What the head says, or an older one, and when the last event was.
    headed: Head,
    latest: SystemTime,
    /// Lines that are sealed and not written yet, and the tip that they make.
    lines: Vec<u8>,
    next: Head,
    /// What has to be said before the next event.
    recovery: Option<Recovery>,
    /// How often it was resumed.
    resumed: u32,
    /// Whether the reserve was used.
    strained: bool,
}

/// What was found when the log was opened.
#[derive(Default)]
struct Recovery {
    why: Vec<String>,
    /// Bytes that are no line.
    torn: Option<Loose>,
    /// Whether the last line needs its end.
    open: bool,
    /// What was the matter with a head that could not be read.
    lost: Option<Lost>,
}

/// Why nothing said where the log ended. A crash leaves no such head, and who takes lines from the end of the
/// log has a reason to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Lost {
    Missing,
    Damaged,
}

impl Recovery {
    /// Bytes behind the line `last`. All of the next line but its end is that line.
    fn loose(&mut self, loose: Loose, last: Head) -> Head {
        self.open = !loose.ended;
        if let Some((link, hash)) = loose.whole
            && (link.seq, link.prev) == (last.seq + 1, last.hash)
        {
            self.why
                .push("a crash had taken the end of a line".to_owned());
            let seq = link.seq;
            return Head { seq, hash };
        }
        self.why.push("a crash had torn a line".to_owned());
        self.torn = Some(loose);
        last
    }
}

/// A line that the log writes about itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Own {
    #[serde(serialize_with = "rfc3339")]
    time: SystemTime,
    event: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Of `rotated`: the first line that is kept, if older ones go.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_kept: Option<u64>,
    /// Of `recovered`: how many bytes before this line are no line, and their hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_sha256: Option<String>,
    /// Of `recovered`: that nothing said where the log ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_head: Option<Lost>,
    ok: bool,
}

impl Own {
    fn new(event: Kind, time: SystemTime) -> Self {
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

/// How often the log is looked up by its name. In between a writer would not notice that somebody has removed
/// or moved the file; asking each time costs as much as the write.
const LOOK_EVERY: u32 = 32;

/// Events that follow each other faster than this are a rush.
const RUSH: Duration = Duration::from_millis(10);

/// How often a head that somebody replaces is opened again.
const TRIES: u32 = 100;

impl Chain {
    /// Opens the log, makes it if it is not there, and takes the lock.
    pub(super) fn open(place: &Place) -> io::Result<Self> {
        place.prepare()?;
        let head = locked(place)?;
        let mut log = open_log(place)?;
        let mut tail = Tail::read(&log)?;
        if let Some(Last { tip, rotated: true }) = tail.last {
            // Whoever wrote that line did not come to the next step.
            give_way(place, tip.seq)?;
            log = open_log(place)?;
            tail = Tail::read(&log)?;
        }
        let last = match tail.last {
            Some(last) => Some(last.tip),
            None => newest(place)?,
        };
        let mut last = last.unwrap_or(Head::START);
        let mut found = Recovery::default();
        if let Some(loose) = tail.loose {
            last = found.loose(loose, last);
        }
        let mut known = Head::read(&head)?;
        if known == Known::Nothing && last == Head::START && found.why.is_empty() {
            // From the first line on there is a head: one that is missing later was taken.
            last.write(&head)?;
            known = Known::Head(last);
        }
        let (tip, why) = settle(known, last);
        let headed = match known {
            Known::Head(head) => head,
            Known::Nothing | Known::Damaged => Head::START,
        };
        found.why.extend(why);
        found.lost = match known {
            Known::Nothing if last.seq > 0 => Some(Lost::Missing),
            Known::Damaged => Some(Lost::Damaged),
            Known::Nothing | Known::Head(_) => None,
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
            strained: false,
        })
    }

    /// Takes the lock again; false if somebody else has written since, and this knows the end no longer.
    pub(super) fn resume(&mut self, place: &Place) -> io::Result<bool> {
        head::lock(&self.head)?;
        self.resumed = self.resumed.wrapping_add(1);
        // Not by its metadata: who asks for the time of the last write makes the next write slower.
        let length = (&*self.log).seek(SeekFrom::End(0))?;
        Ok(length == self.length
            && (!self.resumed.is_multiple_of(LOOK_EVERY) || is_at(&self.log, place.log())?))
    }

    /// Gives up the lock.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.head.unlock()
    }

    /// Whether the reserve was used since this was asked last.
    pub(super) fn was_strained(&mut self) -> bool {
        std::mem::take(&mut self.strained)
    }

    /// The last line as this writer knows it.
    pub(super) fn tip(&self) -> Head {
        self.tip
    }

    /// The file that was written to last.
    pub(super) fn log(&self) -> Arc<File> {
        Arc::clone(&self.log)
    }

    /// Writes events, with one write if they go into one file.
    pub(super) fn append<'a>(
        &mut self,
        events: impl IntoIterator<Item = Entry<'a>>,
        place: &Place,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let mut pause = Duration::ZERO;
        for (piece, time) in events {
            // A clock that was set back is a pause like any other.
            pause = time.duration_since(self.latest).unwrap_or(RUSH);
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
        self.write(place, pause >= RUSH)
    }

    fn seal(&mut self, piece: Piece<'_>) -> io::Result<()> {
        self.next = piece.seal(&self.next, &mut self.lines)?;
        Ok(())
    }

    /// Writes the lines that are sealed, and the head if that is due or has gathered enough lines.
    fn write(&mut self, place: &Place, due: bool) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let due = due || self.next.seq.saturating_sub(self.headed.seq) >= head::EVERY;
        if let Err(error) = self.put(due) {
            // The reserve is kept for this. Without one the call is on its own.
            if !is_full(&error) || !reserve::release(place.reserve())? {
                return Err(error);
            }
            self.strained = true;
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

    /// Writes lines and the head if it is due, or neither.
    fn put(&self, due: bool) -> io::Result<()> {
        let mut written = (&*self.log).write_all(&self.lines);
        if due {
            written = written.and_then(|()| self.next.write(&self.head));
        }
        if written.is_err() {
            // If this fails too, the next writer finds a torn line.
            let _ = self.log.set_len(self.length);
        }
        written
    }

    /// Says what was found. Bytes that are no line stay where they are.
    fn recover(&mut self, found: Recovery, time: SystemTime, place: &Place) -> io::Result<()> {
        let mut own = Own::new(Kind::Recovered, time);
        own.detail = Some(found.why.join("; "));
        own.torn_bytes = found.torn.map(|torn| torn.bytes);
        own.torn_sha256 = found.torn.map(|torn| torn.sha256.to_string());
        own.lost_head = found.lost;
        if found.open {
            self.lines.push(b'\n');
        }
        self.seal(Draft::new(&own)?.piece())?;
        self.write(place, true)
    }

    /// Ends this file and goes on in a new one.
    fn rotate(
        &mut self,
        time: SystemTime,
        place: &Place,
        settings: &AuditSettings,
    ) -> io::Result<()> {
        let last = self.tip.seq + 1;
        let full = place.segment(last);
        let segments = place.segments()?;
        let keep = settings.keep.max(1) as usize;
        let (go, _) = segments.split_at((segments.len() + 1).saturating_sub(keep));
        let mut own = Own::new(Kind::Rotated, time);
        own.subject = full
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        own.first_kept = go.last().map(|segment| segment.last + 1);
        self.seal(Draft::new(&own)?.piece())?;
        self.write(place, true)?;
        let durable = settings.durability == Durability::Fsync;
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
            // What stays now goes next time.
            if let Err(error) = std::fs::remove_file(&segment.path) {
                tracing::warn!(%error, path = %segment.path.display(), "an old file of the audit log stays");
            }
        }
        Ok(())
    }
}

impl Drop for Chain {
    /// Says where the log ends. Lines that are gone by then were taken, and the head says so.
    fn drop(&mut self) {
        if self.headed == self.tip || head::lock(&self.head).is_err() {
            return;
        }
        let behind = match Head::read(&self.head) {
            Ok(Known::Head(head)) => head.seq < self.tip.seq,
            // What is damaged or gone stays so, and is told.
            Ok(Known::Nothing | Known::Damaged) | Err(_) => false,
        };
        if behind && let Err(error) = self.tip.write(&self.head) {
            tracing::warn!(%error, "audit.head is behind the log");
        }
    }
}

/// Opens the head and takes the lock. A head that was replaced meanwhile locks nobody out.
fn locked(place: &Place) -> io::Result<File> {
    for _ in 0..TRIES {
        let file = files::own(place.head(), OpenOptions::new().read(true).write(true))?;
        head::lock(&file)?;
        if is_at(&file, place.head())? {
            return Ok(file);
        }
    }
    Err(io::Error::other("its head is replaced again and again"))
}

fn open_log(place: &Place) -> io::Result<File> {
    files::own(place.log(), OpenOptions::new().read(true).append(true))
}

/// Renames the full file.
fn give_way(place: &Place, last: u64) -> io::Result<()> {
    let full = place.segment(last);
    if full.exists() {
        let message = format!("{} is in the way; move it elsewhere", full.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    std::fs::rename(place.log(), full)
}

/// The last line of the newest full file.
fn newest(place: &Place) -> io::Result<Option<Head>> {
    let Some(segment) = place.segments()?.pop() else {
        return Ok(None);
    };
    let tail = Tail::read(&place.open(&segment.path)?)?;
    Ok(tail.last.map(|last| last.tip))
}

/// Where the chain goes on, and what there is to say about it. Of the head and the log, the one that has come
/// further is right: the head is behind after a crash, and the log is if lines were taken from its end.
fn settle(known: Known, log: Head) -> (Head, Option<String>) {
    match known {
        Known::Nothing if log.seq == 0 => (log, None),
        Known::Nothing => (log, Some("audit.head was missing".to_owned())),
        Known::Damaged => (log, Some("audit.head was damaged".to_owned())),
        Known::Head(head) if head == log => (log, None),
        Known::Head(head) if head.is_little_behind(log.seq) => (log, None),
        Known::Head(head) if head.seq < log.seq => {
            let why = format!(
                "audit.head named line {}, and the log had come to line {}",
                head.seq, log.seq
            );
            (log, Some(why))
        }
        Known::Head(head) => {
            let why = format!(
                "audit.head named line {}, and the log had another or none; its last was line {}",
                head.seq, log.seq
            );
            (head, Some(why))
        }
    }
}
