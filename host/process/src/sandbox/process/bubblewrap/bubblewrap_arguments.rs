//! Converts a root plan into arguments for `bwrap` and the descriptors that they refer to.
//!
//! Mounted files are passed as open descriptors, opened by a path without symbolic links, so that they cannot be
//! replaced meanwhile.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use seccompiler::sock_filter;

use super::super::TrialResult;
use super::super::child_plan::{MountAttributes, RootStep};
use super::super::root_plan::RootPlan;
use crate::sandbox::file_identity::open_by_no_link;
use crate::sandbox::mount_mask::MountMask;

/// Arguments, and the descriptors that they refer to by number.
#[derive(Default)]
pub(super) struct BubblewrapArguments {
    pub(super) args: Vec<OsString>,
    pub(super) fds: Vec<OwnedFd>,
}

/// Size of the shared memory: that of a temporary folder.
const SHARED: &CStr = c"2g";

/// Descriptors that bubblewrap inherits.
pub(super) struct InheritedFds {
    /// File with all arguments except the command.
    pub(super) args_file: OwnedFd,
    /// Descriptors that the arguments refer to.
    referenced: Vec<OwnedFd>,
}

impl InheritedFds {
    pub(super) fn into_fds(self) -> Vec<OwnedFd> {
        let mut fds = self.referenced;
        fds.push(self.args_file);
        fds
    }
}

/// Returns the number of descriptors that these steps need.
pub(super) fn count_fds(steps: &[RootStep]) -> usize {
    let needs_fd = |step: &&RootStep| {
        matches!(
            step,
            RootStep::Bind { .. } | RootStep::File { .. } | RootStep::Cover { .. }
        )
    };
    steps.iter().filter(needs_fd).count()
}

impl BubblewrapArguments {
    pub(super) fn arg(&mut self, arg: impl AsRef<OsStr>) {
        self.args.push(arg.as_ref().to_owned());
    }

    pub(super) fn option(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.arg(name);
        self.arg(value);
    }

    /// Adds an option whose value is a descriptor.
    pub(super) fn fd_option(&mut self, name: &str, descriptor: OwnedFd) {
        self.option(name, descriptor.as_raw_fd().to_string());
        self.fds.push(descriptor);
    }

    fn mode(&mut self, mode: u32) {
        self.option("--perms", format!("{mode:04o}"));
    }

    /// Writes the arguments to a file in memory that no other process can read.
    pub(super) fn into_fds(self) -> io::Result<InheritedFds> {
        let mut bytes = Vec::new();
        for arg in &self.args {
            bytes.extend(arg.as_bytes());
            bytes.push(0);
        }
        Ok(InheritedFds {
            args_file: memory_file(&bytes)?,
            referenced: self.fds,
        })
    }

    /// Adds the steps of the new root in order, then seals it.
    pub(super) fn root(&mut self, root: &RootPlan, trial: TrialResult) -> io::Result<()> {
        // Bubblewrap creates a complete `/dev`, with the usual links and a private terminal.
        self.option("--dev", "/dev");
        // A tmpfs has no size limit of its own.
        self.option("--perms", "1777");
        self.option("--size", bytes(SHARED));
        self.option("--tmpfs", "/dev/shm");
        for step in &root.steps {
            match step {
                RootStep::Cover { at, with, stand_in } => {
                    let outside = machine_path(&root.steps, at)?;
                    self.cover(at, &outside, *with, stand_in.as_deref())?;
                }
                step => self.step(step)?,
            }
        }
        self.option("--remount-ro", "/dev");
        if trial.proc {
            self.option("--proc", "/proc");
            // uid 0 of the host may write some of its files, even under another uid in the sandbox.
            self.option("--remount-ro", "/proc");
        }
        self.option("--remount-ro", "/");
        Ok(())
    }

