//! The methods of the WASI resource `descriptor`: they look up handles and call the operations of this module.

use super::dir_listing::DirListing;
use super::node::{FsNode, NodeObject};
use super::overlay::{FsEntry, OverlayTarget};
use super::quota::WriteEnd;
use super::refusal::FsFault;
use super::stream::{FileReader, FileWriter, MAX_READ};
use super::{FsCtxView, change, lookup, sys, wasi_types};
use std::fs::File;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, MetadataHashValue, NewTimestamp, OpenFlags,
    PathFlags,
};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsResult};

/// Converts a handle to the type of wasmtime's bindings. Only the handle's number matters: the table has this module's
/// own object under that number.
pub(super) fn to_guest_handle<Ours, Theirs: 'static>(handle: Resource<Ours>) -> Resource<Theirs> {
    Resource::new_own(handle.rep())
}

fn to_host_handle<Theirs, Ours: 'static>(handle: &Resource<Theirs>) -> Resource<Ours>
where
    Theirs: 'static,
{
    Resource::new_borrow(handle.rep())
}

fn follows_links(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

impl FsCtxView<'_> {
    /// Returns the entry of a handle. An unknown handle is a fault of the engine and traps.
    fn entry(&self, handle: &Resource<Descriptor>) -> FsResult<FsEntry> {
        Ok(self
            .table
            .get(&to_host_handle::<_, FsEntry>(handle))?
            .clone())
    }

    /// Returns the host object of a handle. An overlay entry has none, so the operation fails as read-only.
    fn node(&self, handle: &Resource<Descriptor>) -> FsResult<FsNode> {
        match self.entry(handle)? {
            FsEntry::Real(node) => Ok(node),
            FsEntry::Overlay(_) => Err(ErrorCode::ReadOnly.into()),
        }
    }

    /// Resolves `path` from a handle.
    fn resolve(&mut self, handle: &Resource<Descriptor>, path: String) -> FsResult<OverlayTarget> {
        match self.entry(handle)? {
            FsEntry::Real(node) => Ok(OverlayTarget::Mount(node, path)),
            FsEntry::Overlay(overlay) => overlay.find(&path).map_err(|fault| self.fail(fault)),
        }
    }

    /// Resolves `path` for an operation that changes something: an overlay is read-only.
    fn resolve_for_change(
        &mut self,
        handle: &Resource<Descriptor>,
        path: String,
    ) -> FsResult<(FsNode, String)> {
        let target = match self.entry(handle)? {
            FsEntry::Real(node) => return Ok((node, path)),
            FsEntry::Overlay(overlay) => overlay.find(&path),
        };
        match target {
            Ok(OverlayTarget::Mount(node, path)) => Ok((node, path)),
            Ok(OverlayTarget::Overlay(_)) | Err(FsFault::Code(ErrorCode::NoEntry)) => {
                Err(ErrorCode::ReadOnly.into())
            }
            Err(fault) => Err(self.fail(fault)),
        }
    }

    /// Flushes pending writes to the disk, on a thread for blocking work.
    async fn flush(&mut self, handle: Resource<Descriptor>, data_only: bool) -> FsResult<()> {
        let node = self.node(&handle)?;
        let work = tokio::task::spawn_blocking(move || match node.object() {
            NodeObject::File(file) if data_only => file.sync_data(),
            NodeObject::File(file) => file.sync_all(),
            NodeObject::Dir(dir) => sys::sync_dir(dir),
        });
        let done = match work.await {
            // Windows flushes only files opened for writing; without a write, no data is lost.
            Ok(Err(error))
                if cfg!(windows) && error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Ok(())
            }
            Ok(done) => done.map_err(FsFault::from),
            Err(_) => Err(ErrorCode::Io.into()),
        };
        self.finish(done).await
    }
}

