//! The built components of workers' modules and packages, in the user's cache.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_script::BuiltPlugin;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::sources::WorkerToolSource;
use crate::file_error::{file_error, write_atomically};
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;

/// Version of the format of the folder.
const FORMAT: &str = "1";

/// File name of the component.
const COMPONENT: &str = "tools.wasm";

/// File name of the record, which is written last.
const RECORD: &str = "tools.json";

/// Finds and stores builds.
pub(super) struct ToolsetCache {
    folder: PathBuf,
}

/// A stored build.
pub(super) struct BuiltToolset {
    /// The component.
    pub(super) file: PathBuf,
    /// The tools that do not set their approval.
    pub(super) silent: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct BuildRecord {
    silent: BTreeSet<String>,
}

impl ToolsetCache {
    /// Creates a handle to the cache of this user.
    pub(super) fn new(user_dirs: &UserDirs) -> Result<Self, ToolError> {
        let cache = user_dirs.cache.as_ref().ok_or_else(|| {
            ToolError::unavailable(
                "this system has no cache folder for the tools of workers: set MIMIR_CACHE_DIR to an absolute path",
            )
        })?;
        Ok(Self {
            folder: cache.join("worker-tools"),
        })
    }

    /// Returns the build of a source with its current content.
    pub(super) fn find(&self, source: &WorkerToolSource) -> Option<BuiltToolset> {
        let folder = self.folder_of(source);
        let record = private_files::read(&folder.join(RECORD), OwnerOnly::Writing).ok()??;
        let record: BuildRecord = serde_json::from_str(&record).ok()?;
        let file = folder.join(COMPONENT);
        file.is_file().then_some(BuiltToolset {
            file,
            silent: record.silent,
        })
    }

    /// Stores the build of a source.
    pub(super) fn store(
        &self,
        source: &WorkerToolSource,
        built: &BuiltPlugin,
    ) -> Result<BuiltToolset, ToolError> {
        let folder = self.folder_of(source);
        let record = folder.join(RECORD);
        let failed = |path: &Path, error: &io::Error| file_error("write", path, error);
        private_files::private_folder(&folder).map_err(|error| failed(&folder, &error))?;
        let file = folder.join(COMPONENT);
        // The record of an earlier build must not describe this component.
        let _ = std::fs::remove_file(&record);
        write_atomically(&file, &built.component).map_err(|error| failed(&file, &error))?;
        let silent: BTreeSet<String> = built.silent.iter().cloned().collect();
        let text = serde_json::to_vec(&BuildRecord {
            silent: silent.clone(),
        })
        .unwrap_or_default();
        private_files::replace(&record, &text, FileReaders::Owner)
            .map_err(|error| failed(&record, &error))?;
        Ok(BuiltToolset { file, silent })
    }

    fn folder_of(&self, source: &WorkerToolSource) -> PathBuf {
        let mut hash = Sha256::new();
        let plugin = &source.plugin;
        for part in [
            FORMAT,
            env!("CARGO_PKG_VERSION"),
            &source.location,
            &plugin.text,
            &source.package_text,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        self.folder.join(format!("{:x}", hash.finalize()))
    }
}
