//! `wasi:filesystem` 0.3: the same operations, with streams and futures in place of resources.
//!
//! A host function of WASI 0.3 may use the store only while it does not wait. So each one gets the entry of its handle,
//! runs the operation on it, and then stores the reason of a refusal.
//!
//! During a wait, other functions of the guest run, and the guest may cancel the operation. An operation that changes
//! something therefore runs alone, in a task that a cancellation does not end: nothing changes between its checks, the
//! copy for `mimir undo`, and the change.

mod conversions;
mod streams;

use tokio::sync::oneshot;
use wasmtime::component::{
    Access, Accessor, FutureReader, Linker, Resource, StreamProducer, StreamReader,
};
use wasmtime_wasi::p3::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use self::conversions::{
    descriptor_flags, descriptor_type, error_code, guest_flags, hash_value, legacy_advice,
    open_flags, stat_value, time_update,
};
use self::streams::{FileConsumer, FileProducer, ListingProducer, StreamEnd};
use super::overlay::FsEntry;
use super::refusal::FsFault;
use super::resolve::MAX_PATH;
use super::stream::FileWriter;
use super::yield_timer::YieldTimer;
use super::{FsCtxView, FsView, HasFs};
use types::{
    Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode,
    Filesize, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};

/// The result of a whole stream, for its other end.
type StreamOutcome = Result<(), ErrorCode>;

/// Links `wasi:filesystem` 0.3 (types and preopens).
pub(super) fn add_to_linker<T: FsView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    types::add_to_linker::<T, HasFs>(linker, T::fs)?;
    preopens::add_to_linker::<T, HasFs>(linker, T::fs)
}

fn follows_links(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

/// Returns the entry of a handle.
fn entry<U: 'static>(
    store: &Accessor<U, HasFs>,
    handle: &Resource<Descriptor>,
) -> FilesystemResult<FsEntry> {
    store
        .with(|mut access| access.get().entry(handle))
        .map_err(FilesystemError::trap)
}

/// Returns the entry of a handle for an operation on this path.
///
/// The length of the path is checked before the operation waits, because a guest can have many operations that wait, and
/// each owns its paths.
fn entry_for_path<U: 'static>(
    store: &Accessor<U, HasFs>,
    handle: &Resource<Descriptor>,
    path: &str,
) -> FilesystemResult<FsEntry> {
    check_length(path)?;
    entry(store, handle)
}

fn check_length(path: &str) -> Result<(), ErrorCode> {
    if path.len() > MAX_PATH {
        return Err(ErrorCode::NameTooLong);
    }
    Ok(())
}

/// Finishes an operation: stores the reason of a refusal, and yields if the guest has not yielded for a while.
async fn finish<U: 'static, T>(
    store: &Accessor<U, HasFs>,
    done: Result<T, FsFault>,
) -> FilesystemResult<T> {
    if store.with(|mut access| access.get().fs.yield_timer.take_due()) {
        tokio::task::yield_now().await;
    }
    done.map_err(|fault| {
        store
            .with(|mut access| error_code(access.get().code(fault)))
            .into()
    })
}

/// Runs an operation that changes something, to its end and alone.
async fn change<U: 'static, T: Send + 'static>(
    store: &Accessor<U, HasFs>,
    operation: impl Future<Output = Result<T, FsFault>> + Send + 'static,
) -> FilesystemResult<T> {
    let turns = store.with(|mut access| access.get().fs.turns.clone());
    let done = turns.run(operation).await;
    finish(store, done).await
}

