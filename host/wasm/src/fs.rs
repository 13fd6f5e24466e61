//! The files that a guest sees: `wasi:filesystem` over mounts with protected paths.
//!
//! wasmtime's own implementation grants a whole directory or none of it. This implementation resolves every path
//! itself, one component at a time on directory handles, and never follows a link that it has not read. It checks the
//! canonical path against [`PathRules`], and then works on that one name in that one directory handle, so a link
//! swapped in meanwhile is not followed.
//!
//! Work is done on the current thread, because moving a read of a regular file to another thread costs more than the
//! read. A guest that only reads and writes files still yields every few milliseconds, so that its timeout fires.
//! Operations that can take long (`sync`) run on a thread for blocking work.
//!
//! Out of scope: the choice of a call's mounts, and approval prompts.

mod change;
mod change_turns;
mod content;
mod descriptor;
mod dir_listing;
mod disk_status;
mod empty_check;
mod files_state;
mod link_check;
mod lookup;
mod mount_root;
mod node;
mod operations;
mod overlay;
mod path_arguments;
mod preview3;
mod quota;
mod real_path;
mod refusal;
mod resolve;
mod stream;
mod sys;
#[cfg(test)]
mod tests;
mod undo;
mod wasi_types;
mod yield_timer;

pub use disk_status::SpaceExhausted;
pub use quota::MountQuota;
pub use refusal::{PathRefusal, RefusalCause};
pub use undo::{
    CODE_WITHOUT_UNDO, EarlierAttempts, RecordedChanges, TOOL_WITHOUT_UNDO, UndoCopies,
    UndoRecorder, UndoScope, UndoTarget,
};

pub use content::{content_digest, read_bytes, read_text};
pub use files_state::read_files_state;
pub use real_path::real_path;

use bytes::Bytes;
use change_turns::ChangeTurns;
use disk_status::DiskStatus;
use mimir_core::DirectoryAccess;
use mimir_core::paths::PathRules;
use mount_root::MountRoot;
use node::{FsNode, HandleSlots};
use overlay::{FsEntry, OverlayNode, OverlayTree};
use std::path::PathBuf;
use std::sync::Arc;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable, ResourceTableError};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::{FsError, FsResult};
use yield_timer::YieldTimer;

pub(in crate::fs) use wasmtime_wasi::p2::bindings::filesystem::types::Advice;

/// Maximum number of stored refusals: enough to explain a failure.
const MAX_REFUSALS: usize = 16;

/// A directory of the host that is mounted in a guest.
#[derive(Debug, Clone)]
pub struct GuestMount {
    /// Path on the host, which ends with `prefix`.
    pub host: PathBuf,
    /// Path in the guest; `/` for the workspace root.
    pub guest: String,
    /// Path relative to the workspace root, to which the rules apply; `""` for the root.
    pub prefix: String,
    /// Access of the guest: read-only or read-write.
    pub access: DirectoryAccess,
    /// Rules for protected paths.
    pub rules: PathRules,
}

/// The quota and the undo recorder of a mount.
#[derive(Debug, Clone, Default)]
pub struct MountTracking {
    /// Quota for new data and entries; `None` is unlimited.
    pub quota: Option<MountQuota>,
    /// Recorder of changes for `mimir undo`.
    pub undo: Option<UndoRecorder>,
}

/// Error from opening a mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The directory cannot be opened.
    #[error("the granted folder `{path}` cannot be opened: {source}")]
    Open {
        /// Path from the workspace root.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The path is that of a file.
    #[error("`{path}` was granted as a folder, but it is a file")]
    NotAFolder {
        /// Path from the workspace root.
        path: String,
    },
    /// A component below the workspace root is a link, which could lead anywhere.
    #[error(
        "the granted folder `{path}` is reached through a symbolic link, which a grant does not cover"
    )]
    Link {
        /// Path from the workspace root.
        path: String,
    },
    /// A folder that was granted for writing does not exist, and cannot be created.
    #[error("the granted folder `{path}` does not exist and cannot be created: {reason}")]
    Create {
        /// Path from the workspace root.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A folder that was granted for writing does not exist, and a rule forbids creating it.
    #[error("the granted folder `{path}` does not exist and is not created: {reason}")]
    Protected {
        /// Path from the workspace root.
        path: String,
        /// The rule, and the folder that it protects.
        reason: String,
    },
    /// The prefix is not a path below the workspace root.
    #[error("`{prefix}` is not a path below the workspace")]
    Prefix {
        /// The prefix as given.
        prefix: String,
    },
}

