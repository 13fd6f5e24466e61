//! Quota for a guest's additions to a folder: bytes, and entries.
//!
//! Additions count when the guest makes them; removals release space again, but never beyond the initial quota. The
//! length of a file counts, not its size on disk, so a sparse file counts in full. A file that is removed while open
//! still takes its space, and releases it when it is closed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::refusal::FsFault;
use super::resolve::Target;
use super::sys::{self, FileKind, FileStat};

/// Identity of a file on the system.
type FileId = (u64, u64);

/// A quota and its current use. Clones share it.
#[derive(Debug, Clone)]
pub struct MountQuota(Arc<Mutex<QuotaUsage>>);

#[derive(Debug)]
struct QuotaUsage {
    bytes: u64,
    entries: u64,
    most_bytes: u64,
    most_entries: u64,
    open: HashMap<FileId, OpenFile>,
    was_full: bool,
}

/// An open file.
#[derive(Debug, Default)]
struct OpenFile {
    handles: usize,
    /// The space that it takes although it was unlinked.
    gone: Option<u64>,
}

/// A handle to a file of the folder.
#[derive(Debug)]
pub(super) struct QuotaHandle {
    quota: MountQuota,
    id: FileId,
}

impl MountQuota {
    /// Creates a quota for so many bytes and entries.
    pub fn new(most_bytes: u64, most_entries: u64) -> Self {
        Self(Arc::new(Mutex::new(QuotaUsage {
            bytes: 0,
            entries: 0,
            most_bytes,
            most_entries,
            open: HashMap::new(),
            was_full: false,
        })))
    }

    /// Restarts counting with these limits, for the next call of a session.
    pub fn renew(&self, most_bytes: u64, most_entries: u64) {
        let mut used = self.lock();
        (used.bytes, used.entries) = (0, 0);
        (used.most_bytes, used.most_entries) = (most_bytes, most_entries);
        used.was_full = false;
    }

    /// Returns the limits: bytes and entries.
    pub fn bounds(&self) -> (u64, u64) {
        let used = self.lock();
        (used.most_bytes, used.most_entries)
    }

    /// Returns true if an addition was ever refused for lack of space.
    pub fn was_full(&self) -> bool {
        self.lock().was_full
    }

    fn lock(&self) -> MutexGuard<'_, QuotaUsage> {
        self.0.lock()
    }

    /// Checks that one more entry is allowed.
    pub(super) fn check_entry_limit(&self) -> io::Result<()> {
        let mut used = self.lock();
        match used.entries < used.most_entries {
            true => Ok(()),
            false => Err(used.full()),
        }
    }

    /// Counts one more entry.
    pub(super) fn add_entry(&self) {
        self.lock().entries += 1;
    }

    /// Reserves space for a file to grow up to `end`; [`MountQuota::settle`] releases the unused part.
    pub(super) fn reserve(&self, file: &File, end: WriteEnd) -> io::Result<u64> {
        let size = file.metadata()?.len();
        let end = match end {
            WriteEnd::At(end) => end,
            WriteEnd::After(more) => size.saturating_add(more),
        };
        let more = end.saturating_sub(size);
        let mut used = self.lock();
        if used.bytes.saturating_add(more) > used.most_bytes {
            return Err(used.full());
        }
        Ok(size)
    }

    /// Accounts for the new size of a file that was `before` bytes long.
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

    /// Releases the bytes of an emptied file.
    pub(super) fn release_bytes(&self, was: FileStat) {
        let mut used = self.lock();
        used.bytes = used.bytes.saturating_sub(was.size);
    }

    /// Accounts for the removal of the object at a name.
    pub(super) fn release_entry(&self, stat: &FileStat) {
        let mut used = self.lock();
        used.entries = used.entries.saturating_sub(1);
        if stat.kind != FileKind::File || stat.links > 1 {
            return;
        }
        match used.open.get_mut(&stat.id) {
            Some(open) => open.gone = Some(stat.size),
            None => used.bytes = used.bytes.saturating_sub(stat.size),
        }
    }

    /// Registers an open file.
    pub(super) fn register_handle(&self, id: FileId) -> QuotaHandle {
        self.lock().open.entry(id).or_default().handles += 1;
        QuotaHandle {
            quota: self.clone(),
            id,
        }
    }
}

/// The end of a write.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteEnd {
    At(u64),
    After(u64),
}

impl QuotaUsage {
    fn full(&mut self) -> io::Error {
        self.was_full = true;
        io::ErrorKind::QuotaExceeded.into()
    }
}

impl Drop for QuotaHandle {
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

/// Runs an operation that creates an entry, if one more is allowed.
pub(super) fn create_counted(
    quota: Option<&MountQuota>,
    make: impl FnOnce() -> Result<(), FsFault>,
) -> Result<(), FsFault> {
    let Some(quota) = quota else { return make() };
    quota.check_entry_limit()?;
    make()?;
    quota.add_entry();
    Ok(())
}

/// Runs an operation that removes the object at a name.
pub(super) fn remove_counted(
    quota: Option<&MountQuota>,
    at: &Target<'_>,
    take: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Some(quota) = quota else { return take() };
    let before = sys::stat_at(&at.at, &at.name);
    take()?;
    if let Ok(before) = before {
        quota.release_entry(&before);
    }
    Ok(())
}