/// Returns a stream with the result of reading it; an empty stream if it could not be opened.
fn reader<U: 'static, P>(
    mut store: Access<'_, U, HasFs>,
    opened: Result<P, FsFault>,
    outcome: oneshot::Receiver<StreamOutcome>,
) -> wasmtime::Result<(StreamReader<P::Item>, FutureReader<StreamOutcome>)>
where
    P: StreamProducer<U>,
    P::Item: wasmtime::component::Lower + wasmtime::component::Lift + Send + Sync + 'static,
{
    match opened {
        Ok(producer) => Ok((
            StreamReader::new(&mut store, producer)?,
            FutureReader::new(&mut store, outcome)?,
        )),
        Err(fault) => {
            let code = error_code(store.get().code(fault));
            Ok((
                StreamReader::new(&mut store, std::iter::empty())?,
                FutureReader::new(&mut store, async move { wasmtime::error::Ok(Err(code)) })?,
            ))
        }
    }
}

/// Writes a stream into a file from an offset on; `None` appends.
fn write<U: 'static>(
    mut store: Access<'_, U, HasFs>,
    handle: &Resource<Descriptor>,
    mut data: StreamReader<u8>,
    offset: Option<Filesize>,
) -> wasmtime::Result<FutureReader<StreamOutcome>> {
    let entry = store.get().entry(handle)?;
    let (disk, turns) = (store.get().fs.disk.clone(), store.get().fs.turns.clone());
    let writer = entry
        .node()
        .and_then(|node| FileWriter::new(node.clone(), offset, disk));
    let (end, outcome) = StreamEnd::new();
    match writer {
        Ok(writer) => data.pipe(&mut store, FileConsumer::new(writer, &turns, end))?,
        Err(fault) => {
            let code = error_code(store.get().code(fault));
            data.close(&mut store)?;
            end.send(Err(code));
        }
    }
    FutureReader::new(&mut store, outcome)
}

impl types::Host for FsCtxView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }
}

impl preopens::Host for FsCtxView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        self.open_roots()
    }
}

impl types::HostDescriptor for FsCtxView<'_> {
    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.drop_entry(&fd)
    }
}

