//! System calls that no safe wrapper has. The only unsafe code of this crate, but for a line on macOS.

mod fork;

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

fn check(result: c_long) -> io::Result<c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// The same where only the number matters, and nothing may be allocated.
fn number(result: c_long) -> Result<c_long, Errno> {
    match result {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        result => Ok(result),
    }
}

/// Whose a namespace is: the namespace of users that it was made in.
pub(super) fn owner_of(namespace: &OwnedFd) -> Result<OwnedFd, Errno> {
    /// Of `linux/nsfs.h`.
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: numbers only; the descriptor that the kernel hands out is nobody else's.
    unsafe {
        let owner = number(libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS).into())?;
        Ok(OwnedFd::from_raw_fd(owner as RawFd))
    }
}

/// Leaves these descriptors open for the program that `command` starts, and for no other: they are open in this process
/// until it has started.
pub(super) fn inherit(command: &mut std::process::Command, descriptors: Vec<RawFd>) {
    use std::os::unix::process::CommandExt;

    let leave = move || {
        // What a careless library has left open is for nobody.
        close_range(3, i32::MAX, true);
        for descriptor in &descriptors {
            // SAFETY: a system call on a number. What else it could be open for is nothing that memory depends on.
            number(i64::from(unsafe {
                libc::fcntl(*descriptor, libc::F_SETFD, 0)
            }))?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls, and reads memory that was allocated before.
    unsafe { command.pre_exec(leave) };
}

/// A descriptor that tells when the process that it is about has ended.
pub(super) fn when_ended(process: &Arc<OwnedFd>) -> io::Result<AsyncFd<Shares>> {
    // SAFETY: what is registered owns a share of the descriptor, which therefore stays open for as long.
    Ok(
        unsafe {
            AsyncFd::register_with_interest(Shares(Arc::clone(process)), Interest::READABLE)?
        },
    )
}

/// A share of a descriptor.
pub(super) struct Shares(Arc<OwnedFd>);

impl AsRawFd for Shares {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Where the words that a process was started with are in its memory.
#[derive(Debug, Clone)]
pub(super) struct Called(std::ops::Range<usize>);

impl Called {
    /// Of this process.
    pub(super) fn here() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        Self::read(&stat)
    }

    /// The name of a program, which may have spaces and brackets, is the second of these fields; the words are from
    /// field 48 to field 49.
    fn read(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(48 - 3);
        let (begin, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (begin != 0 && begin < end).then_some(Self(begin..end))
    }

    /// Overwrites them, where this process is a forked copy: the system shows them to everybody who sees it.
    pub(super) fn forget(&self) {
        // SAFETY: the kernel put the words there when this program began, in memory that is never unmapped and can be
        // written to. The child has a copy of it, in which nothing but `inside.rs` runs, and that reads no words.
        unsafe { (self.0.start as *mut u8).write_bytes(0, self.0.len()) };
    }
}

/// Ends the process without running anything.
pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Becomes another program. The lists end with a null.
pub(super) fn exec(program: &CStr, arguments: &Pointers, environment: &Pointers) -> Errno {
    // SAFETY: both lists end with a null, and what they point to is kept by their owners.
    unsafe {
        libc::execve(
            program.as_ptr(),
            arguments.0.as_ptr(),
            environment.0.as_ptr(),
        )
    };
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A list of C strings as the kernel wants it.
pub(super) struct Pointers(
    Vec<*const c_char>,
    #[expect(dead_code, reason = "it keeps what is pointed to")] Vec<std::ffi::CString>,
);

// SAFETY: it points to what it owns, which does not move when it does and is changed by nobody.
unsafe impl Send for Pointers {}

impl Pointers {
    pub(super) fn new(strings: Vec<std::ffi::CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        Self(pointers.chain([std::ptr::null()]).collect(), strings)
    }
}

/// Changes what may be done by way of a mount.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, recursive: bool, set: u64) -> Result<(), Errno> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        userns: u64,
    }
    let attributes = Attributes {
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
            size_of::<Attributes>(),
        )
    })
    .map(drop)
}

