//! The built components of workers' modules and packages, in the user's cache: the newest of each source of each
//! workspace.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::files::{self, LinkPolicy};
use mimir_script::BuiltPlugin;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::sources::WorkerToolSource;
use crate::file_error::{file_error, write_atomically};
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Version of the format of the folder.
const FORMAT: &str = "2";

/// File name of the component, in a folder that is named after its digest.
const COMPONENT: &str = "tools.wasm";

/// File name of the record, which is written last.
const RECORD: &str = "tools.json";

/// Maximum number of bundled files, and size of each in bytes. Others are not compared.
const MAX_INPUTS: usize = 10_000;
const MAX_INPUT_SIZE: u64 = 16 << 20;

/// Finds and stores builds.
pub(super) struct ToolsetCache {
    folder: PathBuf,
    /// Canonical path of the workspace: another checkout may have other files at the same locations.
    workspace: PathBuf,
}

/// A stored build.
#[derive(Debug)]
pub(super) struct BuiltToolset {
    /// The component.
    pub(super) file: PathBuf,
    /// The tools that do not set their approval.
    pub(super) silent: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct BuildRecord {
    /// Digest of everything that was built.
    sources: String,
    /// The files that were bundled with the module.
    inputs: Vec<PathBuf>,
    /// Digest of the component.
    component: String,
    silent: BTreeSet<String>,
}

impl ToolsetCache {
    /// Creates a handle to the builds of a workspace in the cache of this user.
    pub(super) fn new(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> Result<Self, ToolError> {
        let cache = user_dirs.cache.as_ref().ok_or_else(|| {
            ToolError::unavailable(
                "this system has no cache folder for the tools of workers: set MIMIR_CACHE_DIR to an absolute path",
            )
        })?;
        let root = workspace.root();
        Ok(Self {
            folder: cache.join("worker-tools"),
            workspace: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
        })
    }

    /// Returns the build of a source with the current content of the source and of all files that were bundled with it.
    pub(super) fn find(&self, source: &WorkerToolSource) -> Option<BuiltToolset> {
        let folder = self.folder_of(source);
        let record = private_files::read(&folder.join(RECORD), OwnerOnly::Writing).ok()??;
        let record: BuildRecord = serde_json::from_str(&record).ok()?;
        if source_digest(source, &record.inputs).ok()? != record.sources {
            return None;
        }
        let file = component_path(&folder, &record.component);
        file.is_file().then_some(BuiltToolset {
            file,
            silent: record.silent,
        })
    }

    /// Stores the build of a source in place of earlier ones.
    pub(super) fn store(
        &self,
        source: &WorkerToolSource,
        built: &BuiltPlugin,
    ) -> Result<BuiltToolset, ToolError> {
        let folder = self.folder_of(source);
        let failed = |path: &Path, error: &io::Error| file_error("write", path, error);
        private_files::private_folder(&folder).map_err(|error| failed(&folder, &error))?;
        let component = format!("{:x}", Sha256::digest(&built.component));
        let file = component_path(&folder, &component);
        write_atomically(&file, &built.component).map_err(|error| failed(&file, &error))?;
        // A bundler may name sources that are not files.
        let inputs = built.inputs.iter().filter(|file| read_input(file).is_ok());
        let inputs: Vec<PathBuf> = inputs.take(MAX_INPUTS).cloned().collect();
        let path = folder.join(RECORD);
        let sources =
            source_digest(source, &inputs).map_err(|error| file_error("read", &path, &error))?;
        let record = BuildRecord {
            sources,
            inputs,
            component,
            silent: built.silent.iter().cloned().collect(),
        };
        let text = serde_json::to_vec(&record).map_err(|error| failed(&path, &error.into()))?;
        private_files::replace(&path, &text, FileReaders::Owner)
            .map_err(|error| failed(&path, &error))?;
        remove_others(&folder, &record.component);
        Ok(BuiltToolset {
            file,
            silent: record.silent,
        })
    }

    fn folder_of(&self, source: &WorkerToolSource) -> PathBuf {
        let mut hash = Sha256::new();
        add(&mut hash, FORMAT.as_bytes());
        add(&mut hash, self.workspace.as_os_str().as_encoded_bytes());
        add(&mut hash, source.location.as_bytes());
        self.folder.join(format!("{:x}", hash.finalize()))
    }
}

/// Returns the digest of a source and of the files that are bundled with it. Fails if one of them cannot be read.
fn source_digest(source: &WorkerToolSource, inputs: &[PathBuf]) -> io::Result<String> {
    let mut hash = Sha256::new();
    add(&mut hash, env!("CARGO_PKG_VERSION").as_bytes());
    add(&mut hash, source.plugin.text.as_bytes());
    add(&mut hash, source.package_text.as_bytes());
    for file in inputs {
        add(&mut hash, file.as_os_str().as_encoded_bytes());
        add(&mut hash, &read_input(file)?);
    }
    Ok(format!("{:x}", hash.finalize()))
}

fn read_input(file: &Path) -> io::Result<Vec<u8>> {
    files::read(file, LinkPolicy::Follow, MAX_INPUT_SIZE)
}

/// Adds a part to a hash, with its length, so that no other parts have the same hash.
fn add(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

/// Returns the path of a component. Each has a folder of its own, so that a record never describes another one.
fn component_path(folder: &Path, digest: &str) -> PathBuf {
    folder.join(digest).join(COMPONENT)
}

/// Removes the components of earlier builds. Another process may use one, so a failure is not an error.
fn remove_others(folder: &Path, digest: &str) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name() != digest) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use mimir_agent::WorkerOwnToolset;
    use mimir_script::PluginSource;
    use tempfile::TempDir;

