//! Conversions between the types of `wasi:filesystem` 0.2, which the operations use, and those of 0.3.

use std::time::Duration;

use wasmtime_wasi::p2::bindings::filesystem::types as preview2;
use wasmtime_wasi::p3::bindings::clocks::system_clock::Instant;
use wasmtime_wasi::p3::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode,
    MetadataHashValue, NewTimestamp, OpenFlags,
};

use super::super::sys::{FileStat, TimeUpdate};
use super::super::wasi_types;

/// Maps cases with the same name.
macro_rules! same_cases {
    ($value:expr, $from:path => $to:path: $($case:ident)*; $($rest:tt)*) => {{
        use $from as From;
        use $to as To;
        match $value {
            $(From::$case => To::$case,)*
            $($rest)*
        }
    }};
}

pub(super) fn error_code(code: preview2::ErrorCode) -> ErrorCode {
    same_cases!(code, preview2::ErrorCode => ErrorCode:
        Access Already BadDescriptor Busy Deadlock Quota Exist FileTooLarge IllegalByteSequence InProgress Interrupted
        Invalid Io IsDirectory Loop TooManyLinks MessageSize NameTooLong NoDevice NoEntry NoLock InsufficientMemory
        InsufficientSpace NotDirectory NotEmpty NotRecoverable Unsupported NoTty NoSuchDevice Overflow NotPermitted Pipe
        ReadOnly InvalidSeek TextFileBusy CrossDevice;
        // WASI 0.3 has no such code.
        From::WouldBlock => To::Other(Some("the operation would block".into())),
    )
}

pub(super) fn descriptor_type(kind: preview2::DescriptorType) -> DescriptorType {
    same_cases!(kind, preview2::DescriptorType => DescriptorType:
        BlockDevice CharacterDevice Directory Fifo SymbolicLink RegularFile Socket;
        From::Unknown => To::Other(None),
    )
}

pub(super) fn legacy_advice(advice: Advice) -> preview2::Advice {
    same_cases!(advice, Advice => preview2::Advice:
        Normal Sequential Random WillNeed DontNeed NoReuse;
    )
}

/// Maps flags with the same name.
macro_rules! same_flags {
    ($flags:expr, $from:ty => $to:ty: $($flag:ident)*) => {{
        let mut converted = <$to>::empty();
        $(
            if $flags.contains(<$from>::$flag) {
                converted |= <$to>::$flag;
            }
        )*
        converted
    }};
}

pub(super) fn descriptor_flags(flags: DescriptorFlags) -> preview2::DescriptorFlags {
    same_flags!(flags, DescriptorFlags => preview2::DescriptorFlags:
        READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY)
}

pub(super) fn guest_flags(flags: preview2::DescriptorFlags) -> DescriptorFlags {
    same_flags!(flags, preview2::DescriptorFlags => DescriptorFlags:
        READ WRITE FILE_INTEGRITY_SYNC DATA_INTEGRITY_SYNC REQUESTED_WRITE_SYNC MUTATE_DIRECTORY)
}

pub(super) fn open_flags(flags: OpenFlags) -> preview2::OpenFlags {
    same_flags!(flags, OpenFlags => preview2::OpenFlags: CREATE DIRECTORY EXCLUSIVE TRUNCATE)
}

pub(super) fn hash_value(hash: &preview2::MetadataHashValue) -> MetadataHashValue {
    MetadataHashValue {
        lower: hash.lower,
        upper: hash.upper,
    }
}

pub(super) fn directory_entry(entry: preview2::DirectoryEntry) -> DirectoryEntry {
    DirectoryEntry {
        type_: descriptor_type(entry.type_),
        name: entry.name,
    }
}

pub(super) fn stat_value(stat: &FileStat) -> DescriptorStat {
    let time = |since: Option<Duration>| {
        since.map(|since| Instant {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        })
    };
    DescriptorStat {
        type_: descriptor_type(wasi_types::descriptor_type(stat.kind)),
        link_count: stat.links,
        size: stat.size,
        data_access_timestamp: time(stat.accessed),
        data_modification_timestamp: time(stat.modified),
        status_change_timestamp: time(stat.changed),
    }
}

/// Returns the new time of a file. Times before 1970 are not supported, as in WASI 0.2.
pub(super) fn time_update(time: NewTimestamp) -> Result<TimeUpdate, ErrorCode> {
    let time = match time {
        NewTimestamp::NoChange => preview2::NewTimestamp::NoChange,
        NewTimestamp::Now => preview2::NewTimestamp::Now,
        NewTimestamp::Timestamp(time) => preview2::NewTimestamp::Timestamp(preview2::Datetime {
            seconds: u64::try_from(time.seconds).map_err(|_| ErrorCode::Overflow)?,
            nanoseconds: time.nanoseconds,
        }),
    };
    wasi_types::time_update(time).map_err(error_code)
}
