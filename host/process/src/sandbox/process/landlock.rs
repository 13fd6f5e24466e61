//! Landlock over the mounts: what may be written to is said twice, to two parts of the kernel.

use std::ffi::CString;
use std::io;
use std::path::PathBuf;

use landlock::{ABI, Access, AccessFs, Scope};

use super::plan::c_path;
use crate::sandbox::sys;

/// Access to files that a command has, as the kernel takes it.
pub(super) struct Landlock {
    /// Kinds of access that are refused where no rule allows them.
    pub(super) handled: u64,
    /// What reaches only processes that are held by the same rules.
    pub(super) scoped: u64,
    /// Places and what is allowed below.
    pub(super) rules: Vec<(CString, u64)>,
}

/// What this kernel knows of Landlock; nothing if it has none.
pub(super) fn abi() -> Option<ABI> {
    let version = sys::landlock_version();
    (version > 0).then(|| ABI::from(version))
}

impl Landlock {
    /// Everything may be read and run, as far as it is there; only what is below `writable` may be changed.
    pub(super) fn new(abi: ABI, writable: &[PathBuf]) -> io::Result<Self> {
        let all = AccessFs::from_all(abi).bits();
        let reads = AccessFs::from_read(abi).bits();
        let file = AccessFs::from_file(abi).bits();
        let mut rules = vec![(c"/".to_owned(), reads)];
        for place in writable {
            let may = if place.is_file() { all & file } else { all };
            rules.push((c_path(place)?, may));
        }
        Ok(Self {
            handled: all,
            scoped: Scope::from_all(abi).bits(),
            rules,
        })
    }
}
