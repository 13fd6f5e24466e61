//! Open files and directories, and the limit for their number.

use super::quota::{MountQuota, QuotaHandle, WriteEnd};
use super::refusal::{FsFault, RefusalCause};
use super::sys;
use super::undo::UndoRecorder;
use mimir_core::paths::PathRules;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// State shared by all nodes of a mount.
#[derive(Debug)]
pub(super) struct MountState {
    pub rules: PathRules,
    pub writable: bool,
    /// Number of components of the prefix.
    pub depth: usize,
    /// The root of the mount, for looking up the current object at a path.
    pub root: sys::DirHandle,
    /// Quota for new data and entries; `None` is unlimited.
    pub quota: Option<MountQuota>,
    /// Recorder of changes for `mimir undo`.
    pub undo: Option<UndoRecorder>,
}

impl MountState {
    /// Checks that the object at `path` may be seen.
    pub(super) fn check_visible(&self, path: &str) -> Result<(), FsFault> {
        match self.rules.check(path).against_reading() {
            None => Ok(()),
            Some(rule) => Err(FsFault::refused(path, RefusalCause::Rule(rule.clone()))),
        }
    }

    /// Checks that a directory at `path` may be created, changed or removed.
    pub(super) fn check_dir_writable(&self, path: &str) -> Result<(), FsFault> {
        self.check_mount_writable(path)?;
        match self.rules.check(path).against_writing() {
            None => Ok(()),
            Some(rule) => Err(FsFault::refused(path, RefusalCause::Rule(rule.clone()))),
        }
    }

    /// Checks that an object other than a directory at `path` may be created, changed or removed.
    pub(super) fn check_writable(&self, path: &str) -> Result<(), FsFault> {
        self.check_mount_writable(path)?;
        match self.rules.check_file(path).against_writing() {
            None => Ok(()),
            Some(rule) => Err(FsFault::refused(path, RefusalCause::Rule(rule.clone()))),
        }
    }

    /// Records the object at `path` before it changes, if the mount has a recorder.
    pub(super) async fn record(self: &Arc<Self>, path: &str) -> Result<(), FsFault> {
        match &self.undo {
            Some(undo) => undo.record_before_change(self, path).await,
            None => Ok(()),
        }
    }

    fn check_mount_writable(&self, path: &str) -> Result<(), FsFault> {
        if self.writable {
            Ok(())
        } else {
            Err(FsFault::refused(path, RefusalCause::ReadOnlyMount))
        }
    }
}

/// An open file or directory, closed when the last clone is dropped. Streams hold clones, too.
#[derive(Debug, Clone)]
pub(super) struct FsNode(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    object: NodeObject,
    shared: Arc<MountState>,
    path: String,
    read: bool,
    write: bool,
    /// `None` for a root: the host opened it.
    _slot: Option<HandleSlot>,
    /// Set for a file that counts against the quota.
    _quota_handle: Option<QuotaHandle>,
}

#[derive(Debug)]
pub(super) enum NodeObject {
    File(File),
    Dir(sys::DirHandle),
}

impl FsNode {
    pub(super) fn root(dir: sys::DirHandle, shared: Arc<MountState>, prefix: String) -> Self {
        Self(Arc::new(Inner {
            object: NodeObject::Dir(dir),
            shared,
            path: prefix,
            read: true,
            write: false,
            _slot: None,
            _quota_handle: None,
        }))
    }

    /// Returns a node for an object opened in the mount of `self`, with its canonical path.
    pub(super) fn with_object(
        &self,
        object: NodeObject,
        path: String,
        read: bool,
        write: bool,
        slot: HandleSlot,
    ) -> Self {
        let shared = Arc::clone(&self.0.shared);
        let quota_handle = match (&shared.quota, &object) {
            (Some(quota), NodeObject::File(file)) => sys::stat_file(file)
                .ok()
                .map(|stat| quota.register_handle(stat.id)),
            _ => None,
        };
        Self(Arc::new(Inner {
            object,
            shared,
            path,
            read,
            write,
            _slot: Some(slot),
            _quota_handle: quota_handle,
        }))
    }

    pub(super) fn object(&self) -> &NodeObject {
        &self.0.object
    }

    pub(super) fn dir(&self) -> Result<&sys::DirHandle, FsFault> {
        match &self.0.object {
            NodeObject::Dir(dir) => Ok(dir),
            NodeObject::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    pub(super) fn file(&self) -> Result<&File, FsFault> {
        match &self.0.object {
            NodeObject::File(file) => Ok(file),
            NodeObject::Dir(_) => Err(ErrorCode::BadDescriptor.into()),
        }
    }

    /// Returns the file if it was opened for reading.
    pub(super) fn readable(&self) -> Result<&File, FsFault> {
        match &self.0.object {
            NodeObject::File(file) if self.0.read => Ok(file),
            NodeObject::File(_) => Err(ErrorCode::BadDescriptor.into()),
            NodeObject::Dir(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    /// Returns the file if it was opened for writing; permission was checked at that time.
    pub(super) fn writable(&self) -> Result<&File, FsFault> {
        let file = self.file()?;
        if self.0.write {
            Ok(file)
        } else {
            Err(ErrorCode::BadDescriptor.into())
        }
    }

    /// Records the content of the file before it changes. Needed for each change, because the handle may have been
    /// opened in an earlier call.
    pub(super) async fn record(&self) -> Result<(), FsFault> {
        self.0.shared.record(&self.0.path).await
    }

    /// Returns true if [`Self::record`] has nothing left to do.
    pub(super) fn is_recorded(&self) -> bool {
        let undo = self.0.shared.undo.as_ref();
        undo.is_none_or(|undo| undo.is_recorded(&self.0.path))
    }

    /// Changes the file if the quota allows it to grow up to `end`. The file must be recorded.
    pub(super) fn change<T>(
        &self,
        end: WriteEnd,
        change: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        let file = self
            .writable()
            .map_err(|_| io::ErrorKind::PermissionDenied)?;
        match &self.0.shared.quota {
            Some(quota) => quota.change_counted(file, end, change),
            None => change(file),
        }
    }

    pub(super) fn shared(&self) -> &Arc<MountState> {
        &self.0.shared
    }

    /// Returns the canonical path from the workspace root.
    pub(super) fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns true for reading, and true for writing, if it was opened for that.
    pub(super) fn mode(&self) -> (bool, bool) {
        (self.0.read, self.0.write)
    }

    pub(super) fn stat(&self) -> Result<sys::FileStat, FsFault> {
        Ok(match &self.0.object {
            NodeObject::File(file) => sys::stat_file(file)?,
            NodeObject::Dir(dir) => sys::stat_dir(dir)?,
        })
    }
}

/// Counts the host handles that a guest holds, up to a limit.
#[derive(Debug, Clone)]
pub(super) struct HandleSlots {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// A slot for one host handle; released when dropped.
#[derive(Debug)]
pub(super) struct HandleSlot(Arc<AtomicUsize>);

impl HandleSlots {
    pub(super) fn new(max: usize) -> Self {
        Self {
            taken: Arc::default(),
            max,
        }
    }

    pub(super) fn acquire(&self) -> Result<HandleSlot, FsFault> {
        let free = |taken| (taken < self.max).then_some(taken + 1);
        match self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
        {
            Ok(_) => Ok(HandleSlot(Arc::clone(&self.taken))),
            Err(_) => Err(FsFault::TooManyOpen),
        }
    }
}

impl Drop for HandleSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
