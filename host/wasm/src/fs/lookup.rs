//! Lookup and open operations: they do not change the directory tree, except that an open may create a file.

use super::node::{FsNode, HandleSlots, NodeObject};
use super::quota::MountQuota;
use super::refusal::{FsFault, RefusalCause};
use super::resolve::{GuestPath, join, resolve_path};
use super::sys::{self, FileKind, FileStat, OpenMode, OpenedObject};
use super::wasi_types;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, MetadataHashValue, OpenFlags,
};

/// Maximum number of attempts to open an object that is swapped between check and open.
const MAX_ATTEMPTS: usize = 8;

/// Opens a file or directory.
pub(super) async fn open(
    node: &FsNode,
    follow: bool,
    path: &str,
    open_flags: OpenFlags,
    flags: DescriptorFlags,
    slots: &HandleSlots,
) -> Result<FsNode, FsFault> {
    let synced = DescriptorFlags::FILE_INTEGRITY_SYNC
        | DescriptorFlags::DATA_INTEGRITY_SYNC
        | DescriptorFlags::REQUESTED_WRITE_SYNC;
    if flags.intersects(synced) {
        return Err(ErrorCode::Unsupported.into());
    }
    let changing = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
    if open_flags.contains(OpenFlags::DIRECTORY) && open_flags.intersects(changing) {
        return Err(ErrorCode::Invalid.into());
    }
    let write = flags.contains(DescriptorFlags::WRITE)
        || open_flags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
    let read = flags.contains(DescriptorFlags::READ) || !write;
    let mode = OpenMode {
        read,
        write,
        create: open_flags.contains(OpenFlags::CREATE),
        exclusive: open_flags.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE),
        truncate: open_flags.contains(OpenFlags::TRUNCATE),
        directory: open_flags.contains(OpenFlags::DIRECTORY),
    };
    let slot = slots.acquire()?;
    if write && node.shared().undo.is_some() {
        record_before_open(node, follow, path, mode).await?;
    }
    let (opened, path) = match &node.shared().quota {
        Some(quota) if write => open_counted(node, follow, path, mode, quota)?,
        _ => open_resolved(node, follow && !mode.exclusive, path, mode)?,
    };
    let object = match opened {
        OpenedObject::Neither => return Err(FsFault::refused(&path, RefusalCause::NotAFile)),
        OpenedObject::Dir(_) if write => return Err(ErrorCode::IsDirectory.into()),
        OpenedObject::Dir(dir) => NodeObject::Dir(dir),
        OpenedObject::File(_) if mode.directory => return Err(ErrorCode::NotDirectory.into()),
        OpenedObject::File(file) => NodeObject::File(file),
    };
    Ok(node.with_object(object, path, read, write, slot))
}

/// Records an object before it is opened for writing.
async fn record_before_open(
    node: &FsNode,
    follow: bool,
    path: &str,
    mode: OpenMode,
) -> Result<(), FsFault> {
    let Ok(target) = resolve_path(node, path, follow && !mode.exclusive) else {
        // The open itself reports this.
        return Ok(());
    };
    node.shared().check_writable(&target.path)?;
    match sys::stat_at(&target.at, &target.name) {
        Ok(_) if mode.exclusive => Ok(()),
        Err(_) if !mode.create => Ok(()),
        _ => node.shared().record(&target.path).await,
    }
}

/// Opens an object for writing, and updates the quota if the open creates or truncates a file.
fn open_counted(
    node: &FsNode,
    follow: bool,
    path: &str,
    mode: OpenMode,
    quota: &MountQuota,
) -> Result<(OpenedObject, String), FsFault> {
    let follow = follow && !mode.exclusive;
    let before =
        resolve_path(node, path, follow).and_then(|at| Ok(sys::stat_at(&at.at, &at.name)?));
    if before.is_err() && mode.create {
        quota.check_entry_limit()?;
    }
    let opened = open_resolved(node, follow, path, mode)?;
    match before {
        Err(_) => quota.add_entry(),
        Ok(stat) if mode.truncate && stat.kind == FileKind::File => quota.release_bytes(stat),
        Ok(_) => {}
    }
    Ok(opened)
}

fn open_resolved(
    node: &FsNode,
    follow: bool,
    path: &str,
    mut mode: OpenMode,
) -> Result<(OpenedObject, String), FsFault> {
    let written = GuestPath::parse(path)?;
    let check_access = |path: &str| {
        if mode.write {
            node.shared().check_writable(path)
        } else {
            node.shared().check_visible(path)
        }
    };
    let create_dir = written.dir && mode.create;
    mode.directory |= written.dir;
    if !written.climbs && !written.parts.is_empty() {
        let canonical = join(node.path(), written.parts.iter().copied());
        check_access(&canonical)?;
        if create_dir {
            return Err(ErrorCode::IsDirectory.into());
        }
        match sys::open_beneath(node.dir()?, &written.parts.join("/"), mode) {
            Some(Ok(opened)) => return Ok((opened, canonical)),
            Some(Err(error)) if !sys::is_link_error(&error) => return Err(error.into()),
            _ => {}
        }
    }
    for _ in 0..MAX_ATTEMPTS {
        let target = resolve_path(node, path, follow)?;
        check_access(&target.path)?;
        if create_dir {
            return Err(ErrorCode::IsDirectory.into());
        }
        match sys::open(&target.at, &target.name, mode) {
            Ok(opened) => return Ok((opened, target.path)),
            Err(error) if follow && sys::is_link_error(&error) && became_a_link(&target) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorCode::Loop.into())
}

/// Returns true if the name has become a link since the path was resolved.
fn became_a_link(target: &super::resolve::Target<'_>) -> bool {
    sys::stat_at(&target.at, &target.name).is_ok_and(|stat| stat.kind == FileKind::Link)
}

/// Returns the metadata of the object at `path`.
pub(super) fn stat_at(node: &FsNode, follow: bool, path: &str) -> Result<FileStat, FsFault> {
    let target = resolve_path(node, path, follow)?;
    let stat = match target.seen {
        Some(seen) => seen,
        None => sys::stat_at(&target.at, &target.name)?,
    };
    if target.dir && stat.kind != FileKind::Directory {
        return Err(ErrorCode::NotDirectory.into());
    }
    Ok(stat)
}

/// Returns the hash that identifies the object at `path`. Libraries request a hash for every listed entry and abort the
/// listing if a request fails, so an entry whose name is not Unicode gets the hash 0.
pub(super) fn hash_at(
    node: &FsNode,
    follow: bool,
    path: &str,
) -> Result<MetadataHashValue, FsFault> {
    match stat_at(node, follow, path) {
        Err(FsFault::Code(ErrorCode::NoEntry)) if path.contains(char::REPLACEMENT_CHARACTER) => {
            Ok(MetadataHashValue { lower: 0, upper: 0 })
        }
        result => result.map(|stat| wasi_types::metadata_hash(&stat)),
    }
}

/// Returns the text of the link at `path`, whatever its target: the text is workspace content, to which the same rules
/// apply as to the content of a file. Following the link is checked separately.
pub(super) fn read_link(node: &FsNode, path: &str) -> Result<String, FsFault> {
    let target = resolve_path(node, path, false)?;
    if sys::stat_at(&target.at, &target.name)?.kind != FileKind::Link {
        return Err(ErrorCode::Invalid.into());
    }
    Ok(sys::read_link(&target.at, &target.name)?)
}