/// The files of one store.
#[derive(Debug)]
pub struct GuardedFs {
    roots: Vec<(FsEntry, String)>,
    slots: HandleSlots,
    yield_timer: YieldTimer,
    refusals: Vec<PathRefusal>,
    /// Paths of granted folders that do not exist, and are not mounted.
    missing_folders: Vec<String>,
    limit_hit: bool,
    disk: DiskStatus,
    /// The turns of operations that change something.
    turns: ChangeTurns,
}

impl GuardedFs {
    /// Opens the mounts. The guest may have at most `max_open` files and directories open at the same time. A missing
    /// folder is created if it is granted for writing, else it is not mounted.
    pub fn open(mounts: Vec<GuestMount>, max_open: usize) -> Result<Self, MountError> {
        let tracked = mounts
            .into_iter()
            .map(|mount| (mount, MountTracking::default()));
        Self::open_tracked(tracked.collect(), max_open)
    }

    /// Opens the mounts with a quota and an undo recorder for each.
    pub fn open_tracked(
        mounts: Vec<(GuestMount, MountTracking)>,
        max_open: usize,
    ) -> Result<Self, MountError> {
        let mut roots = Vec::with_capacity(mounts.len());
        let mut missing_folders = Vec::new();
        for (mount, tracking) in mounts {
            let opened = mount_root::open_root(&mount, tracking.quota.as_ref())?;
            let Some(MountRoot { dir, created }) = opened else {
                missing_folders.push(mount.prefix);
                continue;
            };
            let shared = node::MountState {
                rules: mount.rules,
                writable: mount.access == DirectoryAccess::ReadWrite,
                depth: mount
                    .prefix
                    .split('/')
                    .filter(|part| !part.is_empty())
                    .count(),
                root: dir.try_clone().map_err(|source| MountError::Open {
                    path: mount.prefix.clone(),
                    source,
                })?,
                quota: tracking.quota,
                undo: tracking.undo,
            };
            let shared = Arc::new(shared);
            if let Some(undo) = &shared.undo {
                for path in &created {
                    undo.record_created_folder(&shared, path);
                }
            }
            let node = FsNode::root(dir, shared, mount.prefix);
            roots.push((FsEntry::Real(node), mount.guest));
        }
        Ok(Self {
            roots,
            slots: HandleSlots::new(max_open),
            yield_timer: YieldTimer::new(),
            refusals: Vec::new(),
            missing_folders,
            limit_hit: false,
            disk: DiskStatus::default(),
            turns: ChangeTurns::default(),
        })
    }

    /// Combines the mounts, as directories, and the given read-only files, which stay in memory, under one root `/`.
    pub fn with_overlay(mut self, files: Vec<(String, Bytes)>) -> Self {
        let mounts = self
            .roots
            .drain(..)
            .filter_map(|(entry, guest)| match entry {
                FsEntry::Real(node) => Some((guest.trim_start_matches('/').to_owned(), node)),
                FsEntry::Overlay(_) => None,
            });
        let tree = OverlayTree {
            mounts: mounts.collect(),
            files,
        };
        let root = FsEntry::Overlay(OverlayNode::root(tree));
        self.roots.push((root, "/".to_owned()));
        self
    }

    /// Returns an empty file system.
    pub fn empty() -> Self {
        Self {
            roots: Vec::new(),
            slots: HandleSlots::new(0),
            yield_timer: YieldTimer::new(),
            refusals: Vec::new(),
            missing_folders: Vec::new(),
            limit_hit: false,
            disk: DiskStatus::default(),
            turns: ChangeTurns::default(),
        }
    }

    /// Returns a future that waits for a change in progress, which a cancelled call does not end.
    pub(crate) fn changes_ended(&self) -> impl Future<Output = ()> + use<> {
        self.turns.ended()
    }

    /// Returns true if an operation ever failed because the guest had too many files open.
    pub fn limit_hit(&self) -> bool {
        self.limit_hit
    }

    /// Returns true if an operation ever failed because the quota of a mount was exceeded.
    pub fn was_quota_exceeded(&self) -> bool {
        self.roots.iter().any(|(entry, _)| match entry {
            FsEntry::Real(node) => {
                let quota = node.shared().quota.as_ref();
                quota.is_some_and(MountQuota::was_full)
            }
            FsEntry::Overlay(_) => false,
        })
    }

