//! System calls that the kernel holds until another process answers them (`SECCOMP_RET_USER_NOTIF`).

use std::mem::zeroed;

use rustix::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use rustix::io::Errno;
use seccompiler::BpfProgram;

use super::{number, with_program};

/// A call of another process that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) struct PendingSyscall {
    id: u64,
    /// Thread that makes the call.
    pub(in crate::sandbox) thread: u32,
    /// Number of the call.
    pub(in crate::sandbox) call: i64,
    pub(in crate::sandbox) arguments: [u64; 6],
}

/// Installs a filter for this process and all its descendants, and returns the descriptor on which the calls arrive that
/// the filter does not decide. It is closed when this process executes another program.
pub(in crate::sandbox) fn install_listener(program: &BpfProgram) -> Result<OwnedFd, Errno> {
    with_program(program, |program| {
        // SAFETY: `program` is a valid struct sock_fprog; the kernel copies the instructions, and creates a descriptor
        // that has no other owner.
        unsafe {
            let listener = number(libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                program,
            ))?;
            Ok(OwnedFd::from_raw_fd(listener as RawFd))
        }
    })
}

/// Receives the next call. Fails with ENOENT if its process was killed meanwhile.
pub(in crate::sandbox) fn receive_syscall(
    listener: BorrowedFd<'_>,
) -> Result<PendingSyscall, Errno> {
    // SAFETY: the struct is plain data, for which zeros are valid; the kernel requires them, and writes the call.
    let notification = unsafe {
        let mut notification: libc::seccomp_notif = zeroed();
        number(
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut notification,
            )
            .into(),
        )?;
        notification
    };
    Ok(PendingSyscall {
        id: notification.id,
        thread: notification.pid,
        call: notification.data.nr.into(),
        arguments: notification.data.args,
    })
}

/// Returns true if the call still waits, so that its thread number has not been reused.
pub(in crate::sandbox) fn is_pending(listener: BorrowedFd<'_>, call: &PendingSyscall) -> bool {
    // SAFETY: the kernel reads a number.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const call.id,
        )
    };
    result == 0
}

/// Ends a call with success or an error. Does nothing if its process was killed or interrupted meanwhile.
pub(in crate::sandbox) fn answer_syscall(
    listener: BorrowedFd<'_>,
    call: &PendingSyscall,
    result: Result<(), Errno>,
) {
    // SAFETY: plain data, for which zeros are valid; the kernel reads it.
    unsafe {
        let mut response: libc::seccomp_notif_resp = zeroed();
        response.id = call.id;
        response.error = result.err().map_or(0, |error| -error.raw_os_error());
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut response,
        );
    }
}
