//! Data that a child needs between the fork and the program, prepared before the fork.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::{Resource, Rlimit};
use seccompiler::BpfProgram;

use super::landlock::LandlockRules;
use super::session_namespaces::SessionNamespaces;
use crate::sandbox::mount_mask::MountMask;
use crate::sandbox::sys::{ArgvMemory, CStringArray};

/// Steps of the child and their data.
pub(super) struct ChildPlan {
    /// Command line of the forking process, which the child erases.
    pub(super) argv: Option<ArgvMemory>,
    pub(super) uid_map: Vec<u8>,
    pub(super) gid_map: Vec<u8>,
    /// Steps that build the new root, in order.
    pub(super) steps: Vec<RootStep>,
    /// The working directory of the program.
    pub(super) directory: CString,
    pub(super) landlock: Option<LandlockRules>,
    pub(super) limits: Vec<(Resource, Rlimit)>,
    pub(super) filter: BpfProgram,
    pub(super) program: CString,
    pub(super) arguments: CStringArray,
    pub(super) environment: CStringArray,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// Pipe for status records.
    pub(super) status: OwnedFd,
    /// Pipe that hangs up when the parent has ended.
    pub(super) lifeline: OwnedFd,
    /// Resources shared with other commands of the session.
    pub(super) shared: Arc<SessionNamespaces>,
    /// Socket that passes out the pidfd of the first process, and passes in the permission to start the program.
    pub(super) handover_socket: OwnedFd,
    /// Stack of the child that becomes the program.
    pub(super) stack: Vec<u8>,
    /// Reason why the program did not start.
    pub(super) failure: Option<(SetupStage, Errno)>,
}

impl ChildPlan {
    /// An empty folder that can be listed, so that programs that walk a tree do not fail.
    pub(super) const VOID_FOLDER: &CStr = c".void/folder";
    /// A file without read permission.
    pub(super) const VOID_FILE: &CStr = c".void/file";
    /// Stack size in bytes between the fork and the program, where the frames are few and small.
    pub(super) const STACK: usize = 64 * 1024;
}

/// Step of building the new root. Paths are relative to the new root.
pub(super) enum RootStep {
    Directory {
        at: CString,
        mode: u32,
    },
    File {
        at: CString,
        content: Vec<u8>,
        mode: u32,
    },
    Link {
        at: CString,
        to: CString,
    },
    /// Mounts the host path `from`.
    Bind {
        from: CString,
        at: CString,
        attributes: MountAttributes,
    },
    /// Mounts a new file system.
    Fresh {
        kind: CString,
        at: CString,
        options: Vec<(CString, CString)>,
        attributes: MountAttributes,
    },
    /// Attaches a detached mount that is already open.
    Attach {
        mount: OwnedFd,
        at: CString,
    },
    /// Covers a path inside an earlier mount.
    Cover {
        at: CString,
        with: MountMask,
        /// Host file or folder that replaces a hidden path; `None` for an empty one.
        stand_in: Option<CString>,
    },
}

/// Restrictions of a mount: bits of `mount_setattr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MountAttributes(pub(super) u64);

impl MountAttributes {
    pub(super) const READ_ONLY: Self = Self::from_flags(MountAttrFlags::MOUNT_ATTR_RDONLY);
    /// Ignores setuid bits and device files.
    pub(super) const PLAIN: Self =
        Self::from_flags(MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV));
    /// [`PLAIN`](Self::PLAIN) and read-only.
    pub(super) const SYSTEM: Self = Self(Self::READ_ONLY.0 | Self::PLAIN.0);
    /// Allows devices, but no programs or setuid bits.
    pub(super) const DEVICE: Self = Self::from_flags(
        MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC),
    );
    /// All restrictions together.
    pub(super) const NOTHING: Self = Self(Self::SYSTEM.0 | Self::DEVICE.0);

    const fn from_flags(flags: MountAttrFlags) -> Self {
        Self(flags.bits() as u64)
    }
}

