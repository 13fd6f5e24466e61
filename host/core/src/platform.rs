//! Facts and checks that depend on the operating system: who may change a file, which file is open, whether a process
//! runs, and which guarantees hold.
//!
//! Every check answers on every supported system. A check that a system cannot make is an error or a
//! [`PlatformGuarantee`] that is not enforced, which `mimir doctor` reports.

#[cfg(not(any(unix, windows)))]
compile_error!(
    "mimir checks owners and permissions of its files, which it can do on Unix and on Windows only"
);

mod file_access;
mod guarantee;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use file_access::{
    AccessFault, FileAccessRule, OwnerOnly, TrustedOwner, copy_access, create_private_file,
    create_private_folder, restrict_to_owner,
};
pub use guarantee::{Enforcement, PlatformGuarantee};
pub use system::FileId;

/// Returns true if a process with this id may be running. A process of another user counts as running.
///
/// ```
/// assert!(mimir_core::platform::process_may_run(std::process::id()));
/// ```
pub fn process_may_run(process: u32) -> bool {
    system::process_may_run(process)
}
