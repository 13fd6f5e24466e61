//! System calls without a safe wrapper. All unsafe code of the crate is here, except for one line on macOS.

#![expect(
    unsafe_code,
    reason = "these system calls have no safe wrapper in rustix or libc"
)]

mod fork;
mod syscall_listener;

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;
use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use seccompiler::BpfProgram;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(super) use fork::{NAMESPACES, SHARED, fork, fork_sibling, fork_to_exec};
pub(super) use syscall_listener::{
    PendingSyscall, answer_syscall, install_listener, is_pending, receive_syscall,
};

fn check(result: c_long) -> io::Result<c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Converts a result to the error number only, without allocating.
fn number(result: c_long) -> Result<c_long, Errno> {
    match result {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        result => Ok(result),
    }
}

/// Returns the user namespace that owns a namespace.
pub(super) fn user_namespace_of(namespace: &OwnedFd) -> Result<OwnedFd, Errno> {
    /// Defined in `linux/nsfs.h`.
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the arguments are numbers; the kernel returns a new descriptor without another owner.
    unsafe {
        let owner = number(libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS).into())?;
        Ok(OwnedFd::from_raw_fd(owner as RawFd))
    }
}

/// Passes these descriptors to the program that `command` starts, and closes all others in it. The descriptors must
/// stay open in this process until the program has started.
pub(super) fn inherit_fds(command: &mut std::process::Command, descriptors: Vec<RawFd>) {
    use std::os::unix::process::CommandExt;

    let prepare_fds = move || {
        // Libraries may have opened descriptors without close-on-exec.
        let _ = close_range(3, i32::MAX, true);
        for descriptor in &descriptors {
            // SAFETY: a system call on a number; it changes no memory, whatever the descriptor refers to.
            number(i64::from(unsafe {
                libc::fcntl(*descriptor, libc::F_SETFD, 0)
            }))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes only system calls and reads memory allocated before.
    unsafe { command.pre_exec(prepare_fds) };
}

/// Applies `data` in the process that `command` starts, before it becomes the program. `enter` must only make system
/// calls: the process is a copy of this multi-threaded one.
pub(super) fn before_exec<T: Send + Sync + 'static>(
    command: &mut std::process::Command,
    data: T,
    enter: fn(&T) -> Result<(), Errno>,
) {
    use std::os::unix::process::CommandExt;

    let prepare = move || enter(&data).map_err(io::Error::from);
    // SAFETY: between fork and exec the function makes only system calls and reads memory allocated before, and the
    // conversion of an error number does not allocate.
    unsafe { command.pre_exec(prepare) };
}

/// Returns an asynchronous pidfd that becomes readable when its process has ended.
pub(super) fn exit_watcher(process: &Arc<OwnedFd>) -> io::Result<AsyncFd<SharedFd>> {
    // SAFETY: the registered value shares ownership of the descriptor, which therefore stays open as long as needed.
    Ok(unsafe {
        AsyncFd::register_with_interest(SharedFd(Arc::clone(process)), Interest::READABLE)?
    })
}

/// A shared owner of a descriptor.
pub(super) struct SharedFd(Arc<OwnedFd>);

impl AsRawFd for SharedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Memory range of this process's command-line arguments.
#[derive(Debug, Clone)]
pub(super) struct ArgvMemory(std::ops::Range<usize>);

impl ArgvMemory {
    /// Finds the arguments of this process.
    pub(super) fn of_this_process() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        Self::read(&stat)
    }

    /// Parses `/proc/PID/stat`. The program name, which may contain spaces and brackets, is the second field; fields
    /// 48 and 49 are the start and the end of the arguments.
    fn read(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(48 - 3);
        let (begin, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (begin != 0 && begin < end).then_some(Self(begin..end))
    }

    /// Erases the arguments in a forked copy of this process: `/proc` shows them to every process that can see it.
    pub(super) fn overwrite(&self) {
        // SAFETY: the kernel placed the arguments there at program start, in memory that stays mapped and is writable.
        // The child has its own copy, in which only `process/root_plan.rs` and its siblings run, and that code does not
        // read arguments.
        unsafe { (self.0.start as *mut u8).write_bytes(0, self.0.len()) };
    }
}

/// Ends the process without running any cleanup.
pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Executes another program. Both lists must end with a null pointer.
pub(super) fn exec(program: &CStr, arguments: &CStringArray, environment: &CStringArray) -> Errno {
    // SAFETY: both lists end with a null pointer, and their owners keep the strings alive.
    unsafe {
        libc::execve(
            program.as_ptr(),
            arguments.0.as_ptr(),
            environment.0.as_ptr(),
        )
    };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A null-terminated list of C strings for the kernel.
pub(super) struct CStringArray(
    Vec<*const c_char>,
    #[expect(dead_code, reason = "it keeps what is pointed to")] Vec<std::ffi::CString>,
);

// SAFETY: the pointers refer to heap memory that the value owns, which does not move with it and is never changed.
unsafe impl Send for CStringArray {}

impl CStringArray {
    pub(super) fn new(strings: Vec<std::ffi::CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        Self(pointers.chain([std::ptr::null()]).collect(), strings)
    }
}

/// Sets attributes of a mount.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, recursive: bool, set: u64) -> Result<(), Errno> {
    #[repr(C)]
    struct KernelMountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns: u64,
    }
    let attributes = KernelMountAttr {
        set,
        clear: 0,
        propagation: 0,
        userns: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: an open descriptor, an empty string, and a valid struct mount_attr with its size.
    number(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<KernelMountAttr>(),
        )
    })
    .map(drop)
}

