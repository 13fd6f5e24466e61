//! The code that runs inside the sandbox: the setup between the fork and the program, and then the first process of
//! the namespace.
//!
//! It runs in a forked child of a multi-threaded program. So it makes only system calls: it does not allocate, takes
//! no lock, and cannot panic (see [`crate::sandbox::sys`]). Everything that it needs is in the [`Plan`].

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

use super::plan::{Attributes, Plan, Record, Stage, Step};
use super::{KILLED, SETUP_MOST};
use crate::sandbox::seen::open_by_no_link;
use crate::sandbox::shield::Cover;
use crate::sandbox::{sys, wire};

/// The mount point of the new root until it becomes the root. Every machine has this folder, and no mount source is
/// below it.
const STAGING: &CStr = c"/proc";

type Done<T = ()> = Result<T, (Stage, Errno)>;

trait At<T> {
    fn at(self, stage: Stage) -> Done<T>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: Stage) -> Done<T> {
        self.map_err(|error| (stage, error))
    }
}

/// Runs as the first process of the namespace: builds the sandbox, starts the program, and ends with it.
pub(super) fn first(plan: &mut Plan) -> ! {
    // The parent of mimir may have set SIGCHLD to be ignored; then the end of the program could not be detected.
    sys::hear_of_children();
    if let Some(called) = &plan.called {
        called.forget();
    }
    let started = room(plan)
        .and_then(|()| privileges(plan))
        .and_then(|()| start(plan));
    match started {
        Ok(program) => {
            tell(plan, Record::started());
            let code = watch(plan, program);
            tell(plan, Record::exited(code));
            sys::exit(code)
        }
        Err((stage, error)) => {
            tell(plan, Record::failed(stage, error));
            sys::exit(1)
        }
    }
}

/// Reports a state to the process outside.
fn tell(plan: &Plan, record: Record) {
    // A write error means that the reader has ended, and then this process is killed, too.
    let _ = write(&plan.status, &record.bytes());
}

/// Runs as the intermediate process: enters the network of the session, forks the first process of the namespace
/// there, and sends its pidfd, or the error, to the parent.
pub(super) fn enter(plan: &mut Plan) -> ! {
    let entered = plan.shared.enter_network();
    let forked = entered.and_then(|()| sys::fork_sibling(sys::NAMESPACES, plan, first));
    let handed = forked.and_then(|first| wire::hand_out(&plan.door, &[first.as_fd()]));
    if let Err(error) = handed {
        wire::fail(&plan.door, error);
    }
    sys::exit(0)
}

