//! Quota for a guest's additions to a folder: bytes, and entries.
//!
//! Removals release space again, but never more than the initial quota. The length of a file counts, not its size on
//! disk, so a sparse file counts in full. A file that is removed while it is open releases its space when it is closed.

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

/// A quota and its current usage. Clones share the usage.
#[derive(Debug, Clone)]
pub struct MountQuota(Arc<Mutex<QuotaUsage>>);

#[derive(Debug)]
struct QuotaUsage {
    bytes: u64,
    entries: u64,
    max_bytes: u64,
    max_entries: u64,
    open: HashMap<FileId, OpenFile>,
    was_full: bool,
}

/// An open file.
#[derive(Debug, Default)]
struct OpenFile {
    handles: usize,
    /// Size in bytes of a file whose last name was removed, which still counts.
    unlinked_bytes: Option<u64>,
}

/// Registration of an open file, released on drop.
#[derive(Debug)]
pub(super) struct QuotaHandle {
    quota: MountQuota,
    id: FileId,
}

impl MountQuota {
    /// Creates a quota with these limits.
    pub fn new(max_bytes: u64, max_entries: u64) -> Self {
        Self(Arc::new(Mutex::new(QuotaUsage {
            bytes: 0,
            entries: 0,
            max_bytes,
            max_entries,
            open: HashMap::new(),
            was_full: false,
        })))
    }

    /// Resets the usage and sets the limits, for the next call of a session.
    pub fn restart(&self, max_bytes: u64, max_entries: u64) {
        let mut usage = self.lock();
        (usage.bytes, usage.entries) = (0, 0);
        (usage.max_bytes, usage.max_entries) = (max_bytes, max_entries);
        usage.was_full = false;
    }

    /// Returns the limits: bytes and entries.
    pub fn limits(&self) -> (u64, u64) {
        let usage = self.lock();
        (usage.max_bytes, usage.max_entries)
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
        let mut usage = self.lock();
        if usage.entries < usage.max_entries {
            Ok(())
        } else {
            Err(usage.exceeded())
        }
    }

    /// Counts one more entry.
    pub(super) fn add_entry(&self) {
        self.lock().entries += 1;
    }

    /// Changes a file if it may grow up to `end`, and counts its new size. The quota is locked meanwhile, because streams
    /// of WASI 0.3 write while other operations run.
    pub(super) fn change_counted<T>(
        &self,
        file: &File,
        end: WriteEnd,
        change: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut usage = self.lock();
        let before = file.metadata()?.len();
        let end = match end {
            WriteEnd::At(end) => end,
            WriteEnd::After(more) => before.saturating_add(more),
        };
        let more = end.saturating_sub(before);
        if usage.bytes.saturating_add(more) > usage.max_bytes {
            return Err(usage.exceeded());
        }
        let done = change(file);
        if let Ok(stat) = sys::stat_file(file) {
            usage.count_size(&stat, before);
        }
        done
    }

    /// Releases the bytes of a truncated file.
    pub(super) fn release_bytes(&self, was: FileStat) {
        let mut usage = self.lock();
        usage.bytes = usage.bytes.saturating_sub(was.size);
    }

    /// Counts the removal of a name, given the metadata of the object.
    pub(super) fn release_entry(&self, stat: &FileStat) {
        let mut usage = self.lock();
        usage.entries = usage.entries.saturating_sub(1);
        if stat.kind != FileKind::File || stat.links > 1 {
            return;
        }
        match usage.open.get_mut(&stat.id) {
            Some(open) => open.unlinked_bytes = Some(stat.size),
            None => usage.bytes = usage.bytes.saturating_sub(stat.size),
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
    /// Records that the quota was exceeded, and returns the error.
    fn exceeded(&mut self) -> io::Error {
        self.was_full = true;
        io::ErrorKind::QuotaExceeded.into()
    }

    /// Counts the size of a file that was `before` bytes long.
    fn count_size(&mut self, stat: &FileStat, before: u64) {
        self.bytes = (self.bytes.saturating_add(stat.size)).saturating_sub(before);
        let open = self.open.get_mut(&stat.id);
        if let Some(unlinked_bytes) = open.and_then(|open| open.unlinked_bytes.as_mut()) {
            *unlinked_bytes = stat.size;
        }
    }
}

impl Drop for QuotaHandle {
    fn drop(&mut self) {
        let mut usage = self.quota.lock();
        let Some(open) = usage.open.get_mut(&self.id) else {
            return;
        };
        open.handles = open.handles.saturating_sub(1);
        if open.handles == 0 {
            let unlinked_bytes = open.unlinked_bytes.unwrap_or_default();
            usage.open.remove(&self.id);
            usage.bytes = usage.bytes.saturating_sub(unlinked_bytes);
        }
    }
}

/// Runs an operation that creates an entry, if the quota allows one more, and counts the entry.
pub(super) fn create_counted(
    quota: Option<&MountQuota>,
    create: impl FnOnce() -> Result<(), FsFault>,
) -> Result<(), FsFault> {
    let Some(quota) = quota else { return create() };
    quota.check_entry_limit()?;
    create()?;
    quota.add_entry();
    Ok(())
}

/// Runs an operation that removes the object at a name, and counts the removal.
pub(super) fn remove_counted(
    quota: Option<&MountQuota>,
    at: &Target<'_>,
    remove: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let Some(quota) = quota else { return remove() };
    let before = sys::stat_at(&at.at, &at.name);
    remove()?;
    if let Ok(before) = before {
        quota.release_entry(&before);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn quota_is_locked_while_a_counted_file_changes() {
        let quota = MountQuota::new(10, 1);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"123").unwrap();
        let resize = |size: u64| {
            quota.change_counted(&file, WriteEnd::At(size), |file| {
                assert!(quota.0.try_lock().is_none());
                file.set_len(size)
            })
        };
        resize(9).unwrap();
        assert_eq!(quota.lock().bytes, 6);
        resize(5).unwrap();
        assert_eq!(quota.lock().bytes, 2);
        let error = resize(14).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        assert!(quota.was_full());
        assert_eq!(quota.lock().bytes, 2);
        // Counted although the change fails.
        let failed = quota.change_counted(&file, WriteEnd::After(4), |file| {
            file.set_len(7)?;
            Err::<(), _>(io::ErrorKind::Interrupted.into())
        });
        assert!(failed.is_err());
        assert_eq!(quota.lock().bytes, 4);
    }
}