    /// Returns the reason if the guest's last write failed for lack of space.
    pub fn exhausted(&self) -> Option<SpaceExhausted> {
        self.disk.exhausted()
    }

    /// Returns the paths of granted folders that do not exist. The guest sees no folder there.
    pub fn missing_folders(&self) -> &[String] {
        &self.missing_folders
    }

    /// Returns the last refusals, oldest first.
    pub fn refusals(&self) -> &[PathRefusal] {
        &self.refusals
    }

    /// Returns the last refusal of a change that could not be recorded, if any, and removes all such refusals.
    pub fn take_not_recorded(&mut self) -> Option<String> {
        let is_not_recorded =
            |refusal: &PathRefusal| matches!(refusal.cause, RefusalCause::NotRecorded { .. });
        let last = self
            .refusals
            .iter()
            .rfind(|refusal| is_not_recorded(refusal))?
            .to_string();
        self.refusals.retain(|refusal| !is_not_recorded(refusal));
        Some(last)
    }

    fn store_refusal(&mut self, refusal: PathRefusal) {
        tracing::debug!(%refusal, "refused a path");
        if self.refusals.len() == MAX_REFUSALS {
            self.refusals.remove(0);
        }
        self.refusals.push(refusal);
    }
}

/// View of the store data that the implementation needs: the files and the table of handles.
pub struct FsCtxView<'a> {
    /// The files.
    pub fs: &'a mut GuardedFs,
    /// The handles. Its capacity limits the streams that a guest can open.
    pub table: &'a mut ResourceTable,
}

/// Store data with files.
pub trait FsView: Send {
    /// Returns the files and the table of handles.
    fn fs(&mut self) -> FsCtxView<'_>;
}

struct HasFs;

impl HasData for HasFs {
    type Data<'a> = FsCtxView<'a>;
}

/// Links `wasi:filesystem` (types and preopens).
pub fn add_to_linker<T: FsView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    types::add_to_linker::<T, HasFs>(linker, T::fs)?;
    preopens::add_to_linker::<T, HasFs>(linker, T::fs)?;
    path_arguments::add_to_linker(linker)
}

/// Links `wasi:filesystem` 0.3 with the same files.
pub(crate) fn add_preview3_to_linker<T: FsView + 'static>(
    linker: &mut Linker<T>,
) -> wasmtime::Result<()> {
    preview3::add_to_linker(linker)
}

impl preopens::Host for FsCtxView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<types::Descriptor>, String)>> {
        self.open_roots()
    }
}

impl types::Host for FsCtxView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<types::ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<types::ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error
            .downcast_ref::<std::io::Error>()
            .map(wasi_types::error_code))
    }
}

impl FsCtxView<'_> {
    /// Finishes an operation: stores the reason of a refusal, and yields if the guest has not yielded for a while.
    async fn finish<T>(&mut self, done: Result<T, refusal::FsFault>) -> FsResult<T> {
        self.fs.yield_timer.yield_if_due().await;
        done.map_err(|fault| self.fail(fault))
    }

    fn fail(&mut self, fault: refusal::FsFault) -> FsError {
        self.code(fault).into()
    }

    /// Returns the code of a fault for the guest, and stores the reason for the user.
    fn code(&mut self, fault: refusal::FsFault) -> types::ErrorCode {
        match fault {
            refusal::FsFault::Code(code) => code,
            refusal::FsFault::Refused(refusal) => {
                self.fs.store_refusal(*refusal);
                types::ErrorCode::NotPermitted
            }
            refusal::FsFault::TooManyOpen => {
                self.fs.limit_hit = true;
                types::ErrorCode::InsufficientMemory
            }
        }
    }

    /// Returns a handle of an entry. `Guest` is the type of the resource in wasmtime's bindings.
    fn push<Guest: 'static>(
        &mut self,
        entry: FsEntry,
    ) -> Result<Resource<Guest>, ResourceTableError> {
        Ok(descriptor::to_guest_handle(self.table.push(entry)?))
    }

    /// Returns a handle and the path in the guest of each mount.
    fn open_roots<Guest: 'static>(&mut self) -> wasmtime::Result<Vec<(Resource<Guest>, String)>> {
        let roots = self.fs.roots.clone();
        roots
            .into_iter()
            .map(|(root, guest)| Ok((self.push(root)?, guest)))
            .collect()
    }
}