/// Returns the Landlock version of this kernel; zero or negative without Landlock.
pub(super) fn landlock_version() -> c_int {
    const VERSION: c_int = 1;
    // SAFETY: with this flag no attributes are read.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            null_mut::<c_void>(),
            0,
            VERSION,
        )
    };
    c_int::try_from(version).unwrap_or(0)
}

/// Enters a new cgroup namespace, whose root is the current group of this process.
pub(super) fn new_cgroup_namespace() -> Result<(), Errno> {
    // SAFETY: a number; the flag affects neither memory nor descriptors.
    number(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into()).map(drop)
}

/// Creates a Landlock ruleset that handles these kinds of file access.
pub(super) fn landlock_ruleset(files: u64, scoped: u64) -> Result<OwnedFd, Errno> {
    let size = if scoped == 0 {
        size_of::<u64>()
    } else {
        3 * size_of::<u64>()
    };
    let attributes = [files, 0, scoped];
    // SAFETY: a valid struct landlock_ruleset_attr (files, network, scopes). Older kernels accept a shorter one, and
    // the omitted fields are zero then.
    let fd = number(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size,
            0,
        )
    })?;
    // SAFETY: the kernel has just created this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Allows kinds of access below a folder.
pub(super) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    below: BorrowedFd<'_>,
    access: u64,
) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        parent: RawFd,
    }
    let rule = PathBeneath {
        access,
        parent: below.as_raw_fd(),
    };
    // The only rule type for files.
    const PATH_BENEATH: c_int = 1;
    // SAFETY: open descriptors and a valid struct landlock_path_beneath_attr.
    number(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    })
    .map(drop)
}

/// Applies a ruleset to this process and all its descendants.
pub(super) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: an open descriptor and no flags.
    number(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
        .map(drop)
}

/// Installs a system call filter for this process and all its descendants.
pub(super) fn install_filter(program: &BpfProgram) -> Result<(), Errno> {
    with_program(program, |program| {
        // SAFETY: `program` is a valid struct sock_fprog; the kernel copies the instructions.
        number(unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, program)
        })
        .map(drop)
    })
}

/// Passes a filter in the form of the kernel: its length, and a pointer to instructions with the layout of struct
/// sock_filter.
fn with_program<T>(
    program: &BpfProgram,
    install: impl FnOnce(*const libc::sock_fprog) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(Errno::INVAL);
    };
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut().cast(),
    };
    install(&raw const program)
}

/// Returns a descriptor from which these signals can be read while they are blocked.
pub(super) fn signal_fd(signals: &[c_int]) -> Result<OwnedFd, Errno> {
    // SAFETY: the set is a valid local variable; the kernel copies it and returns a new descriptor.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        let fd = number(
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into(),
        )?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Resets all signal handlers and unblocks all signals: ignored and blocked signals would be inherited by the next
/// program.
pub(super) fn reset_signals() {
    // SAFETY: SIG_DFL runs no code of ours; the kernel refuses invalid signal numbers and signals that cannot be
    // changed.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut());
    }
}

/// Resets the handler of SIGCHLD: if it is ignored, ended children leave no status to wait for.
pub(super) fn reset_child_signal() {
    // SAFETY: it restores the default.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Sends a signal to every process of this namespace except the sender.
pub(super) fn signal_all(signal: c_int) {
    // SAFETY: the arguments are numbers.
    unsafe { libc::kill(-1, signal) };
}

/// Makes `from` the standard input, output or error.
pub(super) fn redirect_standard(from: impl AsFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: the arguments are numbers. `to` is 0, 1 or 2, which has no owner here.
    number(unsafe { libc::dup2(from.as_fd().as_raw_fd(), to) }.into()).map(drop)
}

/// Closes the descriptors from `first` to `last`, either immediately or on exec.
pub(super) fn close_range(first: RawFd, last: RawFd, on_exec: bool) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    let flags = if on_exec {
        libc::CLOSE_RANGE_CLOEXEC
    } else {
        0
    };
    // SAFETY: the arguments are numbers. The closed descriptors belong to this process, which no longer uses them.
    number(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Brings up the loopback interface of this network namespace.
pub(super) fn loopback_up() -> Result<(), Errno> {
    // SAFETY: an ifreq is plain data, for which zeros are valid; it outlives the calls. SIOCSIFFLAGS reads the flags
    // member of the union.
    unsafe {
        let socket =
            number(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let socket = OwnedFd::from_raw_fd(socket as RawFd);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l' as c_char;
        request.ifr_name[1] = b'o' as c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        // musl and glibc disagree about the type of a request.
        let bring_up = libc::SIOCSIFFLAGS as libc::Ioctl;
        number(libc::ioctl(socket.as_raw_fd(), bring_up, &raw const request).into()).map(drop)
    }
}

/// Sets the host name inside the sandbox.
pub(super) fn set_host_name(name: &[u8]) -> Result<(), Errno> {
    // SAFETY: a pointer with its length; the kernel copies it.
    number(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Drops all capabilities from the bounding set, so that no program can gain them.
pub(super) fn drop_bounding_set() {
    // No kernel has as many; the kernel refuses the first unknown number.
    for capability in 0..64 {
        // SAFETY: the arguments are numbers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
}