fn room(plan: &Plan) -> Done {
    // Leaves the process group that receives signals from a terminal. A new session would protect no better against
    // that terminal, which cannot be opened inside anyway, and costs a third of a millisecond.
    setpgid(None, None).at(Stage::Session)?;
    sys::new_cgroup_namespace().at(Stage::Group)?;
    put(c"/proc/self/setgroups", b"deny").at(Stage::Identity)?;
    put(c"/proc/self/uid_map", &plan.uid_map).at(Stage::Identity)?;
    put(c"/proc/self/gid_map", &plan.gid_map).at(Stage::Identity)?;

    mount_change(
        c"/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at(Stage::Root)?;
    mount(
        c"tmpfs",
        STAGING,
        c"tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c"mode=0755,size=1m"),
    )
    .at(Stage::Root)?;
    let root = openat(
        CWD,
        STAGING,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .at(Stage::Root)?;
    for (index, step) in (0..).zip(&plan.steps) {
        take(&root, step).at(Stage::Step(index))?;
    }
    fchdir(&root).at(Stage::Pivot)?;
    pivot_root(c".", c".").at(Stage::Pivot)?;
    unmount(c".", UnmountFlags::DETACH).at(Stage::Pivot)?;
    let root = openat(
        CWD,
        c"/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .at(Stage::Seal)?;
    sys::mount_setattr(root.as_fd(), false, Attributes::READ_ONLY.0).at(Stage::Seal)?;

    sys::host_name(b"mimir").at(Stage::Name)?;
    let directory = openat(
        CWD,
        plan.directory.as_c_str(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    fchdir(directory.at(Stage::Directory)?).at(Stage::Directory)
}

pub(super) fn put(file: &CStr, content: &[u8]) -> Result<(), Errno> {
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

fn take(root: &OwnedFd, step: &Step) -> Result<(), Errno> {
    match step {
        Step::Directory { at, mode } => {
            match mkdirat(root, at.as_c_str(), Mode::from_raw_mode(*mode)) {
                // The folder exists, perhaps on a read-only mount.
                Err(Errno::EXIST | Errno::ROFS) => Ok(()),
                done => done,
            }
        }
        Step::File { at, content, mode } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(root, at.as_c_str(), flags, Mode::from_raw_mode(*mode)) {
                Ok(file) if content.is_empty() => drop(file),
                Ok(file) => drop(write(file, content)?),
                Err(Errno::ROFS | Errno::ACCESS | Errno::TXTBSY) if content.is_empty() => {}
                Err(error) => return Err(error),
            }
            Ok(())
        }
        Step::Link { at, to } => match symlinkat(to.as_c_str(), root, at.as_c_str()) {
            Err(Errno::EXIST) => Ok(()),
            done => done,
        },
        Step::Bind {
            from,
            at,
            attributes,
        } => {
            let from = open_by_no_link(from.as_c_str())?;
            attach(&tree(&from, *attributes)?, &open(root, at)?)
        }
        Step::Fresh {
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
        Step::Attach { mount, at } => attach(mount, &open(root, at)?),
        Step::Cover { at, with, stand_in } => match open(root, at) {
            // It has been removed since the scan.
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
            Ok(place) => cover(root, &place, *with, stand_in.as_deref()),
        },
    }
}

/// Copies the mount at a path, including the mounts below it.
fn tree(place: &OwnedFd, attributes: Attributes) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(place.as_fd(), c"", flags)?;
    sys::mount_setattr(tree.as_fd(), true, attributes.0)?;
    Ok(tree)
}

fn attach(mount: &OwnedFd, at: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount.as_fd(), c"", at.as_fd(), c"", flags)
}

fn cover(
    root: &OwnedFd,
    place: &OwnedFd,
    with: Cover,
    stand_in: Option<&CStr>,
) -> Result<(), Errno> {
    match with {
        Cover::ReadOnly => attach(&tree(place, Attributes::SYSTEM)?, place),
        // A mount point cannot be renamed or removed.
        Cover::Pin => attach(&tree(place, Attributes::PLAIN)?, place),
        Cover::Nothing { folder } => {
            let void = match stand_in {
                Some(path) => open_by_no_link(path)?,
                None if folder => open(root, Plan::VOID_FOLDER)?,
                None => open(root, Plan::VOID_FILE)?,
            };
            attach(&tree(&void, Attributes::NOTHING)?, place)
        }
    }
}

/// Drops the privileges that this process has as owner of its namespaces, for itself and all its descendants.
fn privileges(plan: &Plan) -> Done {
    set_no_new_privs(true).at(Stage::Privileges)?;
    if let Some(landlock) = &plan.landlock {
        let ruleset =
            sys::landlock_ruleset(landlock.handled, landlock.scoped).at(Stage::Landlock)?;
        for (place, access) in &landlock.rules {
            let place = openat(
                CWD,
                place.as_c_str(),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .at(Stage::Landlock)?;
            sys::landlock_allow(ruleset.as_fd(), place.as_fd(), *access).at(Stage::Landlock)?;
        }
        sys::landlock_restrict(ruleset.as_fd()).at(Stage::Landlock)?;
    }
    sys::drop_bounding_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).at(Stage::Privileges)?;
    // This process has a copy of the memory of its parent. No process inside may inspect or trace it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Stage::Privileges)
}

/// Starts the program. On return the program has been executed.
fn start(plan: &mut Plan) -> Done<Pid> {
    // Until the intermediate process is gone, it counts against the process limit of the command. If that takes too
    // long, the fork may fail with an error of its own.
    wire::wait_to_go(&plan.door, SETUP_MOST);
    // The stack is leaked: freeing it would call the allocator.
    let mut stack = ManuallyDrop::new(std::mem::take(&mut plan.stack));
    let program = sys::fork_to_exec(&mut stack, plan, become_program).at(Stage::Fork)?;
    match plan.failed.take() {
        Some(failed) => Err(failed),
        None => Ok(program),
    }
}

fn become_program(plan: &mut Plan) -> ! {
    let (stage, error) = match prepare(plan) {
        Err(failed) => failed,
        Ok(()) => (
            Stage::Execute,
            sys::exec(&plan.program, &plan.arguments, &plan.environment),
        ),
    };
    plan.failed = Some((stage, error));
    sys::exit(127)
}

fn prepare(plan: &Plan) -> Done {
    // A separate process group, for programs that kill their own group.
    setpgid(None, None).at(Stage::Session)?;
    sys::standard(&plan.stdin, 0).at(Stage::Session)?;
    sys::standard(&plan.stdout, 1).at(Stage::Session)?;
    sys::standard(&plan.stderr, 2).at(Stage::Session)?;
    sys::close_range(3, i32::MAX, true);
    for (resource, limit) in &plan.limits {
        setrlimit(*resource, *limit).at(Stage::Limits)?;
    }
    sys::usual_signals();
    sys::filter(&plan.filter).at(Stage::Filter)
}

/// Waits for the program and reaps all other children. When this process ends, the kernel kills the rest of the
/// namespace.
fn watch(plan: &Plan, program: Pid) -> i32 {
    close_all_but([&plan.status, &plan.lifeline]);
    let Ok(signals) = sys::signals(&[libc::SIGCHLD, libc::SIGTERM]) else {
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

/// Closes all descriptors but two; the others belong to the program or are unused.
fn close_all_but(keep: [&OwnedFd; 2]) {
    let [a, b] = keep.map(|fd| fd.as_raw_fd());
    let (low, high) = (a.min(b), a.max(b));
    sys::close_range(0, low - 1, false);
    sys::close_range(low + 1, high - 1, false);
    sys::close_range(high + 1, i32::MAX, false);
}
