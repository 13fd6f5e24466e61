//! The methods of the resource `descriptor` of WASI 0.2: they look up handles and call the operations.

use super::dir_listing::DirListing;
use super::overlay::FsEntry;
use super::quota::WriteEnd;
use super::stream::{FileReader, FileWriter, MAX_READ};
use super::{FsCtxView, sys, wasi_types};
use std::fs::File;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, Filesize, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

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
    pub(super) fn entry(&self, handle: &Resource<Descriptor>) -> wasmtime::Result<FsEntry> {
        Ok(self
            .table
            .get(&to_host_handle::<_, FsEntry>(handle))?
            .clone())
    }

    /// Removes the entry of a handle.
    pub(super) fn drop_entry(&mut self, handle: &Resource<Descriptor>) -> wasmtime::Result<()> {
        self.table
            .delete(Resource::<FsEntry>::new_own(handle.rep()))?;
        Ok(())
    }

    fn find(&self, handle: &Resource<Descriptor>) -> FsResult<FsEntry> {
        self.entry(handle).map_err(FsError::trap)
    }

    /// Returns the entry of a handle for a change. Fails while a change through WASI 0.3 runs: it relies on its checks.
    fn find_for_change(&mut self, handle: &Resource<Descriptor>) -> FsResult<FsEntry> {
        let free = self.fs.turns.check_free();
        free.map_err(|fault| self.fail(fault))?;
        self.find(handle)
    }

    /// Opens a stream that writes from an offset on; `None` appends.
    fn writer(
        &mut self,
        handle: &Resource<Descriptor>,
        offset: Option<Filesize>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let entry = self.find_for_change(handle)?;
        let disk = self.fs.disk.clone();
        let writer = entry
            .node()
            .and_then(|node| FileWriter::new(node.clone(), offset, disk));
        let stream: DynOutputStream = Box::new(writer.map_err(|fault| self.fail(fault))?);
        Ok(self.table.push(stream)?)
    }
}

impl types::HostDescriptor for FsCtxView<'_> {
    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let stream: DynInputStream = match self.find(&fd)? {
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
        self.writer(&fd, Some(offset))
    }

    fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&fd, None)
    }

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        let done = self.find(&fd)?.advise(offset, len, advice);
        self.finish(done).await
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        let done = self.find(&fd)?.flush(true).await;
        self.finish(done).await
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        let done = self.find(&fd)?.flush(false).await;
        self.finish(done).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        Ok(self.find(&fd)?.flags())
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        Ok(self.find(&fd)?.kind())
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let done = self.find_for_change(&fd)?.set_size(size).await;
        self.finish(done).await
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let accessed = wasi_types::time_update(accessed)?;
        let modified = wasi_types::time_update(modified)?;
        let done = self.find_for_change(&fd)?.set_times(accessed, modified);
        self.finish(done).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        len: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_READ);
        let done = match self.find(&fd)? {
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
        let entry = self.find_for_change(&fd)?;
        let done = async {
            let node = entry.node()?;
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
        let done = self.find(&fd)?.list(&self.fs.slots);
        let listing = self.finish(done).await?;
        Ok(to_guest_handle(self.table.push(listing)?))
    }

    async fn create_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let done = self.find_for_change(&fd)?.create_directory_at(path).await;
        self.finish(done).await
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        let done = self.find(&fd)?.stat();
        let stat = self.finish(done).await?;
        Ok(wasi_types::descriptor_stat(&stat))
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        let done = self.find(&fd)?.stat_at(follows_links(flags), path);
        let stat = self.finish(done).await?;
        Ok(wasi_types::descriptor_stat(&stat))
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let accessed = wasi_types::time_update(accessed)?;
        let modified = wasi_types::time_update(modified)?;
        let entry = self.find_for_change(&fd)?;
        let done = entry.set_times_at(follows_links(flags), path, accessed, modified);
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
        let (old, new) = (self.find_for_change(&fd)?, self.find(&new_fd)?);
        let done = old
            .link_at(follows_links(flags), path, &new, new_path)
            .await;
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
        let entry = self.find_for_change(&fd)?;
        let slots = &self.fs.slots;
        let done = entry
            .open_at(follows_links(flags), path, open_flags, mode, slots)
            .await;
        let opened = self.finish(done).await?;
        Ok(self.push(opened)?)
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        let done = self.find(&fd)?.readlink_at(path);
        self.finish(done).await
    }

    async fn remove_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let entry = self.find_for_change(&fd)?;
        let done = entry
            .remove_directory_at(path, &mut self.fs.yield_timer)
            .await;
        self.finish(done).await
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (old, new) = (self.find_for_change(&fd)?, self.find(&new_fd)?);
        let done = old
            .rename_at(path, &new, new_path, &mut self.fs.yield_timer)
            .await;
        self.finish(done).await
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        link_text: String,
        path: String,
    ) -> FsResult<()> {
        let done = self
            .find_for_change(&fd)?
            .symlink_at(&link_text, path)
            .await;
        self.finish(done).await
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let done = self.find_for_change(&fd)?.unlink_file_at(path).await;
        self.finish(done).await
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        Ok(self.entry(&a)?.is_same(&self.entry(&b)?))
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        let done = self.find(&fd)?.metadata_hash();
        self.finish(done).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let done = self.find(&fd)?.metadata_hash_at(follows_links(flags), path);
        self.finish(done).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.drop_entry(&fd)
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
