//! Conversions between the error codes and types of the system and those of WASI.

use super::sys::{FileKind, FileStat, TimeUpdate};
use std::io;
use std::time::{Duration, SystemTime};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Datetime, DescriptorStat, DescriptorType, ErrorCode, MetadataHashValue, NewTimestamp,
};

/// Returns the WASI code of an I/O error. Handles errors that wasmtime's own table lacks, and leaves the rest to it.
pub(super) fn error_code(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::CrossesDevices => ErrorCode::CrossDevice,
        io::ErrorKind::ReadOnlyFilesystem => ErrorCode::ReadOnly,
        io::ErrorKind::QuotaExceeded => ErrorCode::Quota,
        io::ErrorKind::ExecutableFileBusy => ErrorCode::TextFileBusy,
        io::ErrorKind::WouldBlock => ErrorCode::WouldBlock,
        io::ErrorKind::InvalidData => ErrorCode::IllegalByteSequence,
        _ => match error.raw_os_error() {
            #[cfg(unix)]
            Some(raw) => match rustix::io::Errno::from_raw_os_error(raw) {
                // The host process has too many files open.
                rustix::io::Errno::MFILE | rustix::io::Errno::NFILE => {
                    ErrorCode::InsufficientMemory
                }
                rustix::io::Errno::NXIO | rustix::io::Errno::NODEV => ErrorCode::NoDevice,
                _ => ErrorCode::from(error),
            },
            _ => ErrorCode::from(error),
        },
    }
}

pub(super) fn descriptor_type(kind: FileKind) -> DescriptorType {
    match kind {
        FileKind::File => DescriptorType::RegularFile,
        FileKind::Directory => DescriptorType::Directory,
        FileKind::Link => DescriptorType::SymbolicLink,
        FileKind::Block => DescriptorType::BlockDevice,
        FileKind::Character => DescriptorType::CharacterDevice,
        FileKind::Other => DescriptorType::Unknown,
    }
}

pub(super) fn descriptor_stat(stat: &FileStat) -> DescriptorStat {
    let time = |since: Option<Duration>| {
        since.map(|since| Datetime {
            seconds: since.as_secs(),
            nanoseconds: since.subsec_nanos(),
        })
    };
    DescriptorStat {
        type_: descriptor_type(stat.kind),
        link_count: stat.links,
        size: stat.size,
        data_access_timestamp: time(stat.accessed),
        data_modification_timestamp: time(stat.modified),
        status_change_timestamp: time(stat.changed),
    }
}

/// Returns a hash that identifies an object. It does not show the host's device and inode, but has no secret key
/// either.
pub(super) fn metadata_hash(stat: &FileStat) -> MetadataHashValue {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, stat.id).hash(&mut hasher);
        hasher.finish()
    };
    MetadataHashValue {
        lower: half(0),
        upper: half(1),
    }
}

pub(super) fn time_update(time: NewTimestamp) -> Result<TimeUpdate, ErrorCode> {
    Ok(match time {
        NewTimestamp::NoChange => TimeUpdate::Keep,
        NewTimestamp::Now => TimeUpdate::Now,
        NewTimestamp::Timestamp(time) => {
            let more = u64::from(time.nanoseconds / 1_000_000_000);
            let seconds = time.seconds.checked_add(more).ok_or(ErrorCode::Overflow)?;
            let since = Duration::new(seconds, time.nanoseconds % 1_000_000_000);
            SystemTime::UNIX_EPOCH
                .checked_add(since)
                .ok_or(ErrorCode::Overflow)?;
            TimeUpdate::At(since)
        }
    })
}
