//! System call filter of commands. It refuses calls that reach beyond a sandbox, or into parts of the kernel meant for
//! the administrator.
//!
//! All other calls are allowed. Refused calls fail with EPERM. Calls that programs can do without fail with ENOSYS, so
//! that programs use the alternative.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// Calls that are always refused with EPERM.
const REFUSED: &[i64] = &[
    // Change the root or mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Reach other namespaces or other processes.
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Store keys that outlive a process.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Control the kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
];

/// Calls reported as missing (ENOSYS). A filter cannot see the flags of `clone3`, and C libraries fall back to `clone`;
/// nor can it see the calls that `io_uring` makes.
const MISSING: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` and `unshare` that create namespaces.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWTIME,
];

/// `ioctl` requests that inject input into a terminal.
const TERMINAL_INPUT: [u64; 2] = [
    // TIOCSTI, whose type in `libc` depends on the C library.
    0x5412, // TIOCLINUX can paste, among other things.
    0x541c,
];

/// The setuid and setgid mode bits. A file with such a bit would remain in the workspace, where other users of this
/// machine could run it with the rights of its owner. (A file created with such a bit loses it when it is written to.)
const SET_ID: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

/// The number of `fchmodat2` on every architecture. `libc` does not have it for all of them.
pub(super) const SYS_FCHMODAT2: i64 = 452;

/// Calls that change a file mode, with the index of their mode argument.
const MODE_CALLS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
];

/// Allowed socket families: local sockets and IP.
const ALLOWED_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Builds the filter for all commands.
///
/// On installation, the kernel compiles a filter and evaluates it once for each system call number. So the filter finds
/// numbers by binary search, and then checks arguments for the few calls that need it.
pub(super) fn filter() -> Result<BpfProgram, BackendError> {
    build(REFUSED, &NAMESPACES)
}

/// Namespaces and calls that a program with a sandbox of its own may use. The namespace of mounts is not one of them, and
/// all calls on mounts stay refused.
const NESTED_NAMESPACES: [i32; 3] = [libc::CLONE_NEWUSER, libc::CLONE_NEWPID, libc::CLONE_NEWNET];
const NESTED_CALLS: [i64; 1] = [libc::SYS_chroot];

/// Builds the filter for programs that build a sandbox of their own.
pub(super) fn filter_for_nested_sandbox() -> Result<BpfProgram, BackendError> {
    let refused = REFUSED.iter().filter(|call| !NESTED_CALLS.contains(call));
    let namespaces = NAMESPACES
        .iter()
        .filter(|flag| !NESTED_NAMESPACES.contains(flag));
    build(
        &refused.copied().collect::<Vec<_>>(),
        &namespaces.copied().collect::<Vec<_>>(),
    )
}

/// Builds a filter that refuses these calls, and `clone` and `unshare` with these flags.
fn build(refused: &[i64], namespaces: &[i32]) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let argument_rules = argument_rules(namespaces)?;
    let mut calls = BTreeMap::new();
    for (numbers, action) in [
        (refused, SyscallAction::Refused),
        (MISSING, SyscallAction::Missing),
    ] {
        for number in numbers {
            calls.insert(number_of(*number)?, action);
        }
    }
    for number in argument_rules.keys() {
        calls.insert(number_of(*number)?, SyscallAction::Arguments);
    }
    if let Some(table) = X32_TABLE {
        calls.insert(table, SyscallAction::Missing);
    }
    let calls: Vec<(u32, SyscallAction)> = calls.into_iter().collect();
    let mut search = binary_search(&calls)?;
    let length = search.len();
    for (at, one) in search.iter_mut().enumerate() {
        if u32::from(one.code) == libc::BPF_JMP | libc::BPF_JA {
            one.k =
                u32::try_from(length - at - 1).map_err(|_| BackendError::InvalidArgumentNumber)?;
        }
    }
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arguments: BpfProgram =
        SeccompFilter::new(argument_rules, SeccompAction::Allow, refuse, arch)?.try_into()?;
    // This prefix kills the program on calls for another processor architecture, whose numbers differ.
    let mut program = arguments
        .get(..ARCHITECTURE)
        .ok_or(BackendError::EmptyRule)?
        .to_vec();
    program.push(load_number());
    program.extend(search);
    program.extend(arguments);
    Ok(program)
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyscallAction {
    Refused,
    Missing,
    /// Depends on the arguments.
    Arguments,
}

/// First number of the second system call table of some x86-64 kernels (x32), which has other numbers for the same
/// calls.
const X32_TABLE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x4000_0000)
} else {
    None
};

/// Number of instructions at the start of a filter built by the library: load the architecture, compare it, and kill
/// the process if it differs.
const ARCHITECTURE: usize = 3;

fn number_of(call: i64) -> Result<u32, BackendError> {
    u32::try_from(call).map_err(|_| BackendError::InvalidArgumentNumber)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

/// Loads the call number, the first field of the filter's input.
fn load_number() -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)
}

/// Builds a binary search for the loaded number among the sorted `calls`. All other numbers are allowed.
fn binary_search(calls: &[(u32, SyscallAction)]) -> Result<BpfProgram, BackendError> {
    /// Maximum number of calls that are compared one by one.
    const FEW: usize = 3;
    let return_with = |with| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, with);
    let mut program = Vec::new();
    if calls.len() > FEW {
        let (lower, upper) = calls.split_at(calls.len() / 2);
        let from = upper.first().map_or(u32::MAX, |(number, _)| *number);
        let lower = binary_search(lower)?;
        let lower_length =
            u8::try_from(lower.len()).map_err(|_| BackendError::FilterTooLarge(lower.len()))?;
        program.push(instruction(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            lower_length,
            0,
            from,
        ));
        program.extend(lower);
        program.extend(binary_search(upper)?);
        return Ok(program);
    }
    for (number, action) in calls {
        // The other table covers all numbers from here on.
        let comparison = if Some(*number) == X32_TABLE {
            libc::BPF_JGE
        } else {
            libc::BPF_JEQ
        };
        program.push(instruction(
            libc::BPF_JMP | comparison | libc::BPF_K,
            0,
            1,
            *number,
        ));
        let errno = |errno: i32| return_with(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned());
        program.push(match action {
            SyscallAction::Refused => errno(libc::EPERM),
            SyscallAction::Missing => errno(libc::ENOSYS),
            // The jump target is filled in when the whole search is built.
            SyscallAction::Arguments => instruction(libc::BPF_JMP | libc::BPF_JA, 0, 0, 0),
        });
    }
    program.push(return_with(libc::SECCOMP_RET_ALLOW));
    Ok(program)
}

/// Returns the calls that are refused only with certain arguments.
fn argument_rules(namespaces: &[i32]) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for flag in namespaces.iter().copied().map(u64::from_flag) {
        let condition = || argument_condition(0, SeccompCmpOp::MaskedEq(flag), flag);
        rules
            .entry(libc::SYS_clone)
            .or_default()
            .push(SeccompRule::new(vec![condition()?])?);
        rules
            .entry(libc::SYS_unshare)
            .or_default()
            .push(SeccompRule::new(vec![condition()?])?);
    }
    for request in TERMINAL_INPUT {
        let rule = SeccompRule::new(vec![argument_condition(1, SeccompCmpOp::Eq, request)?])?;
        rules.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    for (call, argument) in MODE_CALLS {
        for bit in SET_ID.map(u64::from) {
            let rule = SeccompRule::new(vec![argument_condition(
                *argument,
                SeccompCmpOp::MaskedEq(bit),
                bit,
            )?])?;
            rules.entry(*call).or_default().push(rule);
        }
    }
    // All families except the allowed ones and the kernel's interface list (netlink route).
    let netlink = u64::from_flag(libc::AF_NETLINK);
    let mut other = vec![argument_condition(0, SeccompCmpOp::Ne, netlink)?];
    for family in ALLOWED_FAMILIES.map(u64::from_flag) {
        other.push(argument_condition(0, SeccompCmpOp::Ne, family)?);
    }
    let route = u64::from_flag(libc::NETLINK_ROUTE);
    let not_route = vec![
        argument_condition(0, SeccompCmpOp::Eq, netlink)?,
        argument_condition(2, SeccompCmpOp::Ne, route)?,
    ];
    rules.insert(
        libc::SYS_socket,
        vec![SeccompRule::new(other)?, SeccompRule::new(not_route)?],
    );
    Ok(rules)
}

/// Returns a condition on the lower 32 bits of an argument; for these arguments, the kernel ignores the rest.
pub(super) fn argument_condition(
    argument: u8,
    op: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
}

pub(super) trait FromFlag {
    fn from_flag(flag: i32) -> u64;
}

impl FromFlag for u64 {
    fn from_flag(flag: i32) -> u64 {
        flag.cast_unsigned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input of a filter for a call on this machine.
    struct Call {
        number: u32,
        architecture: u32,
        arguments: [u64; 6],
    }

    impl Call {
        fn of(number: i64, arguments: &[i32]) -> Self {
            let mut all = [0; 6];
            for (to, from) in all.iter_mut().zip(arguments) {
                *to = u64::from_flag(*from);
            }
            Self {
                number: u32::try_from(number).unwrap(),
                architecture: match std::env::consts::ARCH {
                    "aarch64" => 0xC000_00B7,
                    _ => 0xC000_003E,
                },
                arguments: all,
            }
        }

        fn word(&self, at: u32) -> u32 {
            let at = at as usize;
            match at {
                0 => self.number,
                4 => self.architecture,
                16.. => (self.arguments[(at - 16) / 8] >> (at % 8 * 8)) as u32,
                _ => unreachable!("the filter does not read the instruction pointer"),
            }
        }
    }

    /// Evaluates a filter like the kernel.
    fn verdict(program: &[sock_filter], call: &Call) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let one = &program[at];
            at += 1;
            let code = u32::from(one.code);
            match code & 0x07 {
                libc::BPF_LD => word = call.word(one.k),
                libc::BPF_ALU => word &= one.k,
                libc::BPF_RET => return one.k,
                libc::BPF_JMP if code & 0xf0 == libc::BPF_JA => at += one.k as usize,
                libc::BPF_JMP => {
                    let holds = match code & 0xf0 {
                        libc::BPF_JEQ => word == one.k,
                        libc::BPF_JGE => word >= one.k,
                        libc::BPF_JGT => word > one.k,
                        other => unreachable!("{other:x}"),
                    };
                    at += usize::from(if holds { one.jt } else { one.jf });
                }
                other => unreachable!("{other:x}"),
            }
        }
    }

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

    fn errno(errno: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
    }

    #[test]
    fn syscall_verdicts_match_the_lists() {
        let program = filter().unwrap();
        for number in 0..1_000 {
            let expected = if REFUSED.contains(&number) {
                errno(libc::EPERM)
            } else if MISSING.contains(&number) {
                errno(libc::ENOSYS)
            } else {
                ALLOWED
            };
            // These arguments are allowed for all calls that depend on arguments.
            let call = Call::of(number, &[libc::AF_UNIX]);
            assert_eq!(verdict(&program, &call), expected, "{number}");
        }
    }

    #[test]
    fn syscall_arguments_decide_the_verdict() {
        let program = filter().unwrap();
        let verdict_of =
            |number, arguments: &[i32]| verdict(&program, &Call::of(number, arguments));
        let refused = errno(libc::EPERM);
        for flag in NAMESPACES {
            assert_eq!(
                verdict_of(libc::SYS_clone, &[flag | libc::CLONE_VM]),
                refused
            );
            assert_eq!(verdict_of(libc::SYS_unshare, &[flag]), refused);
        }
        assert_eq!(
            verdict_of(libc::SYS_clone, &[libc::CLONE_VM | libc::CLONE_THREAD]),
            ALLOWED
        );
        assert_eq!(verdict_of(libc::SYS_unshare, &[libc::CLONE_FILES]), ALLOWED);
        for request in TERMINAL_INPUT {
            assert_eq!(verdict_of(libc::SYS_ioctl, &[0, request as i32]), refused);
        }
        assert_eq!(
            verdict_of(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ as i32]),
            ALLOWED
        );
        for family in 0..64 {
            let expected = if ALLOWED_FAMILIES.contains(&family) {
                ALLOWED
            } else {
                refused
            };
            let protocol = libc::NETLINK_AUDIT;
            assert_eq!(
                verdict_of(libc::SYS_socket, &[family, 0, protocol]),
                expected,
                "{family}"
            );
        }
        for (call, argument) in MODE_CALLS {
            let with = |mode: i32| {
                let mut arguments = [0; 3];
                arguments[usize::from(*argument)] = mode;
                verdict_of(*call, &arguments)
            };
            assert_eq!(with(0o1777), ALLOWED, "{call}");
            assert_eq!(with(0o4755), refused, "{call}");
            assert_eq!(with(0o2000), refused, "{call}");
        }
        let route = [libc::AF_NETLINK, 0, libc::NETLINK_ROUTE];
        assert_eq!(verdict_of(libc::SYS_socket, &route), ALLOWED);
    }

    #[test]
    fn syscall_filter_for_nested_sandboxes_allows_namespaces_but_no_mounts() {
        let program = filter_for_nested_sandbox().unwrap();
        let verdict_of =
            |number, arguments: &[i32]| verdict(&program, &Call::of(number, arguments));
        let refused = errno(libc::EPERM);
        let nested = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
        assert_eq!(verdict_of(libc::SYS_clone, &[nested]), ALLOWED);
        assert_eq!(
            verdict_of(libc::SYS_unshare, &[libc::CLONE_NEWUSER]),
            ALLOWED
        );
        assert_eq!(verdict_of(libc::SYS_chroot, &[]), ALLOWED);
        for flag in NAMESPACES
            .iter()
            .filter(|flag| !NESTED_NAMESPACES.contains(flag))
        {
            assert_eq!(
                verdict_of(libc::SYS_unshare, &[*flag | libc::CLONE_NEWUSER]),
                refused
            );
        }
        for call in REFUSED.iter().filter(|call| !NESTED_CALLS.contains(call)) {
            assert_eq!(verdict_of(*call, &[]), refused, "{call}");
        }
    }

    #[test]
    fn syscall_of_a_foreign_architecture_is_blocked() {
        let program = filter().unwrap();
        let mut foreign = Call::of(libc::SYS_getpid, &[]);
        foreign.architecture = 0x4000_0003;
        assert_eq!(verdict(&program, &foreign), libc::SECCOMP_RET_KILL_PROCESS);
        if let Some(table) = X32_TABLE {
            for number in [table, table + 39, table + 520, u32::MAX] {
                let call = Call::of(number.into(), &[]);
                assert_eq!(verdict(&program, &call), errno(libc::ENOSYS), "{number:x}");
            }
        }
    }
}