/// Stage at which a child failed before it became the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetupStage {
    Group,
    Identity,
    Root,
    Step(u32),
    Pivot,
    Seal,
    Name,
    Directory,
    Landlock,
    Privileges,
    Fork,
    Session,
    Limits,
    Filter,
    Execute,
}

impl SetupStage {
    /// Stages with their descriptions. A [`StatusRecord`] contains the index of a stage.
    const ALL: [(Self, &str); 15] = [
        (Self::Group, "joining its control groups"),
        (Self::Identity, "becoming the owner of its namespaces"),
        (Self::Root, "creating a new root"),
        (Self::Step(0), "mounting"),
        (Self::Pivot, "switching to the new root"),
        (Self::Seal, "making the root read-only"),
        (Self::Name, "setting the host name"),
        (Self::Directory, "entering the working directory"),
        (Self::Landlock, "restricting itself with Landlock"),
        (Self::Privileges, "giving up its privileges"),
        (Self::Fork, "starting a process"),
        (Self::Session, "connecting its input and output"),
        (Self::Limits, "setting its limits"),
        (Self::Filter, "filtering its system calls"),
        (Self::Execute, "starting the program"),
    ];

    fn index(self) -> usize {
        let is_same_stage = |(other, _): &(Self, &str)| {
            std::mem::discriminant(other) == std::mem::discriminant(&self)
        };
        Self::ALL.iter().position(is_same_stage).unwrap_or(0)
    }

    fn from_index(index: u32, step: u32) -> Option<Self> {
        match Self::ALL.get(usize::try_from(index).ok()?)? {
            (Self::Step(_), _) => Some(Self::Step(step)),
            (stage, _) => Some(*stage),
        }
    }

    /// Describes the stage for an error message.
    pub(super) fn describe(self, steps: &[String]) -> String {
        let description = Self::ALL
            .get(self.index())
            .map_or("", |(_, description)| description);
        let Self::Step(index) = self else {
            return description.to_owned();
        };
        let step = usize::try_from(index)
            .ok()
            .and_then(|index| steps.get(index));
        format!("{description} {}", step.map_or("something", String::as_str))
    }
}

/// Message of the first process: the program has started, has ended, or did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusRecord {
    Started,
    Exited(i32),
    Failed(SetupStage, Errno),
}

impl StatusRecord {
    pub(super) const BYTES: usize = 16;

    /// Encodes the record in a fixed size, so that a single write is atomic.
    pub(super) fn bytes(self) -> [u8; Self::BYTES] {
        let (kind, number, stage, step) = match self {
            Self::Started => (0, 0, 0, 0),
            Self::Exited(code) => (1, code, 0, 0),
            Self::Failed(stage, error) => {
                let step = if let SetupStage::Step(step) = stage {
                    step
                } else {
                    0
                };
                (2, error.raw_os_error(), stage.index() as u32, step)
            }
        };
        let mut bytes = [0; Self::BYTES];
        let words = [kind, number.cast_unsigned(), stage, step];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let mut words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let (kind, number, stage, step) = (
            words.next()?,
            words.next()?.cast_signed(),
            words.next()?,
            words.next()?,
        );
        match kind {
            0 => Some(Self::Started),
            1 => Some(Self::Exited(number)),
            2 => Some(Self::Failed(
                SetupStage::from_index(stage, step)?,
                Errno::from_raw_os_error(number),
            )),
            _ => None,
        }
    }
}

/// Converts a path for the kernel.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_record_survives_a_round_trip() {
        let stages = SetupStage::ALL.map(|(stage, _)| stage);
        for stage in stages.into_iter().chain([SetupStage::Step(7)]) {
            let record = StatusRecord::Failed(stage, Errno::ACCESS);
            assert_eq!(StatusRecord::read(record.bytes()), Some(record));
        }
        for record in [
            StatusRecord::Started,
            StatusRecord::Exited(0),
            StatusRecord::Exited(255),
        ] {
            assert_eq!(StatusRecord::read(record.bytes()), Some(record));
        }
        assert_eq!(StatusRecord::read([9; StatusRecord::BYTES]), None);
    }
}
