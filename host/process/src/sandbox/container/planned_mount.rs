//! Comparison of a container's mounts with the planned ones.
//!
//! An engine receives paths, and resolves them as root when it starts a container. By then, a command in the same
//! workspace may have replaced a folder by another folder or a link, and may restore it afterwards. So the planned
//! source of each mount is recorded in advance, by a path without links. Before a command enters, each mount in the
//! container is checked from outside. If a source or target differs, the command is not started.
//!
//! If the processes of a container cannot be inspected, the mounts cannot be compared, and the command is not started.
//! On systems other than Linux, where all containers run in a virtual machine, the check is limited to the identity of
//! the files at the paths.
//!
//! Out of scope: the choice of mounts.

use std::path::{Path, PathBuf};

use crate::sandbox::{FileIdentity, SandboxError};

/// A planned mount.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedMount {
    /// Target path in the container.
    target: PathBuf,
    /// Source; `None` for an empty folder in memory.
    source: Option<FileIdentity>,
    /// The target and its parent folder, for a mount over a part of the workspace.
    masked: Option<(FileIdentity, FileIdentity)>,
    writable: bool,
}

impl PlannedMount {
    /// Records the files at the source and target. `covers` is true if the target is inside a mounted part of the
    /// workspace.
    pub(super) fn new(
        target: &Path,
        source: Option<&Path>,
        covers: bool,
        writable: bool,
    ) -> Result<Self, SandboxError> {
        let replaced = |path: &Path| {
            let path = path.to_owned();
            move |error| {
                tracing::debug!(path = %path.display(), %error, "a path to mount cannot be opened");
                SandboxError::Replaced(path)
            }
        };
        let masked = match target.parent().filter(|_| covers) {
            Some(folder) => {
                let folder =
                    FileIdentity::of_path_without_links(folder).map_err(replaced(folder))?;
                Some((
                    folder,
                    FileIdentity::of_path_without_links(target).map_err(replaced(target))?,
                ))
            }
            None => None,
        };
        let source = match (source, &masked) {
            (Some(source), Some((_, masked))) if source == target => Some(masked.clone()),
            (Some(source), _) => {
                Some(FileIdentity::of_path_without_links(source).map_err(replaced(source))?)
            }
            (None, _) => None,
        };
        Ok(Self {
            target: target.to_owned(),
            source,
            masked,
            writable,
        })
    }

    /// Returns the workspace path that this mount masks.
    pub(super) fn covers(&self) -> Option<&FileIdentity> {
        self.masked.as_ref().map(|(_, masked)| masked)
    }

    /// Returns the target if this mount shows a part of the workspace unchanged.
    pub(super) fn shown_unchanged(&self) -> Option<&Path> {
        let masked = self.covers()?;
        (self.source.as_ref() == Some(masked)).then_some(self.target.as_path())
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns all files that must stay unchanged.
    pub(super) fn identities(&self) -> impl Iterator<Item = &FileIdentity> {
        let masked = self
            .masked
            .iter()
            .flat_map(|(folder, masked)| [folder, masked]);
        self.source.iter().chain(masked)
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::compare;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs::File;
    use std::io;
    use std::time::Duration;

    use rustix::fs::{
        AtFlags, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes, StatxFlags,
        fstatfs, fstatvfs, open, openat2, statx,
    };

    use super::*;

    /// File system type of tmpfs.
    const TMPFS_MAGIC: i64 = 0x0102_1994;

    /// Attempts to open the root of a container that has just started, and the pause between them. During the setup of
    /// some milliseconds, only root can inspect the first process.
    const MAX_ATTEMPTS: usize = 200;
    const RETRY_DELAY: Duration = Duration::from_millis(5);

    /// Compares the mounts of a process with the planned ones.
    pub(in super::super) async fn compare(
        process: i32,
        workspace: &Path,
        expected: &[PlannedMount],
    ) -> Result<(), SandboxError> {
        let root = match root(process).await {
            Ok(root) => root,
            Err(error) => {
                return Err(SandboxError::Engine {
                    doing: "to show the mounts of a container",
                    why: format!(
                        "its processes cannot be inspected from here ({error}), for example because the engine \
                         runs in a virtual machine, so the path rules cannot be verified"
                    ),
                });
            }
        };
        // Each mount must be distinct: otherwise one could pass for two, with the other at a different path.
        let mut mounts = HashSet::new();
        for mounted in expected {
            match mounted.verify_mount(&root, workspace) {
                Ok(Some(mount)) if mounts.insert(mount) => {}
                other => {
                    tracing::debug!(at = %mounted.target.display(), ?other, "a mount of a container is not as expected");
                    return Err(SandboxError::Replaced(mounted.target.clone()));
                }
            }
        }
        Ok(())
    }

    /// Opens the root folder of a process.
    async fn root(process: i32) -> io::Result<File> {
        let path = format!("/proc/{process}/root");
        let mut attempts = 0;
        loop {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match open(&path, flags, Mode::empty()) {
                Ok(root) => return Ok(root.into()),
                Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)
                    if attempts < MAX_ATTEMPTS =>
                {
                    attempts += 1
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    impl PlannedMount {
        /// Returns the ID of this mount below a root, or `None` if the mount differs from the plan.
        fn verify_mount(&self, root: &File, workspace: &Path) -> io::Result<Option<u64>> {
            let path = OFlags::PATH | OFlags::CLOEXEC;
            // An image may have links on the path to a target, and the engine has followed them.
            let open_in_image = |at: &Path| {
                openat2(root, at, path, Mode::empty(), ResolveFlags::IN_ROOT).map(File::from)
            };
            let open_below = |folder: &File, at: &Path| {
                let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
                openat2(folder, at, path | OFlags::NOFOLLOW, Mode::empty(), resolve).map(File::from)
            };
            let found = match self.target.strip_prefix(workspace) {
                Ok(at) if at != Path::new("") => {
                    let parent = open_in_image(workspace)?;
                    let parent = match at.parent().filter(|at| *at != Path::new("")) {
                        Some(at) => open_below(&parent, at)?,
                        None => parent,
                    };
                    // A mask must be in the original parent folder, which may have been moved.
                    if let Some((folder, _)) = &self.masked
                        && !folder.is_same_file(&parent)?
                    {
                        return Ok(None);
                    }
                    open_below(&parent, at.file_name().unwrap_or_default().as_ref())?
                }
                _ => open_in_image(&self.target)?,
            };
            let requested_fields = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
            let state = statx(&found, "", AtFlags::EMPTY_PATH, requested_fields)?;
            let known = StatxFlags::from_bits_retain(state.stx_mask).contains(StatxFlags::MNT_ID);
            let root_of_mount = StatxAttributes::MOUNT_ROOT;
            let has_source = match &self.source {
                Some(source) => source.is_same_file(&found)?,
                None => fstatfs(&found)?.f_type as i64 == TMPFS_MAGIC,
            };
            let read_only = fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY);
            let is_expected = has_source && known && state.stx_attributes.contains(root_of_mount);
            Ok((is_expected && (self.writable || read_only)).then_some(state.stx_mnt_id))
        }
    }
}

/// Checks that the paths still lead to the same files.
#[cfg(not(target_os = "linux"))]
pub(super) async fn compare(
    _: i32,
    _: &Path,
    expected: &[PlannedMount],
) -> Result<(), SandboxError> {
    match expected
        .iter()
        .flat_map(PlannedMount::identities)
        .find(|seen| !seen.is_unchanged())
    {
        Some(seen) => Err(SandboxError::Replaced(seen.path().to_owned())),
        None => Ok(()),
    }
}
