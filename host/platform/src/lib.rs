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
    AccessFault, FileAccessRule, OwnerOnly, TrustedOwner, copy_access, create_below,
    create_private_file, create_private_folder, open_below, privacy_command,
    refuse_links_and_waiting, restrict_to_owner,
};
pub use guarantee::{Enforcement, PlatformGuarantee};
pub use system::PlatformFileId;

use std::io;
use std::path::Path;

/// Discards input that was typed or pasted into the terminal and not read yet, so that it does not answer a question
/// that comes up later. Without a terminal, there is nothing to discard.
pub fn discard_typed_input() {
    system::discard_typed_input();
}

/// Returns the number of free bytes of the disk of a file or folder, as far as this user may use them.
pub fn free_space(path: &Path) -> io::Result<u64> {
    system::free_space(path)
}

/// Tells whether [`limit_own_memory`] works here.
pub fn memory_guarantee() -> PlatformGuarantee {
    const NAME: &str = "memory of compiling";
    if cfg!(any(target_os = "linux", windows)) {
        return PlatformGuarantee::enforced(NAME);
    }
    PlatformGuarantee::weaker(NAME, NO_MEMORY_LIMIT)
}

/// Reason why a system cannot limit the memory of a process.
const NO_MEMORY_LIMIT: &str = "this system has no limit that counts the mapped memory of a process";

/// Limits the memory of this process, in bytes. Allocations beyond the limit fail.
pub fn limit_own_memory(bytes: u64) -> io::Result<Enforcement> {
    system::limit_own_memory(bytes)
}

/// Returns true if a process with this id may be running. A process of another user counts as running.
///
/// ```
/// assert!(mimir_platform::process_may_run(std::process::id()));
/// ```
pub fn process_may_run(process: u32) -> bool {
    system::process_may_run(process)
}
