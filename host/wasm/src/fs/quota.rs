//! The quota of what a guest may add to a folder: bytes, and entries.
//!
//! Additions count at the moment at which the guest makes them; removals make room again, but never more than there was
//! at the beginning. The length of a file counts and not what the disk holds of it, so a file with holes is as large as
//! it looks. A file that is removed while it is open still takes its room, and gives it back when it is closed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::refusal::Fault;
use super::resolve::Target;
use super::sys::{self, Kind, Stat};

/// A file, as the system tells it from others.
type Id = (u64, u64);

/// A bound, and what of it is used. Clones share it.
#[derive(Debug, Clone)]
pub struct Quota(Arc<Mutex<Used>>);

#[derive(Debug)]
struct Used {
    bytes: u64,
    entries: u64,
    most_bytes: u64,
    most_entries: u64,
    open: HashMap<Id, Open>,
    was_full: bool,
}

/// A file that is open.
#[derive(Debug, Default)]
struct Open {
    handles: usize,
    /// What it takes although nothing leads to it any more.
    gone: Option<u64>,
}

/// A handle on a file of the folder.
#[derive(Debug)]
pub(super) struct Held {
    quota: Quota,
    id: Id,
}

impl Quota {
    /// Room for so many bytes and entries.
    pub fn new(most_bytes: u64, most_entries: u64) -> Self {
        Self(Arc::new(Mutex::new(Used {
            bytes: 0,
            entries: 0,
            most_bytes,
            most_entries,
            open: HashMap::new(),
            was_full: false,
        })))
    }

    /// Begins to count anew, with these bounds: for the next call of a session.
    pub fn renew(&self, most_bytes: u64, most_entries: u64) {
        let mut used = self.lock();
        (used.bytes, used.entries) = (0, 0);
        (used.most_bytes, used.most_entries) = (most_bytes, most_entries);
        used.was_full = false;
    }

    /// The bounds: bytes and entries.
    pub fn bounds(&self) -> (u64, u64) {
        let used = self.lock();
        (used.most_bytes, used.most_entries)
    }

    /// Whether something was ever refused for want of room.
    pub fn was_full(&self) -> bool {
        self.lock().was_full
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that there may be one entry more.
    pub(super) fn room_for_entry(&self) -> io::Result<()> {
        let mut used = self.lock();
        match used.entries < used.most_entries {
            true => Ok(()),
            false => Err(used.full()),
        }
    }

    /// There is one more.
    pub(super) fn entered(&self) {
        self.lock().entries += 1;
    }

    /// Makes room for a file to become as long as `end`; What is not used of it is
    /// given back by [`Quota::settle`].
    pub(super) fn room_for(&self, file: &File, end: End) -> io::Result<u64> {
        let size = file.metadata()?.len();
        let end = match end {
            End::At(end) => end,
            End::Behind(more) => size.saturating_add(more),
        };
        let more = end.saturating_sub(size);
        let mut used = self.lock();
        if used.bytes.saturating_add(more) > used.most_bytes {
            return Err(used.full());
        }
        Ok(size)
    }

    /// Takes note of what a file has become that was `before` bytes long.
    pub(super) fn settle(&self, file: &File, before: u64) {
        let (Ok(meta), Ok(stat)) = (file.metadata(), sys::stat_file(file)) else {
            return;
        };
        let now = meta.len();
        let mut used = self.lock();
        used.bytes = (used.bytes.saturating_add(now)).saturating_sub(before);
        if let Some(gone) = used
            .open
            .get_mut(&stat.id)
            .and_then(|one| one.gone.as_mut())
        {
            *gone = now;
        }
    }

    /// What was emptied gives its bytes back.
    pub(super) fn emptied(&self, was: Stat) {
        let mut used = self.lock();
        used.bytes = used.bytes.saturating_sub(was.size);
    }

    /// What was at a name is there no more.
    pub(super) fn removed(&self, stat: &Stat) {
        let mut used = self.lock();
        used.entries = used.entries.saturating_sub(1);
        if stat.kind != Kind::File || stat.links > 1 {
            return;
        }
        match used.open.get_mut(&stat.id) {
            Some(open) => open.gone = Some(stat.size),
            None => used.bytes = used.bytes.saturating_sub(stat.size),
        }
    }

    /// A file was opened.
    pub(super) fn opened(&self, id: Id) -> Held {
        self.lock().open.entry(id).or_default().handles += 1;
        Held {
            quota: self.clone(),
            id,
        }
    }
}

/// Where a write ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    At(u64),
    Behind(u64),
}

impl Used {
    fn full(&mut self) -> io::Error {
        self.was_full = true;
        io::ErrorKind::QuotaExceeded.into()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut used = self.quota.lock();
        let Some(open) = used.open.get_mut(&self.id) else {
            return;
        };
        open.handles = open.handles.saturating_sub(1);
        if open.handles == 0 {
            let gone = open.gone.unwrap_or_default();
            used.open.remove(&self.id);
            used.bytes = used.bytes.saturating_sub(gone);
        }
    }
}

/// Does what makes an entry, if there may be one more.
pub(super) fn entering(
    quota: Option<&Quota>,
    make: impl FnOnce() -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(quota) = quota else { return make() };
    quota.room_for_entry()?;
    make()?;
    quota.entered();
    Ok(())
}

/// Does what takes away what is at a name.
pub(super) fn leaving(
    quota: Option<&Quota>,
    at: &Target<'_>,
    take: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Some(quota) = quota else { return take() };
    let before = sys::stat_at(&at.at, &at.name);
    take()?;
    if let Ok(before) = before {
        quota.removed(&before);
    }
    Ok(())
}
