//! Landlock rules in addition to the mounts: two independent parts of the kernel enforce which files are writable.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use landlock::{ABI, Access, AccessFs, Scope};

use super::child_plan::c_path;
use crate::sandbox::sys;

/// Landlock rules of a command, in the kernel's format.
pub(super) struct LandlockRules {
    /// Kinds of access that are refused unless a rule allows them.
    pub(super) handled: u64,
    /// Kinds of communication that are limited to processes under the same rules.
    pub(super) scoped: u64,
    /// Paths with the access allowed below each.
    pub(super) rules: Vec<(CString, u64)>,
}

/// Returns the Landlock version of this kernel, or `None` if it has no Landlock.
pub(super) fn abi() -> Option<ABI> {
    let version = sys::landlock_version();
    (version > 0).then(|| ABI::from(version))
}

impl LandlockRules {
    /// Allows reading and running all visible files, and writing only below `writable`.
    pub(super) fn new(abi: ABI, writable: &[PathBuf]) -> io::Result<Self> {
        let all = AccessFs::from_all(abi).bits();
        let reads = AccessFs::from_read(abi).bits();
        let file = AccessFs::from_file(abi).bits();
        let mut rules = vec![(c"/".to_owned(), reads)];
        for path in writable {
            let access = if path.is_file() { all & file } else { all };
            rules.push((c_path(path)?, access));
        }
        Ok(Self {
            handled: all,
            scoped: Scope::from_all(abi).bits(),
            rules,
        })
    }
}
