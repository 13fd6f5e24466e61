//! Tools that run on the script engines: the scripts in a folder, and `run_code`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::registry::Quarantined;
use mimir_core::tool::{Tool, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{Needs, ToolError, ToolErrorCode};
use mimir_wasm::family::proofs;
use mimir_wasm::script::{ScriptEngine, ScriptState};
use mimir_wasm::{LoadedTools, Sha256Digest, WasmHost};
use parking_lot::Mutex;

use crate::backend::ScriptBackend;
use crate::code_engines::{CodeEngines, LanguageEngineParts};
use crate::definition::{self, CheckedScript};
use crate::openapi;
use crate::run_code::{CodeEngine, run_code};

/// Maximum size of a tool file in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Error for a symbolic link that leaves the workspace.
const LINK_OUTSIDE: &str = "the link leads out of the workspace: replace it with the file itself";

/// Finds script tools, and caches the tools of unchanged files.
pub struct ScriptFolder {
    engines: Arc<CodeEngines>,
    folder: PathBuf,
    /// The folder that stands in for the workspace: locations are relative to it, and links must not leave it.
    location_root: Option<PathBuf>,
    /// The tools of unchanged files.
    cached: Mutex<HashMap<(String, Sha256Digest), CachedTools>>,
}

/// The tools of an unchanged file, or the error for that file.
type CachedTools = Arc<Result<Vec<Tool>, ToolError>>;

impl ScriptFolder {
    /// Creates a finder for the scripts in `folder`.
    pub fn new(host: Arc<WasmHost>, engines: LanguageEngineParts, folder: PathBuf) -> Self {
        Self {
            engines: CodeEngines::new(host, engines),
            folder,
            location_root: None,
            cached: Mutex::default(),
        }
    }

    /// Reads and shows the files below this folder as if it were the workspace.
    #[must_use]
    pub fn with_location_root(mut self, root: Option<PathBuf>) -> Self {
        self.location_root = root;
        self
    }

    /// Returns the script engine, to prepare it before the first call.
    pub fn engine(&self) -> &Arc<ScriptEngine> {
        self.engines.scripts()
    }

    /// Returns the engines of all languages.
    pub fn engines(&self) -> &Arc<CodeEngines> {
        &self.engines
    }

    /// Adds the built-in `run_code` and the scripts in the folder. `run_code` comes first, so that no file takes its
    /// name.
    pub fn add_tools_to(&self, loaded: &mut LoadedTools) {
        match run_code(vec![Arc::clone(&self.engines) as Arc<dyn CodeEngine>]) {
            Ok(tool) => loaded.tools.insert(0, tool),
            Err(error) => tracing::error!(%error, "`run_code` is not available"),
        }
        let mut current = HashMap::new();
        let root = self.root();
        for name in &loaded.scripts {
            let location = self.display_path(name);
            let quarantine = |error: ToolError| Quarantined {
                location: location.clone(),
                code: error.code,
                reason: error.message,
            };
            let content = root.as_ref().map_err(ToolError::clone);
            let content = match content.and_then(|root| self.read(root, name)) {
                Ok(Some(content)) => content,
                Ok(None) => continue,
                Err(error) => {
                    loaded.quarantined.push(quarantine(error));
                    continue;
                }
            };
            let key = (location.clone(), Sha256Digest::of_bytes(&content));
            let cached = self.cached.lock();
            let existing = cached.get(&key).cloned();
            drop(cached);
            let tools =
                existing.unwrap_or_else(|| Arc::new(self.load_tools(&location, &content, key.1)));
            match &*tools {
                Ok(tools) => loaded.tools.extend(tools.iter().cloned()),
                Err(error) => loaded.quarantined.push(quarantine(error.clone())),
            }
            current.insert(key, tools);
        }
        *self.cached.lock() = current;
    }

    fn load_tools(
        &self,
        location: &str,
        content: &[u8],
        digest: Sha256Digest,
    ) -> Result<Vec<Tool>, ToolError> {
        let text = std::str::from_utf8(content).map_err(|_| {
            let message = format!("{location} is not UTF-8");
            ToolError::new(ToolErrorCode::InvalidInput, message)
        });
        let text = text?;
        if openapi::is_api_file(location) {
            let host = self.engines.scripts().host();
            return openapi::api_tools(host, location, text, digest);
        }
        let checked = definition::check(location, text)?;
        Ok(vec![self.build_tool(location, checked, digest)])
    }

    fn build_tool(&self, location: &str, checked: CheckedScript, digest: Sha256Digest) -> Tool {
        let definition = checked.definition.clone();
        let (token_cost, enabled) = (checked.token_cost, checked.enabled);
        let imports = imports(&definition.needs, checked.has_storage);
        let trust = if definition.needs.is_empty() && !checked.has_storage {
            ToolTrust::Harmless
        } else {
            ToolTrust::Untrusted
        };
        let origin = ToolOrigin {
            plugin: definition.name.to_string(),
            location: location.to_owned(),
            digest: digest.to_string(),
            declares_needs: true,
            proofs: proofs(&imports).iter().map(ToString::to_string).collect(),
            imports,
            ..ToolOrigin::default()
        };
        let backend = ScriptBackend {
            engines: Arc::clone(&self.engines),
            state: ScriptState::default(),
            path: location.to_owned(),
            checked,
        };
        let (source, backend) = (ToolSource::Custom, Arc::new(backend));
        Tool::new(definition, source, Arc::new(origin), trust, backend)
            .with_off(!enabled)
            .with_token_cost(token_cost)
    }

    /// Returns the path without links of the folder that no link of a tool file may leave.
    fn root(&self) -> Result<PathBuf, ToolError> {
        let Some(root) = &self.location_root else {
            return self.engines.workspace_root();
        };
        root.canonicalize().map_err(|error| {
            let message = format!("the folder of the tools cannot be found: {error}");
            ToolError::new(ToolErrorCode::Unavailable, message)
        })
    }

    /// Returns the content of a file, or `None` if it no longer exists. A link must not lead out of the workspace: the
    /// folder may come from a checkout, and everyone who lists the tools sees errors about the file.
    fn read(&self, root: &Path, name: &str) -> Result<Option<Vec<u8>>, ToolError> {
        let path = self.folder.join(name);
        let limit = if openapi::is_api_file(name) {
            openapi::MAX_FILE_BYTES
        } else {
            MAX_FILE_SIZE
        };
        let read = path.canonicalize().and_then(|real| {
            if real.starts_with(root) {
                // Not a race worth closing: a process that can swap a folder for a link now can write the file, too.
                files::read(&real, LinkPolicy::Refuse, limit)
            } else {
                Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    LINK_OUTSIDE,
                ))
            }
        });
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() =>
            {
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let message = format!(
                    "the file is larger than {} KiB, the limit for such files",
                    limit >> 10
                );
                Err(ToolError::new(ToolErrorCode::LimitExceeded, message))
            }
            Err(error) => {
                let code = if error.kind() == io::ErrorKind::PermissionDenied {
                    ToolErrorCode::PermissionDenied
                } else {
                    ToolErrorCode::Unavailable
                };
                let message = format!("cannot read the file: {error}");
                Err(ToolError::new(code, message))
            }
        }
    }

    /// Returns the display path of a file, relative to the workspace if the file is inside it.
    fn display_path(&self, name: &str) -> String {
        let path = self.folder.join(name);
        let workspace = self.engines.scripts().host().workspace();
        let root = self.location_root.as_deref();
        let below = root.and_then(|root| path.strip_prefix(root).ok());
        let below = below.unwrap_or_else(|| path.strip_prefix(workspace).unwrap_or(&path));
        below.to_string_lossy().replace('\\', "/")
    }
}

/// Returns the names of the host interfaces that a script needs, as a component would import them.
fn imports(needs: &Needs, has_storage: bool) -> Vec<String> {
    let interfaces = [
        (true, "mimir:tool/log@1.0.0"),
        (true, "mimir:tool/progress@1.0.0"),
        (!needs.files.is_empty(), "wasi:filesystem/types@0.2.6"),
        (!needs.hosts.is_empty(), "wasi:http/outgoing-handler@0.2.6"),
        (!needs.commands.is_empty(), "mimir:tool/commands@1.0.0"),
        (!needs.tools.is_empty(), "mimir:tool/tools@1.0.0"),
        (needs.model, "mimir:tool/model@1.0.0"),
        (has_storage, "mimir:tool/storage@1.0.0"),
    ];
    let interfaces = interfaces.into_iter().filter(|(is_given, _)| *is_given);
    interfaces.map(|(_, name)| name.to_owned()).collect()
}