/// The version of Landlock that this kernel has; not positive if it has none.
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

/// Takes the group that this process is in for the root of all groups.
pub(super) fn new_cgroup_namespace() -> Result<(), Errno> {
    // SAFETY: this process shares nothing with others that the flag is about.
    number(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into()).map(drop)
}

/// Makes a Landlock ruleset that handles these kinds of access to files.
pub(super) fn landlock_ruleset(files: u64, scoped: u64) -> Result<OwnedFd, Errno> {
    let size = if scoped == 0 {
        size_of::<u64>()
    } else {
        3 * size_of::<u64>()
    };
    let attributes = [files, 0, scoped];
    // SAFETY: a valid struct landlock_ruleset_attr (files, network, scopes). Kernels that know less of it take it
    // shorter, and what is cut off is zero then.
    let fd = number(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            size,
            0,
        )
    })?;
    // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
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
    // The only kind of rule that is about files.
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

/// Holds this process, and what it starts, to a ruleset.
pub(super) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: an open descriptor and no flags.
    number(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
        .map(drop)
}

/// Puts a filter before every system call of this process and of what it starts.
pub(super) fn filter(program: &BpfProgram) -> Result<(), Errno> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(Errno::INVAL);
    };
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` points to `len` instructions of the layout of struct sock_filter; the kernel copies them.
    number(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    })
    .map(drop)
}

/// A descriptor from which those of these signals can be read that are blocked.
pub(super) fn signals(of: &[c_int]) -> Result<OwnedFd, Errno> {
    // SAFETY: the set lives here and is valid; the kernel copies it, and gives a new descriptor.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in of {
            libc::sigaddset(&raw mut set, *signal);
        }
        let fd = number(
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into(),
        )?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Gives every signal its usual meaning, and blocks none: what was ignored would be ignored by the next program too.
pub(super) fn usual_signals() {
    // SAFETY: SIG_DFL is no code of ours; numbers that are no signals, or cannot be changed, are refused by the kernel.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, null_mut());
    }
}

/// Gives the end of a child its usual meaning: where it is ignored, nothing is left to wait for.
pub(super) fn hear_of_children() {
    // SAFETY: it sets what is the default.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Sends a signal to every process of this namespace except the sender.
pub(super) fn signal_all(signal: c_int) {
    // SAFETY: numbers only.
    unsafe { libc::kill(-1, signal) };
}

/// Puts `from` where a program looks for its standard input or output.
pub(super) fn standard(from: impl AsFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only. `to` is 0, 1 or 2, which nothing here owns.
    number(unsafe { libc::dup2(from.as_fd().as_raw_fd(), to) }.into()).map(drop)
}

/// Closes the descriptors from `first` to `last`: at once, or when another program begins.
pub(super) fn close_range(first: RawFd, last: RawFd, on_exec: bool) {
    if first > last {
        return;
    }
    let flags = if on_exec {
        libc::CLOSE_RANGE_CLOEXEC
    } else {
        0
    };
    // SAFETY: numbers only. Whatever is closed belongs to this process, which uses none of it any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

/// Switches the loopback interface of this network namespace on.
pub(super) fn loopback_up() -> Result<(), Errno> {
    // SAFETY: an ifreq is plain data, for which zeros are valid; it lives as long as the calls do. The flags are the
    // member of the union that SIOCSIFFLAGS reads.
    unsafe {
        let socket =
            number(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let socket = OwnedFd::from_raw_fd(socket as RawFd);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l' as c_char;
        request.ifr_name[1] = b'o' as c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        number(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request).into())
            .map(drop)
    }
}

/// The name that this machine has for what is in here.
pub(super) fn host_name(name: &[u8]) -> Result<(), Errno> {
    // SAFETY: a pointer with its length; the kernel copies it.
    number(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into()).map(drop)
}

/// Takes every capability out of what a program could ever gain.
pub(super) fn drop_bounding_set() {
    // More than any kernel has; it refuses the first number that it does not know.
    for capability in 0..64 {
        // SAFETY: numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            break;
        }
    }
}