    use super::*;

    fn source(text: &str) -> WorkerToolSource {
        WorkerToolSource {
            toolset: WorkerOwnToolset::Module,
            location: ".mimir/workers/tools.ts".to_owned(),
            plugin: PluginSource {
                path: PathBuf::from("tools.ts"),
                place: String::new(),
                text: text.to_owned(),
                typed: true,
                name: "tools".to_owned(),
                version: "0.1.0".to_owned(),
                description: None,
            },
            build_argument: String::new(),
            package_folder: None,
            prefix: String::new(),
            package_text: String::new(),
        }
    }

    fn built(component: &[u8], inputs: &[PathBuf]) -> BuiltPlugin {
        BuiltPlugin {
            component: component.to_vec(),
            tools: Vec::new(),
            silent: vec!["price".to_owned()],
            bundler: None,
            inputs: inputs.to_vec(),
        }
    }

    fn cache(folder: &TempDir, workspace: &str) -> ToolsetCache {
        let workspace = folder.path().join(workspace);
        std::fs::create_dir_all(&workspace).unwrap();
        let user_dirs = UserDirs {
            cache: Some(folder.path().join("cache")),
            ..UserDirs::default()
        };
        let workspace = WorkspaceFolder::find(Some(&workspace)).unwrap();
        ToolsetCache::new(&user_dirs, &workspace).unwrap()
    }

    fn component(found: Option<BuiltToolset>) -> Option<Vec<u8>> {
        found.map(|found| std::fs::read(found.file).unwrap())
    }

    #[test]
    fn worker_build_belongs_to_its_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (cache(&folder, "one"), cache(&folder, "other"));
        one.store(&source("a"), &built(b"built in one", &[]))
            .unwrap();
        assert!(other.find(&source("a")).is_none());
        other
            .store(&source("a"), &built(b"built in other", &[]))
            .unwrap();
        assert_eq!(component(one.find(&source("a"))).unwrap(), b"built in one");
        assert_eq!(
            component(other.find(&source("a"))).unwrap(),
            b"built in other"
        );
        assert!(one.find(&source("b")).is_none(), "another content");
    }

    #[test]
    fn worker_build_ends_with_a_change_of_a_bundled_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder, "one");
        let input = folder.path().join("lib.ts");
        std::fs::write(&input, "1").unwrap();
        let inputs = [input.clone(), folder.path().join("(disabled):fs")];
        cache.store(&source("a"), &built(b"1", &inputs)).unwrap();
        assert_eq!(component(cache.find(&source("a"))).unwrap(), b"1");
        std::fs::write(&input, "2").unwrap();
        assert!(cache.find(&source("a")).is_none());
        std::fs::write(&input, "1").unwrap();
        assert!(cache.find(&source("a")).is_some());
        std::fs::remove_file(&input).unwrap();
        assert!(cache.find(&source("a")).is_none());
    }

    #[test]
    fn worker_build_replaces_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(&folder, "one");
        let first = cache.store(&source("a"), &built(b"1", &[])).unwrap();
        let second = cache.store(&source("b"), &built(b"2", &[])).unwrap();
        assert!(!first.file.exists());
        assert!(cache.find(&source("a")).is_none());
        let found = cache.find(&source("b")).unwrap();
        assert_eq!(found.file, second.file);
        assert!(found.silent.contains("price"));
    }
}
