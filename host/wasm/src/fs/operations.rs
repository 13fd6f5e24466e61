//! The operations on the object behind a handle, for every version of `wasi:filesystem`.
//!
//! They need no access to the store, because operations of WASI 0.3 run while other tasks of the guest use it. They
//! use the types of WASI 0.2.

use std::io;

use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorType, ErrorCode, Filesize, MetadataHashValue, OpenFlags,
};

use super::dir_listing::DirListing;
use super::node::{FsNode, HandleSlots, NodeObject};
use super::overlay::{FsEntry, OverlayTarget};
use super::quota::WriteEnd;
use super::refusal::FsFault;
use super::sys::{FileStat, TimeUpdate};
use super::yield_timer::YieldTimer;
use super::{change, lookup, sys, wasi_types};

impl FsEntry {
    /// Returns the host object. An overlay entry has none, so the operation fails as read-only.
    pub(super) fn node(&self) -> Result<&FsNode, FsFault> {
        match self {
            Self::Real(node) => Ok(node),
            Self::Overlay(_) => Err(ErrorCode::ReadOnly.into()),
        }
    }

    /// Resolves a path from here.
    fn resolve(&self, path: String) -> Result<OverlayTarget, FsFault> {
        match self {
            Self::Real(node) => Ok(OverlayTarget::Mount(node.clone(), path)),
            Self::Overlay(overlay) => overlay.find(&path),
        }
    }

