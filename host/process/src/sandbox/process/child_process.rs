//! Code that runs inside the sandbox: the setup between the fork and the program, then the first process of the
//! namespace.
//!
//! It runs in a forked child of a multi-threaded program, so it makes only system calls: it does not allocate, takes no
//! lock, and cannot panic (see [`crate::sandbox::sys`]). All its data is in the [`ChildPlan`].

use std::ffi::CStr;
use std::mem::ManuallyDrop;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::{Errno, read, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, fchdir, pivot_root, set_dumpable_behavior, setpgid,
    setrlimit, wait,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use super::child_plan::{ChildPlan, MountAttributes, RootStep, SetupStage, StatusRecord};
use super::{KILLED, SETUP_TIMEOUT};
use crate::sandbox::file_identity::open_by_no_link;
use crate::sandbox::mount_mask::MountMask;
use crate::sandbox::{loopback_proxy, sys};

/// Mount point of the new root until it becomes the root. Every machine has this folder, and no mount source is below
/// it.
const STAGING: &CStr = c"/proc";

type StageResult<T = ()> = Result<T, (SetupStage, Errno)>;

trait AtStage<T> {
    fn at(self, stage: SetupStage) -> StageResult<T>;
}

impl<T> AtStage<T> for Result<T, Errno> {
    fn at(self, stage: SetupStage) -> StageResult<T> {
        self.map_err(|error| (stage, error))
    }
}

/// Runs as the first process of the namespace: builds the sandbox, starts the program, and ends with it.
pub(super) fn run_first_process(plan: &mut ChildPlan) -> ! {
    // If the parent of mimir has set SIGCHLD to be ignored, the end of the program could not be detected.
    sys::reset_child_signal();
    if let Some(argv) = &plan.argv {
        argv.overwrite();
    }
    let started = build_root(plan)
        .and_then(|()| drop_privileges(plan))
        .and_then(|()| start(plan));
    match started {
        Ok(program) => {
            report(plan, StatusRecord::Started);
            let code = wait_for_program(plan, program);
            report(plan, StatusRecord::Exited(code));
            sys::exit(code)
        }
        Err((stage, error)) => {
            report(plan, StatusRecord::Failed(stage, error));
            sys::exit(1)
        }
    }
}

/// Reports a status to the process outside.
fn report(plan: &ChildPlan, record: StatusRecord) {
    // A write error means that the reader has ended; then this process is killed, too.
    let _ = write(&plan.status, &record.bytes());
}

/// Runs as the intermediate process: enters the network of the session, forks the first process of the namespace there,
/// and sends its pidfd or the error to the parent.
pub(super) fn enter(plan: &mut ChildPlan) -> ! {
    let entered = plan.shared.enter_network();
    let forked = entered.and_then(|()| sys::fork_sibling(sys::NAMESPACES, plan, run_first_process));
    let handed =
        forked.and_then(|first| loopback_proxy::send_fds(&plan.handover_socket, &[first.as_fd()]));
    if let Err(error) = handed {
        loopback_proxy::send_error(&plan.handover_socket, error);
    }
    sys::exit(0)
}

fn build_root(plan: &ChildPlan) -> StageResult {
    // Leaves the process group that receives signals from a terminal. A new session would not protect better against
    // that terminal, which cannot be opened inside anyway, and would cost a third of a millisecond.
    setpgid(None, None).at(SetupStage::Session)?;
    sys::new_cgroup_namespace().at(SetupStage::Group)?;
    write_file(c"/proc/self/setgroups", b"deny").at(SetupStage::Identity)?;
    write_file(c"/proc/self/uid_map", &plan.uid_map).at(SetupStage::Identity)?;
    write_file(c"/proc/self/gid_map", &plan.gid_map).at(SetupStage::Identity)?;

    mount_change(
        c"/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at(SetupStage::Root)?;
    mount(
        c"tmpfs",
        STAGING,
        c"tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c"mode=0755,size=1m"),
    )
    .at(SetupStage::Root)?;
    let root = openat(
        CWD,
        STAGING,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .at(SetupStage::Root)?;
    for (index, step) in (0..).zip(&plan.steps) {
        apply_step(&root, step).at(SetupStage::Step(index))?;
    }
    fchdir(&root).at(SetupStage::Pivot)?;
    pivot_root(c".", c".").at(SetupStage::Pivot)?;
    unmount(c".", UnmountFlags::DETACH).at(SetupStage::Pivot)?;
    let root = openat(
        CWD,
        c"/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .at(SetupStage::Seal)?;
    sys::mount_setattr(root.as_fd(), false, MountAttributes::READ_ONLY.0).at(SetupStage::Seal)?;

    sys::set_host_name(b"mimir").at(SetupStage::Name)?;
    let directory = openat(
        CWD,
        plan.directory.as_c_str(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    fchdir(directory.at(SetupStage::Directory)?).at(SetupStage::Directory)
}

pub(super) fn write_file(file: &CStr, content: &[u8]) -> Result<(), Errno> {
    let file = openat(CWD, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    write(file, content).map(drop)
}

/// Opens a path below the new root, without following symbolic links.
fn open(root: &OwnedFd, at: &CStr) -> Result<OwnedFd, Errno> {
    openat2(
        root,
        at,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )
}

fn apply_step(root: &OwnedFd, step: &RootStep) -> Result<(), Errno> {
    match step {
        RootStep::Directory { at, mode } => {
            match mkdirat(root, at.as_c_str(), Mode::from_raw_mode(*mode)) {
                // The folder exists, perhaps on a read-only mount.
                Err(Errno::EXIST | Errno::ROFS) => Ok(()),
                done => done,
            }
        }
        RootStep::File { at, content, mode } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(root, at.as_c_str(), flags, Mode::from_raw_mode(*mode)) {
                Ok(file) if content.is_empty() => drop(file),
                Ok(file) => drop(write(file, content)?),
                Err(Errno::ROFS | Errno::ACCESS | Errno::TXTBSY) if content.is_empty() => {}
                Err(error) => return Err(error),
            }
            Ok(())
        }
        RootStep::Link { at, to } => match symlinkat(to.as_c_str(), root, at.as_c_str()) {
            Err(Errno::EXIST) => Ok(()),
            done => done,
        },
        RootStep::Bind {
            from,
            at,
            attributes,
        } => {
            let from = open_by_no_link(from.as_c_str())?;
            attach(&clone_mount(&from, *attributes)?, &open(root, at)?)
        }
        RootStep::Fresh {
            kind,
            at,
            options,
            attributes,
        } => {
            let context = fsopen(kind.as_c_str(), FsOpenFlags::FSOPEN_CLOEXEC)?;
            for (name, value) in options {
                fsconfig_set_string(context.as_fd(), name.as_c_str(), value.as_c_str())?;
            }
            fsconfig_create(context.as_fd())?;
            let flags =
                MountAttrFlags::from_bits_retain(u32::try_from(attributes.0).unwrap_or(u32::MAX));
            let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
            attach(&mount, &open(root, at)?)
        }
        RootStep::Attach { mount, at } => attach(mount, &open(root, at)?),
        RootStep::Cover { at, with, stand_in } => match open(root, at) {
            // The path has been removed since the scan.
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
            Ok(path) => cover(root, &path, *with, stand_in.as_deref()),
        },
    }
}

/// Copies the mount at a path, including the mounts below it.
fn clone_mount(path: &OwnedFd, attributes: MountAttributes) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(path.as_fd(), c"", flags)?;
    sys::mount_setattr(tree.as_fd(), true, attributes.0)?;
    Ok(tree)
}

fn attach(mount: &OwnedFd, at: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount.as_fd(), c"", at.as_fd(), c"", flags)
}

fn cover(
    root: &OwnedFd,
    path: &OwnedFd,
    with: MountMask,
    stand_in: Option<&CStr>,
) -> Result<(), Errno> {
    match with {
        MountMask::ReadOnly => attach(&clone_mount(path, MountAttributes::SYSTEM)?, path),
        // A mount point cannot be renamed or removed.
        MountMask::Pin => attach(&clone_mount(path, MountAttributes::PLAIN)?, path),
        MountMask::Nothing { folder } => {
            let void = match stand_in {
                Some(path) => open_by_no_link(path)?,
                None if folder => open(root, ChildPlan::VOID_FOLDER)?,
                None => open(root, ChildPlan::VOID_FILE)?,
            };
            attach(&clone_mount(&void, MountAttributes::NOTHING)?, path)
        }
    }
}

/// Drops the privileges of the namespaces' owner, for this process and all its descendants.
fn drop_privileges(plan: &ChildPlan) -> StageResult {
    set_no_new_privs(true).at(SetupStage::Privileges)?;
    if let Some(landlock) = &plan.landlock {
        let ruleset =
            sys::landlock_ruleset(landlock.handled, landlock.scoped).at(SetupStage::Landlock)?;
        for (path, access) in &landlock.rules {
            let path = openat(
                CWD,
                path.as_c_str(),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .at(SetupStage::Landlock)?;
            sys::landlock_allow(ruleset.as_fd(), path.as_fd(), *access).at(SetupStage::Landlock)?;
        }
        sys::landlock_restrict(ruleset.as_fd()).at(SetupStage::Landlock)?;
    }
    sys::drop_bounding_set();
    let no_capabilities = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, no_capabilities).at(SetupStage::Privileges)?;
    // This process has a copy of its parent's memory. No process inside may inspect or trace it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at(SetupStage::Privileges)
}

/// Starts the program. Returns once the program is executing.
fn start(plan: &mut ChildPlan) -> StageResult<Pid> {
    // Until the intermediate process has ended, it counts against the process limit of the command. If that takes too
    // long, the fork may fail with its own error.
    loopback_proxy::wait_for_release(&plan.handover_socket, SETUP_TIMEOUT);
    // The stack is leaked: freeing it would call the allocator.
    let mut stack = ManuallyDrop::new(std::mem::take(&mut plan.stack));
    let program = sys::fork_to_exec(&mut stack, plan, become_program).at(SetupStage::Fork)?;
    match plan.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(program),
    }
}

fn become_program(plan: &mut ChildPlan) -> ! {
    let (stage, error) = match prepare(plan) {
        Err(failure) => failure,
        Ok(()) => (
            SetupStage::Execute,
            sys::exec(&plan.program, &plan.arguments, &plan.environment),
        ),
    };
    plan.failure = Some((stage, error));
    sys::exit(127)
}

fn prepare(plan: &ChildPlan) -> StageResult {
    // A separate process group, for programs that kill their own group.
    setpgid(None, None).at(SetupStage::Session)?;
    sys::redirect_standard(&plan.stdin, 0).at(SetupStage::Session)?;
    sys::redirect_standard(&plan.stdout, 1).at(SetupStage::Session)?;
    sys::redirect_standard(&plan.stderr, 2).at(SetupStage::Session)?;
    let _ = sys::close_range(3, i32::MAX, true);
    for (resource, limit) in &plan.limits {
        setrlimit(*resource, *limit).at(SetupStage::Limits)?;
    }
    sys::reset_signals();
    sys::install_filter(&plan.filter).at(SetupStage::Filter)
}

/// Waits for the program and reaps all other children. When this process ends, the kernel kills the rest of the
/// namespace.
fn wait_for_program(plan: &ChildPlan, program: Pid) -> i32 {
    close_all_but([&plan.status, &plan.lifeline]);
    let Ok(signals) = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM]) else {
        return KILLED;
    };
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == program {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or(signal).unwrap_or(KILLED);
            }
        }
        let mut polled = [
            PollFd::new(&signals, PollFlags::IN),
            PollFd::new(&plan.lifeline, PollFlags::IN),
        ];
        let _ = poll(&mut polled, None);
        let [_, lifeline] = &polled;
        if !lifeline.revents().is_empty() {
            // The parent is gone.
            return KILLED;
        }
        let mut information = [0u8; size_of::<libc::signalfd_siginfo>()];
        while read(&signals, &mut information).is_ok() {
            let [a, b, c, d, ..] = information;
            if i32::from_ne_bytes([a, b, c, d]) == libc::SIGTERM {
                sys::signal_all(libc::SIGTERM);
            }
        }
    }
}

/// Closes all descriptors except two. The others belong to the program or are unused.
fn close_all_but(keep: [&OwnedFd; 2]) {
    let [a, b] = keep.map(|fd| fd.as_raw_fd());
    let (low, high) = (a.min(b), a.max(b));
    let _ = sys::close_range(0, low - 1, false);
    let _ = sys::close_range(low + 1, high - 1, false);
    let _ = sys::close_range(high + 1, i32::MAX, false);
}
