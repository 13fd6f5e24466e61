//! Forks into new namespaces, and forks to execute a program.
//!
//! At the time of a fork, another thread may hold the lock of the allocator or any other lock, and will never release
//! it in the child. So two rules make [`fork`] sound in a multi-threaded program: the code in the child neither
//! allocates nor takes a lock, and it never returns. All its data is prepared before; it makes only system calls.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::Pid;

use super::{check, exit, number};

/// Namespaces of a command. It uses the network of its session.
pub(in crate::sandbox) const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// Namespaces of a session.
pub(in crate::sandbox) const SHARED: u64 =
    (libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET) as u64;

/// The kernel's `struct clone_args`, as of Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}
/// Aborts the process if a panic unwinds through it: the outer frames belong to the parent and must not run in the
/// child.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        exit(70);
    }
}

/// Forks into new namespaces and, if given, into a cgroup v2 group; runs `child` there with all signals blocked.
/// Returns the pidfd of the child.
pub(in crate::sandbox) fn fork<T>(
    namespaces: u64,
    group: Option<BorrowedFd<'_>>,
    state: &mut T,
    child: fn(&mut T) -> !,
) -> io::Result<OwnedFd> {
    let mut pidfd: RawFd = -1;
    // Starting in a group is cheap; moving a process into one waits for all processors to notice.
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let into = if group.is_some() { INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: namespaces | libc::CLONE_PIDFD as u64 | into,
        cgroup: group.map_or(0, |group| u64::from(group.as_raw_fd().cast_unsigned())),
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    let blocked = BlockedSignals::all();
    // SAFETY: without CLONE_VM the child has a copy of the memory and of this stack, so this is a fork. `args` is a
    // valid clone_args of the given size, and `pidfd` outlives the call. The child runs only `child`, which does not
    // allocate, takes no lock (see the module documentation) and does not return.
    let mut pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    let missing = || io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if pid == -1 && group.is_none() && missing() {
        let flags = namespaces | (libc::CLONE_PIDFD | libc::SIGCHLD) as u64;
        // SAFETY: as above, through the older call, which container filters allow where they block `clone3`. Without a
        // stack the child continues on its copy of this one; the pidfd is written to `pidfd`.
        pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    }
    if pid == 0 {
        let _no_way_back = AbortOnUnwind;
        child(state)
    }
    let result = check(pid);
    drop(blocked);
    result?;
    // SAFETY: the kernel has just stored a new descriptor there that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// Blocks all signals of this thread until dropped: handlers of the parent must not run in the child.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        // SAFETY: a sigset_t is plain data, for which zeros are valid, and both calls write to local variables.
        unsafe {
            let mut all: libc::sigset_t = zeroed();
            let mut before: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked the signals.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

/// Argument of the child of [`fork_to_exec`].
struct ForkedChild<'a, T> {
    state: &'a mut T,
    child: fn(&mut T) -> !,
}

/// Forks without copying memory: this process is suspended until the child has executed another program or has ended.
/// Writes of the child to `state` are visible afterwards.
pub(in crate::sandbox) fn fork_to_exec<T>(
    stack: &mut [u8],
    state: &mut T,
    child: fn(&mut T) -> !,
) -> Result<Pid, Errno> {
    extern "C" fn run<T>(shared: *mut c_void) -> c_int {
        let _no_way_back = AbortOnUnwind;
        // SAFETY: it points to the `ForkedChild` below, whose owner is suspended as long as this runs.
        let shared = unsafe { &mut *shared.cast::<ForkedChild<'_, T>>() };
        (shared.child)(shared.state)
    }
    let mut shared = ForkedChild { state, child };
    let top = stack.as_mut_ptr_range().end;
    let aligned = top.wrapping_sub(top as usize % 16);
    // SAFETY: this process has a single thread: it was forked and has started no other. CLONE_VFORK suspends it until
    // the child has left this memory, so the child has exclusive use of the stack, of which `aligned` is the end, and
    // of the borrows in `shared` for that time.
    let pid = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(run::<T>, aligned.cast(), flags, (&raw mut shared).cast())
    };
    number(pid.into())?;
    Pid::from_raw(pid).ok_or(Errno::CHILD)
}

/// Forks a sibling of this process into new namespaces; the parent of this process must wait for it. Only for a
/// process that [`fork`] has created: it has one thread, and all signals are blocked. Returns the pidfd.
pub(in crate::sandbox) fn fork_sibling<T>(
    namespaces: u64,
    state: &mut T,
    child: fn(&mut T) -> !,
) -> Result<OwnedFd, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = namespaces | (libc::CLONE_PARENT | libc::CLONE_PIDFD) as u64;
    // With CLONE_PARENT the sibling has the same exit signal as this process.
    let args = CloneArgs {
        flags,
        pidfd: &raw mut pidfd as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as in `fork`, a copy of memory and stack is a fork, and the child runs only `child`.
    let mut pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        // SAFETY: as above, through the older call.
        pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    }
    if pid == 0 {
        let _no_way_back = AbortOnUnwind;
        child(state)
    }
    number(pid)?;
    // SAFETY: the kernel has just stored a new descriptor there that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}
