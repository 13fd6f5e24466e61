//! System call filters of commands without namespaces, in addition to the [filter](super::super::syscall_filter) of all
//! commands.
//!
//! They take the place of the namespaces: no sockets but connected pairs, no objects shared between processes of the
//! machine, no calls that act on other processes, and no way out of the session. They also refuse the calls that change
//! or describe a file by its path or descriptor and that Landlock does not check, except for changes of its mode, which
//! [another process](super::mode_changes) makes.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::super::syscall_filter::{FromFlag as _, SYS_FCHMODAT2, argument_condition};

/// Calls that are always refused with EPERM.
const REFUSED: &[i64] = &[
    // Leave the session, by which a command is killed.
    libc::SYS_setsid,
    // Reach other programs. A connected pair of sockets is the only one left.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Observe the names of files and the mounts of the machine.
    libc::SYS_inotify_add_watch,
    SYS_STATMOUNT,
    SYS_LISTMOUNT,
    // Change files in ways that Landlock does not check.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // It has the same number on all architectures, and no name in `libc` yet.
    SYS_FILE_SETATTR,
];

/// Calls that fail with ENOTSUP, as on a file system without extended attributes: programs that copy or list files
/// accept that. The attributes of files outside may contain anything.
const UNSUPPORTED: &[i64] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_GETXATTRAT,
    SYS_LISTXATTRAT,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
];

const SYS_STATMOUNT: i64 = 457;
const SYS_LISTMOUNT: i64 = 458;
const SYS_SETXATTRAT: i64 = 463;
const SYS_GETXATTRAT: i64 = 464;
const SYS_LISTXATTRAT: i64 = 465;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_FILE_SETATTR: i64 = 469;

/// Calls that may act on the caller only, with the index of the argument that names the process.
const ON_SELF: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_ioprio_set, 1),
];

/// `ioctl` requests that change attributes of a file or folder, even of one that is open for reading: `FS_IOC_SETFLAGS`
/// for 64 and 32 bits, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION`, `FS_IOC_ENABLE_VERITY`. On btrfs, a user can also
/// create and remove subvolumes and snapshots by such a request: `BTRFS_IOC_SUBVOL_CREATE`, `BTRFS_IOC_SNAP_DESTROY`,
/// `BTRFS_IOC_SUBVOL_CREATE_V2`, `BTRFS_IOC_SNAP_CREATE_V2`, `BTRFS_IOC_SUBVOL_SETFLAGS`, `BTRFS_IOC_SNAP_CREATE`,
/// `BTRFS_IOC_SNAP_DESTROY_V2`.
const FILE_REQUESTS: [u64; 12] = [
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4008_7602,
    0x4080_6685,
    0x5000_940e,
    0x5000_940f,
    0x5000_9418,
    0x5000_9417,
    0x4008_941a,
    0x5000_9401,
    0x5000_943f,
];

/// Calls that change a file mode.
const MODE_CALLS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
];

type RuleMap = BTreeMap<i64, Vec<SeccompRule>>;

/// Builds the filters: one for the refused calls, and one for those that count as not supported.
pub(super) fn filters() -> Result<[BpfProgram; 2], BackendError> {
    let errno = |errno: i32| SeccompAction::Errno(errno.cast_unsigned());
    Ok([
        filter(refused()?, errno(libc::EPERM))?,
        filter(whole_calls(UNSUPPORTED), errno(libc::ENOTSUP))?,
    ])
}

/// Builds the filter for the calls that another process answers.
pub(super) fn mode_filter() -> Result<BpfProgram, BackendError> {
    // The library does not know the action, so another takes its place.
    let action = SeccompAction::Trace(0);
    let stand_in = libc::SECCOMP_RET_TRACE;
    let mut program = filter(whole_calls(MODE_CALLS), action)?;
    for one in &mut program {
        if u32::from(one.code) == libc::BPF_RET | libc::BPF_K && one.k == stand_in {
            one.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(program)
}

fn filter(rules: RuleMap, action: SeccompAction) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
}

/// Returns rules that apply to calls whatever their arguments are.
fn whole_calls(calls: &[i64]) -> RuleMap {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn refused() -> Result<RuleMap, BackendError> {
    let mut rules = whole_calls(REFUSED);
    let mut refuse_if = |call: i64, conditions: Vec<SeccompCondition>| {
        rules
            .entry(call)
            .or_default()
            .push(SeccompRule::new(conditions)?);
        Ok::<(), BackendError>(())
    };
    let has = |argument, bits| argument_condition(argument, SeccompCmpOp::MaskedEq(bits), bits);
    let is =
        |argument, mask, value| argument_condition(argument, SeccompCmpOp::MaskedEq(mask), value);
    let is_not = |argument, value| argument_condition(argument, SeccompCmpOp::Ne, value);
    // A connected pair of streams cannot send to another address; pairs of other types can.
    refuse_if(
        libc::SYS_socketpair,
        vec![is_not(0, u64::from_flag(libc::AF_UNIX))?],
    )?;
    /// The bits of a socket's type without its flags.
    const KIND: u64 = 0xf;
    for bit in [2, 4, 8] {
        refuse_if(libc::SYS_socketpair, vec![has(1, bit)?])?;
    }
    refuse_if(libc::SYS_socketpair, vec![is(1, KIND, 0)?])?;
    for (call, argument) in ON_SELF {
        refuse_if(*call, vec![is_not(*argument, 0)?])?;
    }
    // All processes of the user, or of a group.
    refuse_if(libc::SYS_setpriority, vec![is_not(0, 0)?])?;
    refuse_if(libc::SYS_ioprio_set, vec![is_not(0, 1)?])?;
    // All processes of the user. Landlock refuses those outside, too.
    refuse_if(
        libc::SYS_kill,
        vec![is(0, u32::MAX.into(), u32::MAX.into())?],
    )?;
    // A child of the parent, which does not know it and does not reap it.
    refuse_if(
        libc::SYS_clone,
        vec![has(0, u64::from_flag(libc::CLONE_PARENT))?],
    )?;
    for request in FILE_REQUESTS {
        let request = argument_condition(1, SeccompCmpOp::Eq, request)?;
        refuse_if(libc::SYS_ioctl, vec![request])?;
    }
    Ok(rules)
}