impl types::HostDescriptor for FsCtxView<'_> {
    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let stream: DynInputStream = match self.entry(&fd)? {
            FsEntry::Real(node) => {
                let reader = FileReader::new(node, offset).map_err(|fault| self.fail(fault))?;
                Box::new(reader)
            }
            FsEntry::Overlay(overlay) => {
                let content = overlay.content().map_err(|fault| self.fail(fault))?;
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = content.slice(start.min(content.len())..);
                Box::new(MemoryInputPipe::new(rest))
            }
        };
        Ok(self.table.push(stream)?)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let writer = FileWriter::new(self.node(&fd)?, Some(offset), self.fs.disk.clone())
            .map_err(|fault| self.fail(fault))?;
        let stream: DynOutputStream = Box::new(writer);
        Ok(self.table.push(stream)?)
    }

    fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let writer = FileWriter::new(self.node(&fd)?, None, self.fs.disk.clone())
            .map_err(|fault| self.fail(fault))?;
        let stream: DynOutputStream = Box::new(writer);
        Ok(self.table.push(stream)?)
    }

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        let node = self.node(&fd)?;
        let done = node
            .file()
            .and_then(|file| Ok(sys::advise(file, offset, len, advice)?));
        self.finish(done).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.flush(fd, true).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        self.flush(fd, false).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        let node = match self.entry(&fd)? {
            FsEntry::Real(node) => node,
            FsEntry::Overlay(_) => return Ok(DescriptorFlags::READ),
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
        Ok(flags)
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        // A handle of another kind is never opened.
        Ok(match self.entry(&fd)? {
            FsEntry::Real(node) => match node.object() {
                NodeObject::File(_) => DescriptorType::RegularFile,
                NodeObject::Dir(_) => DescriptorType::Directory,
            },
            FsEntry::Overlay(overlay) => overlay.kind(),
        })
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let node = self.node(&fd)?;
        let done = async {
            node.writable()?;
            node.record().await?;
            Ok(node.change(WriteEnd::At(size), |file| file.set_len(size))?)
        };
        let done = done.await;
        self.finish(done).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let node = self.node(&fd)?;
        let (accessed, modified) = (
            wasi_types::time_update(accessed)?,
            wasi_types::time_update(modified)?,
        );
        let done = node.shared().check_writable(node.path()).and_then(|()| {
            match node.object() {
                NodeObject::File(file) => sys::set_times(file, accessed, modified)?,
                NodeObject::Dir(dir) => sys::set_times(dir, accessed, modified)?,
            }
            Ok(())
        });
        self.finish(done).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        len: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_READ);
        let done = match self.entry(&fd)? {
            FsEntry::Real(node) => node
                .readable()
                .and_then(|file| Ok(sys::read_at(file, len, offset)?)),
            FsEntry::Overlay(overlay) => overlay.content().map(|content| {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = content.get(start..).unwrap_or_default();
                rest[..len.min(rest.len())].to_vec()
            }),
        };
        let bytes = self.finish(done).await?;
        let end = bytes.is_empty();
        Ok((bytes, end))
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let node = self.node(&fd)?;
        let done = async {
            node.writable()?;
            node.record().await?;
            let end = WriteEnd::At(offset.saturating_add(bytes.len() as u64));
            let write = |file: &File| sys::write_at(file, &bytes, offset);
            Ok(node.change(end, write)? as Filesize)
        };
        let done = done.await;
        self.finish(done).await
    }

    async fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let done = match self.entry(&fd)? {
            FsEntry::Real(node) => DirListing::open(&node, &self.fs.slots),
            FsEntry::Overlay(overlay) => overlay.list().map(DirListing::from_entries),
        };
        let listing = self.finish(done).await?;
        Ok(to_guest_handle(self.table.push(listing)?))
    }

    async fn create_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let (node, path) = self.resolve_for_change(&fd, path)?;
        let done = change::make_dir(&node, &path).await;
        self.finish(done).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        let done = match self.entry(&fd)? {
            FsEntry::Real(node) => node.stat(),
            FsEntry::Overlay(overlay) => Ok(overlay.stat()),
        };
        let done = done.map(|stat| wasi_types::descriptor_stat(&stat));
        self.finish(done).await
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let done = match self.resolve(&fd, path)? {
            OverlayTarget::Mount(node, path) => lookup::stat_at(&node, follows_links(flags), &path),
            OverlayTarget::Overlay(overlay) => Ok(overlay.stat()),
        };
        let done = done.map(|stat| wasi_types::descriptor_stat(&stat));
        self.finish(done).await
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (accessed, modified) = (
            wasi_types::time_update(accessed)?,
            wasi_types::time_update(modified)?,
        );
        let (node, path) = self.resolve_for_change(&fd, path)?;
        let done = change::set_times_at(&node, follows_links(flags), &path, accessed, modified);
        self.finish(done).await
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        if follows_links(flags) {
            return Err(ErrorCode::Invalid.into());
        }
        let (old, path) = self.resolve_for_change(&fd, path)?;
        let (new, new_path) = self.resolve_for_change(&new_fd, new_path)?;
        let done = change::hard_link(&old, &path, &new, &new_path).await;
        self.finish(done).await
    }

    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        mode: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let target = match self.entry(&fd)? {
            FsEntry::Real(node) => OverlayTarget::Mount(node, path),
            FsEntry::Overlay(overlay) => match overlay.find(&path) {
                // An overlay allows no new entries.
                Err(FsFault::Code(ErrorCode::NoEntry))
                    if open_flags.contains(OpenFlags::CREATE) =>
                {
                    return Err(ErrorCode::ReadOnly.into());
                }
                result => result.map_err(|fault| self.fail(fault))?,
            },
        };
        let done = match target {
            OverlayTarget::Mount(node, path) => {
                let slots = &self.fs.slots;
                let opened =
                    lookup::open(&node, follows_links(flags), &path, open_flags, mode, slots).await;
                opened.map(FsEntry::Real)
            }
            OverlayTarget::Overlay(overlay) => {
                overlay.open_with(open_flags, mode).map(FsEntry::Overlay)
            }
        };
        let entry = self.finish(done).await?;
        Ok(to_guest_handle(self.table.push(entry)?))
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        let done = match self.resolve(&fd, path)? {
            OverlayTarget::Mount(node, path) => lookup::read_link(&node, &path),
            OverlayTarget::Overlay(_) => Err(ErrorCode::Invalid.into()),
        };
        self.finish(done).await
    }

    async fn remove_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let (node, path) = self.resolve_for_change(&fd, path)?;
        let done = change::remove_dir(&node, &path, &mut self.fs.yield_timer).await;
        self.finish(done).await
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (old, path) = self.resolve_for_change(&fd, path)?;
        let (new, new_path) = self.resolve_for_change(&new_fd, new_path)?;
        let done = change::rename(&old, &path, &new, &new_path, &mut self.fs.yield_timer).await;
        self.finish(done).await
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        link_text: String,
        path: String,
    ) -> FsResult<()> {
        let (node, path) = self.resolve_for_change(&fd, path)?;
        let done = change::soft_link(&node, &link_text, &path).await;
        self.finish(done).await
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let (node, path) = self.resolve_for_change(&fd, path)?;
        let done = change::remove_file(&node, &path).await;
        self.finish(done).await
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let identity = |handle| -> wasmtime::Result<_> {
            Ok(
                match self.table.get(&to_host_handle::<_, FsEntry>(&handle))? {
                    FsEntry::Real(node) => node.stat().ok().map(|stat| stat.id),
                    FsEntry::Overlay(overlay) => Some(overlay.stat().id),
                },
            )
        };
        let (a, b) = (identity(a)?, identity(b)?);
        Ok(a.is_some() && a == b)
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        let done = match self.entry(&fd)? {
            FsEntry::Real(node) => node.stat(),
            FsEntry::Overlay(overlay) => Ok(overlay.stat()),
        };
        let done = done.map(|stat| wasi_types::metadata_hash(&stat));
        self.finish(done).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let done = match self.resolve(&fd, path)? {
            OverlayTarget::Mount(node, path) => lookup::hash_at(&node, follows_links(flags), &path),
            OverlayTarget::Overlay(overlay) => Ok(wasi_types::metadata_hash(&overlay.stat())),
        };
        self.finish(done).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.table.delete(Resource::<FsEntry>::new_own(fd.rep()))?;
        Ok(())
    }
}

impl types::HostDirectoryEntryStream for FsCtxView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self
            .table
            .get_mut(&to_host_handle::<_, DirListing>(&stream))?;
        let done = listing.next(&mut self.fs.yield_timer).await;
        done.map_err(|fault| self.fail(fault))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table
            .delete(Resource::<DirListing>::new_own(stream.rep()))?;
        Ok(())
    }
}
