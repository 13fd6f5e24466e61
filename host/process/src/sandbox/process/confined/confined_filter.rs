//! System call filters of commands without namespaces, in addition to the [filter](super::super::syscall_filter) of all
//! commands.
//!
//! They take the place of the namespaces: no sockets but connected pairs, no objects shared between processes of the
//! machine, no calls that act on other processes, and no way out of the process group. They also refuse the calls that
//! change a file by its path or descriptor and that Landlock does not check.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::super::syscall_filter::{FromFlag as _, argument_condition};

/// Calls that are always refused with EPERM.
const REFUSED: &[i64] = &[
    // Leave the process group, by which a command is killed.
    libc::SYS_setsid,
    libc::SYS_setpgid,
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
    // Observe the names of files.
    libc::SYS_inotify_add_watch,
    // Change files in ways that Landlock does not check.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // These have the same number on all architectures, and no name in `libc` yet.
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

const SYS_SETXATTRAT: i64 = 463;
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
/// for 64 and 32 bits, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION`, `FS_IOC_ENABLE_VERITY`.
const FILE_ATTRIBUTES: [u64; 5] = [
    0x4008_6602,
    0x4004_6602,
    0x401c_5820,
    0x4008_7602,
    0x4080_6685,
];

/// Calls that change a file mode, with the index of their mode argument.
const MODE_CALLS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
];

/// Any permission to run a file.
const EXECUTABLE: u64 = 0o111;

type RuleMap = BTreeMap<i64, Vec<SeccompRule>>;

/// Builds the filters: one for the refused calls, and one for those that succeed without doing anything.
pub(super) fn filters() -> Result<[BpfProgram; 2], BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let build = |rules: RuleMap, errno: i32| -> Result<BpfProgram, BackendError> {
        let action = SeccompAction::Errno(errno.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
    };
    Ok([build(refused()?, libc::EPERM)?, build(ignored()?, 0)?])
}

fn refused() -> Result<RuleMap, BackendError> {
    let mut rules: RuleMap = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
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
    for request in FILE_ATTRIBUTES {
        let request = argument_condition(1, SeccompCmpOp::Eq, request)?;
        refuse_if(libc::SYS_ioctl, vec![request])?;
    }
    // An executable mode must be 0700: it gives nobody else access, and takes nothing from the owner.
    for (call, mode) in MODE_CALLS {
        let mode = *mode;
        for others in [0o040, 0o020, 0o010, 0o004, 0o002, 0o001] {
            refuse_if(*call, vec![has(mode, 0o100)?, has(mode, others)?])?;
        }
        refuse_if(*call, vec![is(mode, 0o500, 0o100)?])?;
        refuse_if(*call, vec![is(mode, 0o300, 0o100)?])?;
        refuse_if(*call, vec![is(mode, 0o110, 0o010)?])?;
        refuse_if(*call, vec![is(mode, 0o101, 0o001)?])?;
    }
    Ok(rules)
}

/// Calls that do nothing. Programs that copy a file pass on its mode, and fail if they cannot. A file of a command has
/// a mode that suits its owner already.
fn ignored() -> Result<RuleMap, BackendError> {
    let mut rules = RuleMap::new();
    for (call, mode) in MODE_CALLS {
        let condition = argument_condition(*mode, SeccompCmpOp::MaskedEq(EXECUTABLE), 0)?;
        rules.insert(*call, vec![SeccompRule::new(vec![condition])?]);
    }
    Ok(rules)
}
