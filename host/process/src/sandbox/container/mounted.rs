//! What a container has mounted, compared with what it was to have.
//!
//! An engine is given paths, and looks them up, as root, when it starts a container. A command that runs over the same
//! workspace can have put another folder or a link in the place of one by then, and back afterwards. So what each mount
//! is to be of is taken from here first, by a path that has no link in it; and before a command enters, each mount is
//! looked at where it is in the container, from outside. Where one is of anything else, or anywhere else, nothing enters.
//!
//! Where the processes of a container cannot be seen, nothing can be compared, and nothing enters either. On systems
//! other than Linux, where all containers are in a machine of their own, no more is known than that the paths lead to
//! the same as before.
//!
//! Never here: what is mounted, and why.

use std::path::{Path, PathBuf};

use crate::sandbox::{Fault, Seen};

/// A mount as it is to be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mounted {
    /// Where, in the container.
    at: PathBuf,
    /// Of what; of nothing if it is an empty folder in memory.
    of: Option<Seen>,
    /// The folder of what it is over, and that itself: where it covers something of the workspace.
    over: Option<(Seen, Seen)>,
    writable: bool,
}

impl Mounted {
    /// Takes what is there. `covers` says whether it is over a part of the workspace that is mounted itself.
    pub(super) fn new(
        at: &Path,
        of: Option<&Path>,
        covers: bool,
        writable: bool,
    ) -> Result<Self, Fault> {
        let replaced = |path: &Path| {
            let path = path.to_owned();
            move |error| {
                tracing::debug!(path = %path.display(), %error, "what is to be mounted cannot be taken");
                Fault::Replaced(path)
            }
        };
        let over = match at.parent().filter(|_| covers) {
            Some(folder) => {
                let folder = Seen::by_no_link(folder).map_err(replaced(folder))?;
                Some((folder, Seen::by_no_link(at).map_err(replaced(at))?))
            }
            None => None,
        };
        let of = match (of, &over) {
            (Some(of), Some((_, over))) if of == at => Some(over.clone()),
            (Some(of), _) => Some(Seen::by_no_link(of).map_err(replaced(of))?),
            (None, _) => None,
        };
        Ok(Self {
            at: at.to_owned(),
            of,
            over,
            writable,
        })
    }

    /// What it covers of the workspace.
    pub(super) fn covers(&self) -> Option<&Seen> {
        self.over.as_ref().map(|(_, over)| over)
    }

    /// All that it must be possible to tell from others.
    pub(super) fn seen(&self) -> impl Iterator<Item = &Seen> {
        let over = self.over.iter().flat_map(|(folder, over)| [folder, over]);
        self.of.iter().chain(over)
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

    /// What the kernel calls a file system in memory.
    const IN_MEMORY: i64 = 0x0102_1994;

    /// How often it is tried to look into a container that has just begun, and how long it is waited in between. Before
    /// it is what it is to be, its first process is closed to all but root, for some milliseconds.
    const TRIES: usize = 200;
    const AGAIN: Duration = Duration::from_millis(5);

    /// Compares what the process has mounted with what it was to have.
    pub(in super::super) async fn compare(
        process: i32,
        workspace: &Path,
        all: &[Mounted],
    ) -> Result<(), Fault> {
        let root = match root(process).await {
            Ok(root) => root,
            Err(error) => {
                return Err(Fault::Engine {
                    doing: "to show what a container has mounted",
                    why: format!(
                        "its processes cannot be seen from here ({error}), as with an engine in a machine of its own, and \
                         without that nobody can tell whether it holds the rules about paths"
                    ),
                });
            }
        };
        // Each mount is one of its own: else one could stand for two, and the other one be anywhere.
        let mut mounts = HashSet::new();
        for mounted in all {
            match mounted.is_there(&root, workspace) {
                Ok(Some(mount)) if mounts.insert(mount) => {}
                other => {
                    tracing::debug!(at = %mounted.at.display(), ?other, "a container has mounted something else");
                    return Err(Fault::Replaced(mounted.at.clone()));
                }
            }
        }
        Ok(())
    }

    /// The root that a process sees.
    async fn root(process: i32) -> io::Result<File> {
        let path = format!("/proc/{process}/root");
        let mut tries = 0;
        loop {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match open(&path, flags, Mode::empty()) {
                Ok(root) => return Ok(root.into()),
                Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) if tries < TRIES => {
                    tries += 1
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    impl Mounted {
        /// The number of this mount below a root, if it is what it is to be.
        fn is_there(&self, root: &File, workspace: &Path) -> io::Result<Option<u64>> {
            let path = OFlags::PATH | OFlags::CLOEXEC;
            // An image may have links in the way to what is mounted, and the engine has followed them.
            let of_image = |at: &Path| {
                openat2(root, at, path, Mode::empty(), ResolveFlags::IN_ROOT).map(File::from)
            };
            let below = |folder: &File, at: &Path| {
                let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
                openat2(folder, at, path | OFlags::NOFOLLOW, Mode::empty(), resolve).map(File::from)
            };
            let found = match self.at.strip_prefix(workspace) {
                Ok(at) if at != Path::new("") => {
                    let above = of_image(workspace)?;
                    let above = match at.parent().filter(|at| *at != Path::new("")) {
                        Some(at) => below(&above, at)?,
                        None => above,
                    };
                    // What covers is where what it covers was, and not beside it.
                    if let Some((folder, _)) = &self.over
                        && !folder.is_in(&above)?
                    {
                        return Ok(None);
                    }
                    below(&above, at.file_name().unwrap_or_default().as_ref())?
                }
                _ => of_image(&self.at)?,
            };
            let asked = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
            let state = statx(&found, "", AtFlags::EMPTY_PATH, asked)?;
            let known = StatxFlags::from_bits_retain(state.stx_mask).contains(StatxFlags::MNT_ID);
            let root_of_mount = StatxAttributes::MOUNT_ROOT;
            let is = match &self.of {
                Some(of) => of.is_in(&found)?,
                None => fstatfs(&found)?.f_type as i64 == IN_MEMORY,
            };
            let read_only = fstatvfs(&found)?.f_flag.contains(StatVfsMountFlags::RDONLY);
            let there = is && known && state.stx_attributes.contains(root_of_mount);
            Ok((there && (self.writable || read_only)).then_some(state.stx_mnt_id))
        }
    }
}

/// Whether the paths lead to the same as before.
#[cfg(not(target_os = "linux"))]
pub(super) async fn compare(_: i32, _: &Path, all: &[Mounted]) -> Result<(), Fault> {
    match all
        .iter()
        .flat_map(Mounted::seen)
        .find(|seen| !seen.stays())
    {
        Some(seen) => Err(Fault::Replaced(seen.path().to_owned())),
        None => Ok(()),
    }
}