impl<U: Send + 'static> types::HostDescriptorWithStore<U> for HasFs {
    fn read_via_stream(
        mut store: Access<U, Self>,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> wasmtime::Result<(StreamReader<u8>, FutureReader<StreamOutcome>)> {
        let entry = store.get().entry(&fd)?;
        let (end, outcome) = StreamEnd::new();
        reader(store, FileProducer::open(entry, offset, end), outcome)
    }

    fn write_via_stream(
        store: Access<'_, U, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
        offset: Filesize,
    ) -> wasmtime::Result<FutureReader<StreamOutcome>> {
        write(store, &fd, data, Some(offset))
    }

    fn append_via_stream(
        store: Access<'_, U, Self>,
        fd: Resource<Descriptor>,
        data: StreamReader<u8>,
    ) -> wasmtime::Result<FutureReader<StreamOutcome>> {
        write(store, &fd, data, None)
    }

    async fn advise(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: Advice,
    ) -> FilesystemResult<()> {
        let done = entry(store, &fd)?.advise(offset, length, legacy_advice(advice));
        finish(store, done).await
    }

    async fn sync_data(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<()> {
        let done = entry(store, &fd)?.flush(true).await;
        finish(store, done).await
    }

    async fn get_flags(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<DescriptorFlags> {
        Ok(guest_flags(entry(store, &fd)?.flags()))
    }

    async fn get_type(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<DescriptorType> {
        Ok(descriptor_type(entry(store, &fd)?.kind()))
    }

    async fn set_size(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        size: Filesize,
    ) -> FilesystemResult<()> {
        let entry = entry(store, &fd)?;
        change(store, async move { entry.set_size(size).await }).await
    }

    async fn set_times(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        let (accessed, modified) = (time_update(accessed)?, time_update(modified)?);
        let entry = entry(store, &fd)?;
        change(store, async move { entry.set_times(accessed, modified) }).await
    }

    fn read_directory(
        mut store: Access<'_, U, Self>,
        fd: Resource<Descriptor>,
    ) -> wasmtime::Result<(StreamReader<DirectoryEntry>, FutureReader<StreamOutcome>)> {
        let entry = store.get().entry(&fd)?;
        let listing = entry.list(&store.get().fs.slots);
        let (end, outcome) = StreamEnd::new();
        let opened = listing.map(|listing| ListingProducer::new(listing, end));
        reader(store, opened, outcome)
    }

    async fn sync(store: &Accessor<U, Self>, fd: Resource<Descriptor>) -> FilesystemResult<()> {
        let done = entry(store, &fd)?.flush(false).await;
        finish(store, done).await
    }

    async fn create_directory_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        let entry = entry_for_path(store, &fd, &path)?;
        change(store, async move { entry.create_directory_at(path).await }).await
    }

    async fn stat(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<DescriptorStat> {
        let done = entry(store, &fd)?.stat();
        Ok(stat_value(&finish(store, done).await?))
    }

    async fn stat_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FilesystemResult<DescriptorStat> {
        let done = entry_for_path(store, &fd, &path)?.stat_at(follows_links(flags), path);
        Ok(stat_value(&finish(store, done).await?))
    }

    async fn set_times_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FilesystemResult<()> {
        let (accessed, modified) = (time_update(accessed)?, time_update(modified)?);
        let entry = entry_for_path(store, &fd, &path)?;
        let follow = follows_links(flags);
        change(store, async move {
            entry.set_times_at(follow, path, accessed, modified)
        })
        .await
    }

    async fn link_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        let (old, new) = (
            entry_for_path(store, &fd, &path)?,
            entry_for_path(store, &new_fd, &new_path)?,
        );
        let follow = follows_links(flags);
        change(store, async move {
            old.link_at(follow, path, &new, new_path).await
        })
        .await
    }

    async fn open_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        opening: OpenFlags,
        mode: DescriptorFlags,
    ) -> FilesystemResult<Resource<Descriptor>> {
        let entry = entry_for_path(store, &fd, &path)?;
        let slots = store.with(|mut access| access.get().fs.slots.clone());
        let (opening, mode) = (open_flags(opening), descriptor_flags(mode));
        let follow = follows_links(flags);
        let opened = change(store, async move {
            entry.open_at(follow, path, opening, mode, &slots).await
        });
        let opened = opened.await?;
        Ok(store.with(|mut access| access.get().push(opened))?)
    }

    async fn readlink_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<String> {
        let done = entry_for_path(store, &fd, &path)?.readlink_at(path);
        finish(store, done).await
    }

    async fn remove_directory_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        let entry = entry_for_path(store, &fd, &path)?;
        change(store, async move {
            entry
                .remove_directory_at(path, &mut YieldTimer::new())
                .await
        })
        .await
    }

    async fn rename_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FilesystemResult<()> {
        let (old, new) = (
            entry_for_path(store, &fd, &path)?,
            entry_for_path(store, &new_fd, &new_path)?,
        );
        change(store, async move {
            old.rename_at(path, &new, new_path, &mut YieldTimer::new())
                .await
        })
        .await
    }

    async fn symlink_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        link_text: String,
        path: String,
    ) -> FilesystemResult<()> {
        check_length(&link_text)?;
        let entry = entry_for_path(store, &fd, &path)?;
        change(
            store,
            async move { entry.symlink_at(&link_text, path).await },
        )
        .await
    }

    async fn unlink_file_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FilesystemResult<()> {
        let entry = entry_for_path(store, &fd, &path)?;
        change(store, async move { entry.unlink_file_at(path).await }).await
    }

    async fn is_same_object(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        store.with(|mut access| {
            let view = access.get();
            Ok(view.entry(&fd)?.is_same(&view.entry(&other)?))
        })
    }

    async fn metadata_hash(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
    ) -> FilesystemResult<MetadataHashValue> {
        let done = entry(store, &fd)?.metadata_hash();
        Ok(hash_value(&finish(store, done).await?))
    }

    async fn metadata_hash_at(
        store: &Accessor<U, Self>,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FilesystemResult<MetadataHashValue> {
        let done = entry_for_path(store, &fd, &path)?.metadata_hash_at(follows_links(flags), path);
        Ok(hash_value(&finish(store, done).await?))
    }
}
