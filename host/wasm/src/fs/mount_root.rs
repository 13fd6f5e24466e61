//! Opening of the folders that are mounted. A missing folder that was granted for writing is created, below the workspace
//! root and without following links.

use std::io;
use std::path::Path;

use mimir_core::DirectoryAccess;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::quota::{MountQuota, create_counted};
use super::sys::{self, DirHandle, FileKind};
use super::{GuestMount, MountError};

/// The opened directory of a mount.
pub(super) struct MountRoot {
    /// The directory.
    pub(super) dir: DirHandle,
    /// The folders of its path that were created, the outermost first.
    pub(super) created: Vec<String>,
}

/// Opens the directory of a mount; `None` if it does not exist and was granted for reading only. Links in the path of the
/// workspace root are followed, because the user chose it; links in the prefix are not, because they are part of the
/// workspace's content.
pub(super) fn open_root(
    mount: &GuestMount,
    quota: Option<&MountQuota>,
) -> Result<Option<MountRoot>, MountError> {
    let parts: Vec<&str> = mount
        .prefix
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let invalid_prefix = || MountError::Prefix {
        prefix: mount.prefix.clone(),
    };
    if parts.iter().any(|part| matches!(*part, "." | ".."))
        || !mount.host.ends_with(parts.join("/"))
    {
        return Err(invalid_prefix());
    }
    let workspace = mount
        .host
        .ancestors()
        .nth(parts.len())
        .ok_or_else(invalid_prefix)?;
    let workspace = if workspace == Path::new("") {
        Path::new(".")
    } else {
        workspace
    };
    let path = || mount.prefix.clone();
    let mut dir = sys::root(workspace).map_err(|source| MountError::Open {
        path: workspace.display().to_string(),
        source,
    })?;
    let mut created = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let mut opened = sys::open_dir(&dir, part);
        if matches!(&opened, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            if mount.access == DirectoryAccess::Read {
                return Ok(None);
            }
            if created.is_empty() {
                check_rules(mount, &parts, at)?;
            }
            create_folder(mount, quota, &dir, part)?;
            created.push(parts[..=at].join("/"));
            opened = sys::open_dir(&dir, part);
        }
        dir = match opened {
            Ok(next) => next,
            Err(source) => {
                return Err(match sys::stat_at(&dir, part).map(|stat| stat.kind) {
                    Ok(FileKind::Link) => MountError::Link { path: path() },
                    Ok(FileKind::File) => MountError::NotAFolder { path: path() },
                    _ => MountError::Open {
                        path: path(),
                        source,
                    },
                });
            }
        };
    }
    Ok(Some(MountRoot { dir, created }))
}

/// Fails if a rule protects one of the folders to create, of which that at index `first` is the outermost. Checked for all
/// of them before one is created.
fn check_rules(mount: &GuestMount, parts: &[&str], first: usize) -> Result<(), MountError> {
    for end in first..parts.len() {
        let path = parts[..=end].join("/");
        if let Some(rule) = mount.rules.check(&path).against_writing() {
            return Err(MountError::Protected {
                path: mount.prefix.clone(),
                reason: format!("the rule `{rule}` protects `{path}`"),
            });
        }
    }
    Ok(())
}

/// Creates the folder `name` in its parent `dir`. It counts as an entry that the call adds.
fn create_folder(
    mount: &GuestMount,
    quota: Option<&MountQuota>,
    dir: &DirHandle,
    name: &str,
) -> Result<(), MountError> {
    let refused = |reason: String| MountError::Create {
        path: mount.prefix.clone(),
        reason,
    };
    let mut failure = None;
    let created = create_counted(quota, || {
        sys::make_dir(dir, name).map_err(|error| {
            failure = Some(error);
            ErrorCode::Io.into()
        })
    });
    match (created, failure) {
        (Ok(()), _) => Ok(()),
        // Another call has created it meanwhile.
        (Err(_), Some(error)) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        (Err(_), Some(error)) => Err(refused(error.to_string())),
        (Err(_), None) => Err(refused(
            "the call has reached its limit for new files (limits.newFiles)".to_owned(),
        )),
    }
}