    fn step(&mut self, step: &RootStep) -> io::Result<()> {
        match step {
            RootStep::Directory { at, .. }
            | RootStep::Link { at, .. }
            | RootStep::Fresh { at, .. }
                if is_device(at) || at.as_bytes() == b"proc" => {}
            RootStep::Bind { at, .. } if is_device(at) => {}
            RootStep::Directory { at, mode } => {
                self.mode(*mode);
                self.option("--dir", absolute_path(at));
            }
            // Bubblewrap creates mount points itself.
            RootStep::File { content, .. } if content.is_empty() => {}
            RootStep::File { at, content, mode } => {
                let content = memory_file(content)?;
                self.mode(*mode);
                self.fd_option("--ro-bind-data", content);
                self.arg(absolute_path(at));
            }
            RootStep::Link { at, to } => {
                self.option("--symlink", OsStr::from_bytes(to.as_bytes()));
                self.arg(absolute_path(at));
            }
            RootStep::Bind {
                from,
                at,
                attributes,
            } => {
                let from = open(from)?;
                self.bind(from, at, attributes.0 & MountAttributes::READ_ONLY.0 != 0);
            }
            RootStep::Fresh { at, options, .. } => {
                for (name, value) in options {
                    match name.to_bytes() {
                        b"mode" => self.option("--perms", OsStr::from_bytes(value.to_bytes())),
                        b"size" => self.option("--size", bytes(value)),
                        _ => {}
                    }
                }
                self.option("--tmpfs", absolute_path(at));
            }
            // `Attach` occurs only in the native sandbox, and `root` handles `Cover`.
            RootStep::Attach { .. } | RootStep::Cover { .. } => {}
        }
        Ok(())
    }

    fn bind(&mut self, from: OwnedFd, at: &CStr, read_only: bool) {
        self.fd_option(
            if read_only {
                "--ro-bind-fd"
            } else {
                "--bind-fd"
            },
            from,
        );
        self.arg(absolute_path(at));
    }

    /// Covers a path in the sandbox. `outside` is the host path of the original.
    fn cover(
        &mut self,
        at: &CStr,
        outside: &CStr,
        with: MountMask,
        stand_in: Option<&CStr>,
    ) -> io::Result<()> {
        let mask_path = absolute_path(at);
        let from = match open(outside) {
            // The path has been removed since the scan.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            from => from?,
        };
        match (with, stand_in) {
            (MountMask::ReadOnly, _) => self.bind(from, at, true),
            (MountMask::Pin, _) => self.bind(from, at, false),
            (MountMask::Nothing { .. }, Some(path)) => self.bind(open(path)?, at, true),
            (MountMask::Nothing { folder: true }, None) => {
                self.mode(0o555);
                self.option("--tmpfs", &mask_path);
                self.option("--remount-ro", &mask_path);
            }
            (MountMask::Nothing { folder: false }, None) => {
                let nothing = memory_file(&[])?;
                self.mode(0);
                self.fd_option("--ro-bind-data", nothing);
                self.arg(mask_path);
            }
        }
        Ok(())
    }
}

/// Returns the host path of a path in the sandbox, from the last mount at or above it.
fn machine_path(steps: &[RootStep], path: &CStr) -> io::Result<CString> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let mounts = steps.iter().rev().filter_map(|step| match step {
        RootStep::Bind { from, at, .. } => {
            let at = Path::new(OsStr::from_bytes(at.to_bytes()));
            let below = path.strip_prefix(at).ok()?;
            let from = Path::new(OsStr::from_bytes(from.to_bytes()));
            Some((at.components().count(), from.join(below)))
        }
        _ => None,
    });
    // Of two mounts at the same path, the last one wins, which comes first in this order.
    let deepest = mounts.reduce(|one, other| if other.0 > one.0 { other } else { one });
    let outside = deepest.ok_or(io::ErrorKind::NotFound)?.1;
    Ok(CString::new(outside.into_os_string().into_vec())?)
}

fn is_device(at: &CStr) -> bool {
    at.to_bytes() == b"dev" || at.to_bytes().starts_with(b"dev/")
}

/// Returns an absolute path in the sandbox. Steps store it relative to the root.
fn absolute_path(at: &CStr) -> OsString {
    let mut path = vec![b'/'];
    path.extend(at.to_bytes());
    OsString::from_vec(path)
}

/// Converts a size from the kernel's notation to bytes.
fn bytes(size: &CStr) -> String {
    let size = size.to_string_lossy();
    match size.strip_suffix('g').map(str::parse::<u64>) {
        Some(Ok(gigabytes)) => (gigabytes << 30).to_string(),
        _ => size.into_owned(),
    }
}

/// Opens a host file by a path without symbolic links.
fn open(path: &CStr) -> io::Result<OwnedFd> {
    match open_by_no_link(path) {
        Err(Errno::LOOP) => Err(io::Error::other("its path contains a symbolic link")),
        opened => Ok(opened?),
    }
}

/// Creates a file in memory, positioned at its beginning.
pub(super) fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"mimir", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// Returns a filter instruction in the memory layout of the kernel.
pub(super) fn instruction(filter: &sock_filter) -> [u8; 8] {
    let [a, b] = filter.code.to_ne_bytes();
    let [e, f, g, h] = filter.k.to_ne_bytes();
    [a, b, filter.jt, filter.jf, e, f, g, h]
}