    /// Resolves a path for an operation that changes something: an overlay is read-only.
    fn resolve_for_change(&self, path: String) -> Result<(FsNode, String), FsFault> {
        match self.resolve(path) {
            Ok(OverlayTarget::Mount(node, path)) => Ok((node, path)),
            Ok(OverlayTarget::Overlay(_)) | Err(FsFault::Code(ErrorCode::NoEntry)) => {
                Err(ErrorCode::ReadOnly.into())
            }
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn advise(
        &self,
        offset: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> Result<(), FsFault> {
        Ok(sys::advise(self.node()?.file()?, offset, len, advice)?)
    }

    /// Flushes pending writes to the disk, on a thread for blocking work.
    pub(super) async fn flush(&self, data_only: bool) -> Result<(), FsFault> {
        let node = self.node()?.clone();
        let work = tokio::task::spawn_blocking(move || match node.object() {
            NodeObject::File(file) if data_only => file.sync_data(),
            NodeObject::File(file) => file.sync_all(),
            NodeObject::Dir(dir) => sys::sync_dir(dir),
        });
        match work.await {
            // Windows flushes only files opened for writing; without a write, no data is lost.
            Ok(Err(error)) if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(())
            }
            Ok(done) => done.map_err(FsFault::from),
            Err(_) => Err(ErrorCode::Io.into()),
        }
    }

    pub(super) fn flags(&self) -> DescriptorFlags {
        let Self::Real(node) = self else {
            return DescriptorFlags::READ;
        };
        let (read, write) = node.mode();
        let mut flags = DescriptorFlags::empty();
        if read {
            flags |= DescriptorFlags::READ;
        }
        if write {
            flags |= DescriptorFlags::WRITE;
        }
        if node.dir().is_ok() && node.shared().writable {
            flags |= DescriptorFlags::MUTATE_DIRECTORY;
        }
        flags
    }

    /// Returns the kind of the object. An object of another kind is never opened.
    pub(super) fn kind(&self) -> DescriptorType {
        match self {
            Self::Real(node) => match node.object() {
                NodeObject::File(_) => DescriptorType::RegularFile,
                NodeObject::Dir(_) => DescriptorType::Directory,
            },
            Self::Overlay(overlay) => overlay.kind(),
        }
    }

    pub(super) async fn set_size(&self, size: Filesize) -> Result<(), FsFault> {
        let node = self.node()?;
        node.writable()?;
        node.record().await?;
        Ok(node.change(WriteEnd::At(size), |file| file.set_len(size))?)
    }

    pub(super) fn set_times(
        &self,
        accessed: TimeUpdate,
        modified: TimeUpdate,
    ) -> Result<(), FsFault> {
        let node = self.node()?;
        node.shared().check_writable(node.path())?;
        match node.object() {
            NodeObject::File(file) => sys::set_times(file, accessed, modified)?,
            NodeObject::Dir(dir) => sys::set_times(dir, accessed, modified)?,
        }
        Ok(())
    }

    pub(super) fn list(&self, slots: &HandleSlots) -> Result<DirListing, FsFault> {
        match self {
            Self::Real(node) => DirListing::open(node, slots),
            Self::Overlay(overlay) => overlay.list().map(DirListing::from_entries),
        }
    }

    pub(super) fn stat(&self) -> Result<FileStat, FsFault> {
        match self {
            Self::Real(node) => node.stat(),
            Self::Overlay(overlay) => Ok(overlay.stat()),
        }
    }

    pub(super) fn metadata_hash(&self) -> Result<MetadataHashValue, FsFault> {
        Ok(wasi_types::metadata_hash(&self.stat()?))
    }

    /// Returns true if both are the same object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let identity = |entry: &Self| entry.stat().ok().map(|stat| stat.id);
        identity(self).is_some_and(|id| identity(other) == Some(id))
    }

    pub(super) async fn create_directory_at(&self, path: String) -> Result<(), FsFault> {
        let (node, path) = self.resolve_for_change(path)?;
        change::make_dir(&node, &path).await
    }

    pub(super) fn stat_at(&self, follow: bool, path: String) -> Result<FileStat, FsFault> {
        match self.resolve(path)? {
            OverlayTarget::Mount(node, path) => lookup::stat_at(&node, follow, &path),
            OverlayTarget::Overlay(overlay) => Ok(overlay.stat()),
        }
    }

    pub(super) fn set_times_at(
        &self,
        follow: bool,
        path: String,
        accessed: TimeUpdate,
        modified: TimeUpdate,
    ) -> Result<(), FsFault> {
        let (node, path) = self.resolve_for_change(path)?;
        change::set_times_at(&node, follow, &path, accessed, modified)
    }

    pub(super) async fn link_at(
        &self,
        follow: bool,
        path: String,
        new: &Self,
        new_path: String,
    ) -> Result<(), FsFault> {
        if follow {
            return Err(ErrorCode::Invalid.into());
        }
        let (old, path) = self.resolve_for_change(path)?;
        let (new, new_path) = new.resolve_for_change(new_path)?;
        change::hard_link(&old, &path, &new, &new_path).await
    }

    pub(super) async fn open_at(
        &self,
        follow: bool,
        path: String,
        open_flags: OpenFlags,
        mode: DescriptorFlags,
        slots: &HandleSlots,
    ) -> Result<Self, FsFault> {
        match self.resolve(path) {
            Ok(OverlayTarget::Mount(node, path)) => {
                let opened = lookup::open(&node, follow, &path, open_flags, mode, slots).await?;
                Ok(Self::Real(opened))
            }
            Ok(OverlayTarget::Overlay(overlay)) => {
                Ok(Self::Overlay(overlay.open_with(open_flags, mode)?))
            }
            // An overlay allows no new entries.
            Err(FsFault::Code(ErrorCode::NoEntry)) if open_flags.contains(OpenFlags::CREATE) => {
                Err(ErrorCode::ReadOnly.into())
            }
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn readlink_at(&self, path: String) -> Result<String, FsFault> {
        match self.resolve(path)? {
            OverlayTarget::Mount(node, path) => lookup::read_link(&node, &path),
            OverlayTarget::Overlay(_) => Err(ErrorCode::Invalid.into()),
        }
    }

    pub(super) async fn remove_directory_at(
        &self,
        path: String,
        yield_timer: &mut YieldTimer,
    ) -> Result<(), FsFault> {
        let (node, path) = self.resolve_for_change(path)?;
        change::remove_dir(&node, &path, yield_timer).await
    }

    pub(super) async fn rename_at(
        &self,
        path: String,
        new: &Self,
        new_path: String,
        yield_timer: &mut YieldTimer,
    ) -> Result<(), FsFault> {
        let (old, path) = self.resolve_for_change(path)?;
        let (new, new_path) = new.resolve_for_change(new_path)?;
        change::rename(&old, &path, &new, &new_path, yield_timer).await
    }

    pub(super) async fn symlink_at(&self, link_text: &str, path: String) -> Result<(), FsFault> {
        let (node, path) = self.resolve_for_change(path)?;
        change::soft_link(&node, link_text, &path).await
    }

    pub(super) async fn unlink_file_at(&self, path: String) -> Result<(), FsFault> {
        let (node, path) = self.resolve_for_change(path)?;
        change::remove_file(&node, &path).await
    }

    pub(super) fn metadata_hash_at(
        &self,
        follow: bool,
        path: String,
    ) -> Result<MetadataHashValue, FsFault> {
        match self.resolve(path)? {
            OverlayTarget::Mount(node, path) => lookup::hash_at(&node, follow, &path),
            OverlayTarget::Overlay(overlay) => Ok(wasi_types::metadata_hash(&overlay.stat())),
        }
    }
}
