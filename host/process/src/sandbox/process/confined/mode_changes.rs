//! Changes of file modes by a command without namespaces.
//!
//! Landlock does not check `chmod`, so the command could change the mode of each file of this user. The kernel passes
//! these calls to this process instead, which changes the mode if the command may change the file itself.
//!
//! The arguments of a call can change while it waits. So they are read once, and the file that they lead to is opened
//! before its location is checked; the mode of that file is changed, whatever its path leads to by then.
//!
//! Reading a path needs the right to debug the process. Yama (`kernel.yama.ptrace_scope`) grants it for descendants of
//! this process, not for orphans, and with a value of 2 or 3 for none: a change by path then fails with EPERM.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use super::super::syscall_filter::SYS_FCHMODAT2;
use super::access_rules::WritablePaths;
use crate::sandbox::sys::{self, PendingSyscall};

/// Maximum length of a path in bytes, with its end, as in the kernel.
const MAX_PATH: usize = 4096;

/// Unit in which memory is accessible or not, on every processor: a part of a page.
const MEMORY_BLOCK: u64 = 4096;

/// The mode bits that a command can set. The filter of all commands refuses set-ID bits.
const MODE_BITS: u32 = 0o1777;

/// Answers the calls of a command until all of its processes have ended.
pub(super) fn serve_mode_changes(listener: OwnedFd, writable: WritablePaths) -> io::Result<()> {
    let serve = move || {
        loop {
            let mut polled = [PollFd::new(&listener, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [polled] = polled;
            if polled.revents().contains(PollFlags::IN) {
                match sys::receive_syscall(listener.as_fd()) {
                    Ok(call) => {
                        let result = change_mode(&listener, &call, &writable);
                        sys::answer_syscall(listener.as_fd(), &call, result);
                    }
                    // The process was killed meanwhile.
                    Err(Errno::NOENT | Errno::INTR) => {}
                    // Without this thread, the calls fail.
                    Err(error) => {
                        tracing::warn!(%error, "a command cannot change file modes any more");
                        return;
                    }
                }
            } else if !polled.revents().is_empty() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("mimir-chmod".to_owned());
    thread.spawn(serve).map(drop)
}

/// The file of a call, as its arguments describe it.
#[derive(Debug, PartialEq, Eq)]
enum ModeTarget {
    /// An open file of the thread.
    Descriptor(i32),
    /// A path, relative to an open folder of the thread.
    Path { folder: i32, path: PathBuf },
}

fn change_mode(
    listener: &OwnedFd,
    call: &PendingSyscall,
    writable: &WritablePaths,
) -> Result<(), Errno> {
    let thread = PathBuf::from(format!("/proc/{}", call.thread));
    let (target, mode, follow) = arguments(call, &thread)?;
    let file = File::from(open_target(&thread, &target, follow)?);
    // The path and the descriptors are those of the thread only if its number has not been reused.
    if !sys::is_pending(listener.as_fd(), call) {
        return Err(Errno::SRCH);
    }
    let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let failed = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::PERM);
    let location = opened.read_link().map_err(failed)?;
    // Without capabilities, as in a command, only the owner may do this.
    let is_owner = file.metadata().map_err(failed)?.uid() == rustix::process::geteuid().as_raw();
    if !is_owner || !writable.contains(&location) {
        return Err(Errno::PERM);
    }
    std::fs::set_permissions(&opened, Permissions::from_mode(mode)).map_err(failed)
}

/// Reads the arguments of a call: the file, its new mode, and whether a link is followed. `thread` is the folder of the
/// thread in `/proc`.
fn arguments(call: &PendingSyscall, thread: &Path) -> Result<(ModeTarget, u32, bool), Errno> {
    let [first, second, third, fourth, ..] = call.arguments;
    // The kernel uses the lower 32 bits of these arguments.
    let descriptor = |argument: u64| argument as u32 as i32;
    let mode = |argument: u64| argument as u32 & MODE_BITS;
    let in_folder = |folder: i32, pointer: u64| -> Result<ModeTarget, Errno> {
        let memory = File::open(thread.join("mem")).map_err(|_| Errno::PERM)?;
        let path = read_path(&memory, pointer)?;
        Ok(ModeTarget::Path { folder, path })
    };
    match call.call {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => Ok((in_folder(libc::AT_FDCWD, first)?, mode(second), true)),
        libc::SYS_fchmod => Ok((
            ModeTarget::Descriptor(descriptor(first)),
            mode(second),
            true,
        )),
        libc::SYS_fchmodat => Ok((in_folder(descriptor(first), second)?, mode(third), true)),
        SYS_FCHMODAT2 => {
            let flags = descriptor(fourth);
            if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
                return Err(Errno::INVAL);
            }
            let mut target = in_folder(descriptor(first), second)?;
            let is_empty =
                matches!(&target, ModeTarget::Path { path, .. } if path.as_os_str().is_empty());
            if is_empty && flags & libc::AT_EMPTY_PATH != 0 {
                target = ModeTarget::Descriptor(descriptor(first));
            }
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            Ok((target, mode(third), follow))
        }
        _ => Err(Errno::NOSYS),
    }
}

/// Reads a path from the memory of a thread.
fn read_path(memory: &File, pointer: u64) -> Result<PathBuf, Errno> {
    let mut path = Vec::new();
    while path.len() < MAX_PATH {
        let at = pointer.checked_add(path.len() as u64).ok_or(Errno::FAULT)?;
        // Memory is read to the end of a block only: the next one may not exist.
        let length = MEMORY_BLOCK - at % MEMORY_BLOCK;
        let mut block = vec![0; usize::try_from(length).map_err(|_| Errno::FAULT)?];
        let read = memory.read_at(&mut block, at).map_err(|_| Errno::FAULT)?;
        let block = block.get(..read).filter(|block| !block.is_empty());
        let block = block.ok_or(Errno::FAULT)?;
        if let Some(end) = block.iter().position(|byte| *byte == 0) {
            path.extend(block.iter().take(end));
            return Ok(OsString::from_vec(path).into());
        }
        path.extend(block);
    }
    Err(Errno::NAMETOOLONG)
}

/// Opens the file without any access to its content, so that a pipe does not block.
fn open_target(thread: &Path, target: &ModeTarget, follow: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let descriptor = |descriptor: i32| match descriptor {
        libc::AT_FDCWD => Ok(thread.join("cwd")),
        0.. => Ok(thread.join(format!("fd/{descriptor}"))),
        _ => Err(Errno::BADF),
    };
    let open_descriptor =
        |number: i32, flags: OFlags| match open(&descriptor(number)?, flags, Mode::empty()) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            opened => opened,
        };
    match target {
        ModeTarget::Descriptor(number) => open_descriptor(*number, flags),
        ModeTarget::Path { folder, path } => {
            let flags_of_file = if follow {
                flags
            } else {
                flags | OFlags::NOFOLLOW
            };
            // A link such as `/proc/self/cwd` would lead to files of this process.
            let resolve = ResolveFlags::NO_MAGICLINKS;
            if path.is_absolute() {
                return openat2(CWD, path, flags_of_file, Mode::empty(), resolve);
            }
            let folder = open_descriptor(*folder, flags | OFlags::DIRECTORY)?;
            openat2(folder, path, flags_of_file, Mode::empty(), resolve)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_read_from_memory_up_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory");
        let mut memory = vec![b'a'; 3 * 4096];
        memory[4090..4100].copy_from_slice(b"/a/bc/de\0x");
        memory[8190..].fill(b'b');
        std::fs::write(&file, &memory).unwrap();
        let memory = File::open(&file).unwrap();
        assert_eq!(read_path(&memory, 4090).unwrap(), Path::new("/a/bc/de"));
        assert_eq!(read_path(&memory, 4098).unwrap(), Path::new(""));
        assert_eq!(read_path(&memory, 4099), Err(Errno::NAMETOOLONG));
        assert_eq!(read_path(&memory, 8300), Err(Errno::FAULT));
        for outside in [1 << 40, u64::MAX] {
            assert_eq!(read_path(&memory, outside), Err(Errno::FAULT));
        }
    }
}
