//! Forks: into new namespaces, or to become a program.
//!
//! Two rules make [`fork`] sound in a program of many threads, where another thread may hold the lock of the allocator
//! or of anything else at the moment of the fork, and will never release it in the child:
//! what runs in the child neither allocates nor takes a lock, and it never returns. All that it needs is prepared before.
//! It is made of system calls alone.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::process::Pid;

use super::{check, exit, number};

/// Namespaces of a command. Its network is that of its session.
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
/// Ends the process if a panic unwinds through it: above it are the frames of the parent, which are not the child's
/// to run.
struct NoWayBack;

impl Drop for NoWayBack {
    fn drop(&mut self) {
        exit(70);
    }
}

/// Forks into new namespaces and, if there is one, into a control group of the second version; runs `child` there with
/// all signals blocked. Gives the child's descriptor.
pub(in crate::sandbox) fn fork<T>(
    namespaces: u64,
    group: Option<BorrowedFd<'_>>,
    state: &mut T,
    child: fn(&mut T) -> !,
) -> io::Result<OwnedFd> {
    let mut pidfd: RawFd = -1;
    // To begin in a group is cheap; to be moved into one, a process waits for all others to notice.
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let into = if group.is_some() { INTO_CGROUP } else { 0 };
    let args = CloneArgs {
        flags: namespaces | libc::CLONE_PIDFD as u64 | into,
        cgroup: group.map_or(0, |group| u64::from(group.as_raw_fd().cast_unsigned())),
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    let blocked = Blocked::all();
    // SAFETY: without CLONE_VM the child has a copy of the memory and of this stack, so this is a fork. `args` is a
    // valid clone_args of the size that is named, and `pidfd` outlives the call. In the child nothing but `child`
    // runs, which allocates nothing and takes no lock (see the head of this file) and does not come back.
    let mut pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    let missing = || io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS);
    if pid == -1 && group.is_none() && missing() {
        let flags = namespaces | (libc::CLONE_PIDFD | libc::SIGCHLD) as u64;
        // SAFETY: the same by the older call, which filters of containers let through where they hide the other. Without
        // a stack, the child goes on with its copy of this one; the descriptor goes to `pidfd`.
        pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    }
    if pid == 0 {
        let _no_way_back = NoWayBack;
        child(state)
    }
    let result = check(pid);
    drop(blocked);
    result?;
    // SAFETY: the kernel has just put a descriptor there that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// All signals of this thread are blocked while it lives: a handler of the parent must not run in the child.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        // SAFETY: a sigset_t is plain data, for which zeros are valid, and both calls write to sets that live here.
        unsafe {
            let mut all: libc::sigset_t = zeroed();
            let mut before: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by the call that blocked them.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

/// What the child of [`fork_to_exec`] is given.
struct Child<'a, T> {
    state: &'a mut T,
    child: fn(&mut T) -> !,
}

/// Forks without copying any memory: this process stands still until the child has become another program or has
/// ended. What the child writes to `state` is seen here afterwards.
pub(in crate::sandbox) fn fork_to_exec<T>(
    stack: &mut [u8],
    state: &mut T,
    child: fn(&mut T) -> !,
) -> Result<Pid, Errno> {
    extern "C" fn run<T>(shared: *mut c_void) -> c_int {
        let _no_way_back = NoWayBack;
        // SAFETY: it points to the `Child` below, whose owner stands still as long as this runs.
        let shared = unsafe { &mut *shared.cast::<Child<'_, T>>() };
        (shared.child)(shared.state)
    }
    let mut shared = Child { state, child };
    let top = stack.as_mut_ptr_range().end;
    let aligned = top.wrapping_sub(top as usize % 16);
    // SAFETY: this is a single thread: the process was forked and has started no other. With CLONE_VFORK it does not go on
    // before the child has left this memory, so the stack, of which `aligned` is the end, and the borrows in `shared` are
    // the child's alone for that time.
    let pid = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(run::<T>, aligned.cast(), flags, (&raw mut shared).cast())
    };
    number(pid.into())?;
    Pid::from_raw(pid).ok_or(Errno::CHILD)
}

/// Forks into new namespaces a child of the process that has forked this one, which is to wait for it. For a process
/// that [`fork`] has made: it has one thread, and all signals are blocked. Gives the child's descriptor.
pub(in crate::sandbox) fn fork_sibling<T>(
    namespaces: u64,
    state: &mut T,
    child: fn(&mut T) -> !,
) -> Result<OwnedFd, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = namespaces | (libc::CLONE_PARENT | libc::CLONE_PIDFD) as u64;
    // What the parent hears when it ends is what it hears of this one.
    let args = CloneArgs {
        flags,
        pidfd: &raw mut pidfd as u64,
        ..CloneArgs::default()
    };
    // SAFETY: as in `fork`, a copy of memory and stack is a fork, and in the child nothing but `child` runs.
    let mut pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        // SAFETY: the same by the older call.
        pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    }
    if pid == 0 {
        let _no_way_back = NoWayBack;
        child(state)
    }
    number(pid)?;
    // SAFETY: the kernel has just put a descriptor there that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}
