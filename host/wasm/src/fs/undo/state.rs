//! States of paths, as a record contains them, and reasons why a state cannot be recorded.

use std::fs;
use std::io;
use std::time::SystemTime;

use mimir_core::ToolErrorCode;
use serde::Serialize;

use super::super::node::MountState;
use super::super::resolve::descend;
use super::super::sys::{self, FileKind, OpenMode, OpenedObject};
use super::{MAX_BYTES, MAX_PATHS};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum RecordedState {
    Absent,
    Directory {
        /// Permission bits, on platforms that have them.
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    File {
        /// The digest of the content, if it was read.
        #[serde(skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        backup: Option<String>,
        size: u64,
        /// Modification time of the content, in nanoseconds since 1970.
        modified: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    Link {
        target: String,
    },
}

/// The state at a path.
pub(super) enum StateLookup {
    /// An object that is recorded without reading it.
    State(RecordedState),
    /// A file, open for reading.
    File(fs::File, fs::Metadata),
}

/// The reason why an original cannot be recorded.
pub(super) struct Unrecordable {
    pub(super) why: String,
    pub(super) code: ToolErrorCode,
}

impl RecordedState {
    /// Returns the state of a file without a copy.
    pub(super) fn of_file(meta: Option<&fs::Metadata>, sha256: Option<String>) -> Self {
        Self::File {
            sha256,
            backup: None,
            size: meta.map_or(0, fs::Metadata::len),
            modified: meta.map_or(0, modified),
            mode: meta.and_then(mode),
        }
    }
}

/// Looks up the state at a path of a mount, without reading content.
pub(super) fn find_state(shared: &MountState, path: &str) -> Result<StateLookup, Unrecordable> {
    let parts: Vec<&str> = path.split('/').skip(shared.depth).collect();
    let Some((name, parents)) = parts.split_last() else {
        return Ok(StateLookup::State(RecordedState::Directory { mode: None }));
    };
    let entry = descend(&shared.root, parents).and_then(|dir| Ok((sys::stat_at(&dir, name)?, dir)));
    let Ok((stat, dir)) = entry else {
        return Ok(StateLookup::State(RecordedState::Absent));
    };
    match stat.kind {
        FileKind::Directory => {
            let mode = stat.mode;
            Ok(StateLookup::State(RecordedState::Directory { mode }))
        }
        FileKind::Link => match sys::read_link(&dir, name) {
            Ok(target) => Ok(StateLookup::State(RecordedState::Link { target })),
            Err(_) => Err(unsuitable("the target of the link is not text")),
        },
        FileKind::File => {
            let open_mode = OpenMode {
                read: true,
                ..OpenMode::default()
            };
            let not_read = |error: io::Error| Unrecordable {
                why: format!("it cannot be read: {error}"),
                code: ToolErrorCode::PermissionDenied,
            };
            let OpenedObject::File(file) = sys::open(&dir, name, open_mode).map_err(not_read)?
            else {
                return Err(unsuitable("it is not a regular file"));
            };
            let meta = file.metadata().map_err(not_read)?;
            Ok(StateLookup::File(file, meta))
        }
        _ => Err(unsuitable("it is not a regular file")),
    }
}

/// Returns the permission bits of a file.
#[cfg(unix)]
pub(super) fn mode(meta: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(meta.permissions().mode() & 0o777)
}

/// Files inherit their permissions on this platform.
#[cfg(not(unix))]
pub(super) fn mode(_: &fs::Metadata) -> Option<u32> {
    None
}

/// Returns the modification time of a file, in nanoseconds since 1970.
pub(super) fn modified(meta: &fs::Metadata) -> i64 {
    let since = |time: SystemTime| match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(error) => {
            let before = i64::try_from(error.duration().as_nanos());
            before.map_or(i64::MIN, |before| -before)
        }
    };
    meta.modified().map_or(0, since)
}

pub(super) fn too_large() -> Unrecordable {
    Unrecordable {
        why: format!(
            "the limit is {} MiB of copies for one call",
            MAX_BYTES >> 20
        ),
        code: ToolErrorCode::LimitExceeded,
    }
}

pub(super) fn too_many() -> Unrecordable {
    Unrecordable {
        why: format!("the limit is {MAX_PATHS} recorded files for one call"),
        code: ToolErrorCode::LimitExceeded,
    }
}

pub(super) fn unsuitable(why: &str) -> Unrecordable {
    Unrecordable {
        why: why.to_owned(),
        code: ToolErrorCode::InvalidInput,
    }
}

pub(super) fn not_written(error: &io::Error) -> Unrecordable {
    Unrecordable {
        why: format!(".mimir/state/backups cannot be written: {error}"),
        code: match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ToolErrorCode::LimitExceeded
            }
            _ => ToolErrorCode::PermissionDenied,
        },
    }
}
