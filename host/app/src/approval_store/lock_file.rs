//! `.mimir/tools.lock`: the grants of a workspace as text that is reviewed like code.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::approval::ApprovalStoreError;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::{LOCK_VERSION, ToolsLock};

use crate::private_files::FileReaders;

use super::{file_error, lock_for_change, replace_file};

/// Handle to `.mimir/tools.lock`: a lock file in the sense of `Cargo.lock`, not a mutex.
pub struct ToolsLockFile {
    path: PathBuf,
}

const HEADER: &str = "\
# Permissions granted to the tools of this project. Written by `mimir tools trust` and `mimir tools revoke`.
# A grant applies only to users who have confirmed it. If someone else changed a grant, review it and run
# `mimir tools trust NAME`.
";

/// Maximum size in bytes. The files that mimir writes are always shorter.
const MAX_FILE_SIZE: u64 = 16 << 20;

impl ToolsLockFile {
    /// Creates a handle to the lock file at `path`. Reads nothing.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the grants. A missing file grants nothing.
    pub fn read(&self) -> Result<ToolsLock, ApprovalStoreError> {
        let unreadable = |why: &dyn std::fmt::Display| {
            file_error(
                &self.path,
                format_args!("cannot be read, so no grants apply: {why}"),
            )
        };
        let text = match files::read_text(&self.path, LinkPolicy::Refuse, MAX_FILE_SIZE) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ToolsLock::default()),
            Err(error) => return Err(unreadable(&error)),
        };
        mimir_script::yaml::check_yaml(&text).map_err(|rejection| unreadable(&rejection))?;
        let grants: ToolsLock = serde_yaml::from_str(&text).map_err(|error| {
            let remedy = if text.lines().any(|line| line.starts_with("<<<<<<<")) {
                "it contains merge conflict markers: resolve the conflicts"
            } else {
                "restore the last valid version"
            };
            let error = mimir_core::name_suggestions::with_nearest_name(&error.to_string());
            unreadable(&format_args!(
                "{error}; {remedy}, or remove the file and grant again with `mimir tools trust NAME`"
            ))
        })?;
        if grants.version != LOCK_VERSION {
            let remedy = if grants.version > LOCK_VERSION {
                "update mimir"
            } else {
                "remove the file and grant again with `mimir tools trust NAME`"
            };
            let why = format!(
                "its version is {}, but this mimir supports {LOCK_VERSION}; {remedy}",
                grants.version
            );
            return Err(unreadable(&why));
        }
        Ok(grants)
    }

    /// Removes a plugin's grant. Returns true if there was one.
    pub fn remove_grant(&self, location: &str) -> Result<bool, ApprovalStoreError> {
        if !self.read()?.plugins.contains_key(location) {
            return Ok(false);
        }
        let removed = self.change(|grants| grants.plugins.remove(location))?;
        Ok(removed.is_some())
    }

    /// Applies a change to the file under an inter-process lock.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut ToolsLock) -> T,
    ) -> Result<T, ApprovalStoreError> {
        // The inter-process lock is in the state folder, because `.mimir` itself is under version control.
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let state = folder.join("state");
        // A checkout may contain these folders as links that point anywhere.
        files::reject_links(folder.parent().unwrap_or(Path::new("")), &state)
            .map_err(|error| file_error(&self.path, format_args!("cannot be changed: {error}")))?;
        let _guard = lock_for_change(&state.join("tools.lock"))?;
        let mut grants = self.read()?;
        let result = change(&mut grants);
        let body = serde_yaml::to_string(&grants).map_err(|error| file_error(&self.path, error))?;
        replace_file(
            &self.path,
            &format!("{HEADER}{body}"),
            FileReaders::Everybody,
        )?;
        Ok(result)
    }
}
