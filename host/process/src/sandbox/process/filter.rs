//! The system calls that no command makes: those that reach beyond a sandbox, or into parts of the kernel that are
//! made for its administrator.
//!
//! All others are let through. What is refused is refused as if the caller had no right to it; what programs try first
//! and do without is refused as if the kernel did not have it.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// Never.
const REFUSED: &[i64] = &[
    // Other roots, other mounts.
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
    // Other namespaces, other processes.
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keys that outlive a process.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The kernel itself.
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

/// Not there: `clone3` hides its flags from a filter, and a C library falls back to `clone`; rings make calls that no
/// filter sees.
const MISSING: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` and `unshare` that make namespaces.
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

/// Requests of `ioctl` that type into a terminal.
const TYPING: [u64; 2] = [
    libc::TIOCSTI,
    // TIOCLINUX: among others, paste.
    0x541c,
];

/// Families of sockets: between processes, and over IP.
const FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// The filters, in the order in which they are put before the calls of a program.
pub(super) fn filters() -> Result<Vec<BpfProgram>, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let make = |rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32| {
        let refuse = SeccompAction::Errno(errno.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
    };
    Ok(vec![make(refused()?, libc::EPERM)?, missing()?])
}

fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    for flag in NAMESPACES.map(u64::from_flag) {
        let made = || is(0, SeccompCmpOp::MaskedEq(flag), flag);
        rules
            .entry(libc::SYS_clone)
            .or_default()
            .push(SeccompRule::new(vec![made()?])?);
        rules
            .entry(libc::SYS_unshare)
            .or_default()
            .push(SeccompRule::new(vec![made()?])?);
    }
    for request in TYPING {
        let rule = SeccompRule::new(vec![is(1, SeccompCmpOp::Eq, request)?])?;
        rules.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    // What is of no family that is let, and is not the kernel's list of interfaces.
    let netlink = u64::from_flag(libc::AF_NETLINK);
    let mut other = vec![is(0, SeccompCmpOp::Ne, netlink)?];
    for family in FAMILIES.map(u64::from_flag) {
        other.push(is(0, SeccompCmpOp::Ne, family)?);
    }
    let route = u64::from_flag(libc::NETLINK_ROUTE);
    let not_route = vec![
        is(0, SeccompCmpOp::Eq, netlink)?,
        is(2, SeccompCmpOp::Ne, route)?,
    ];
    rules.insert(
        libc::SYS_socket,
        vec![SeccompRule::new(other)?, SeccompRule::new(not_route)?],
    );
    Ok(rules)
}

/// A condition on the lower half of an argument, which is all that the kernel looks at in those that are compared.
fn is(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
}

trait FromFlag {
    fn from_flag(flag: i32) -> u64;
}

impl FromFlag for u64 {
    fn from_flag(flag: i32) -> u64 {
        flag.cast_unsigned().into()
    }
}

/// What is not there. Each filter is compiled anew for each command, so this one is as short as it can be.
fn missing() -> Result<BpfProgram, BackendError> {
    // The second table of system calls that some kernels for x86-64 have, with other numbers for the same calls (x32).
    const OTHER_TABLE: u32 = 0x4000_0000;
    let instruction = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let jump = |how: u32, to, k| instruction(libc::BPF_JMP | how | libc::BPF_K, to, 0, k);
    let end = |with| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, with);
    // The number stands first in what a filter is shown.
    let mut program = vec![instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
        0,
    )];
    let mut left = MISSING.len() as u8;
    for call in MISSING {
        let call = u32::try_from(*call).map_err(|_| BackendError::InvalidArgumentNumber)?;
        // Over the other comparisons, the one below, and the end that lets through.
        program.push(jump(libc::BPF_JEQ, left + 1, call));
        left -= 1;
    }
    let table = if cfg!(target_arch = "x86_64") {
        OTHER_TABLE
    } else {
        u32::MAX
    };
    program.push(jump(libc::BPF_JGE, 1, table));
    program.push(end(libc::SECCOMP_RET_ALLOW));
    program.push(end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()));
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_made_here() {
        let filters = filters().unwrap();
        assert!(
            filters
                .iter()
                .all(|filter| !filter.is_empty() && filter.len() < 4096)
        );
    }
}
