//! A single component: the location of the bytes, the kind, and the code after the first call.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use mimir_core::ToolErrorCode;
use mimir_core::files::{self, LinkPolicy};
use tokio::sync::OnceCell;
use wasmtime::component::{Component, InstancePre};

use crate::backend::BuiltinTraits;
use crate::call::PreparedComponent;
use crate::compile::{CompileLane, CompileLimits, CompileRequest};
use crate::componentize::adapt;
use crate::describe::ComponentKind;
use crate::digest::Sha256Digest;
use crate::engine::EngineMode;
use crate::error::WasmHostError;
use crate::host::WasmHost;
use crate::http::HttpClients;
use crate::packed::PackedComponent;
use crate::store_state::StoreState;

/// The location of a component's bytes.
#[derive(Debug, Clone)]
pub(crate) enum ComponentBytes {
    /// In the executable.
    Bundled(PackedComponent),
    /// In a file.
    File(PathBuf),
    /// In memory: a component that is being built.
    Memory(Bytes),
}

/// A component, whose code is loaded at the first call and stays loaded.
pub(crate) struct WasmPlugin {
    pub(crate) host: Arc<WasmHost>,
    pub(crate) bytes: ComponentBytes,
    /// Display location: a path, or the name of a built-in component.
    pub(crate) location: String,
    pub(crate) digest: Sha256Digest,
    pub(crate) kind: ComponentKind,
    pub(crate) mode: EngineMode,
    /// Special rights and duties of a built-in plugin.
    pub(crate) traits: BuiltinTraits,
    /// HTTP clients of the plugin's tools.
    pub(crate) clients: Arc<HttpClients>,
    code: OnceCell<Arc<PreparedComponent>>,
}

/// Maximum size of a component file in bytes. Language engines reach 40 MB.
pub(crate) const MAX_FILE_SIZE: u64 = 256 << 20;

impl ComponentBytes {
    /// Reads the component. Hash and compile the returned bytes, so that the hashed bytes are the ones that run.
    pub(crate) fn read(&self, location: &str) -> Result<Vec<u8>, WasmHostError> {
        match self {
            ComponentBytes::Bundled(packed) => packed.unpack(),
            ComponentBytes::Memory(bytes) => Ok(bytes.to_vec()),
            ComponentBytes::File(path) => {
                let bytes = files::read(path, LinkPolicy::Follow, MAX_FILE_SIZE);
                bytes.map_err(|error| read_error(location, &error))
            }
        }
    }

    /// Hashes the component without loading the file into memory.
    pub(crate) fn digest(&self, location: &str) -> Result<Sha256Digest, WasmHostError> {
        let path = match self {
            ComponentBytes::Bundled(packed) => {
                return Ok(Sha256Digest::of_bytes(&packed.unpack()?));
            }
            ComponentBytes::Memory(bytes) => return Ok(Sha256Digest::of_bytes(bytes)),
            ComponentBytes::File(path) => path,
        };
        let file = files::open(path, LinkPolicy::Follow);
        let hashed = file.and_then(|file| Sha256Digest::of_reader(file.take(MAX_FILE_SIZE + 1)));
        match hashed.map_err(|error| read_error(location, &error))? {
            (_, length) if length > MAX_FILE_SIZE => {
                Err(read_error(location, &ErrorKind::FileTooLarge.into()))
            }
            (digest, _) => Ok(digest),
        }
    }
}

/// Returns the error for a file that cannot be read as a component.
fn read_error(location: &str, error: &io::Error) -> WasmHostError {
    match error.kind() {
        ErrorKind::FileTooLarge => {
            let limit = mimir_core::text::bytes(MAX_FILE_SIZE);
            WasmHostError::Read {
                location: location.to_owned(),
                reason: format!("it is larger than {limit}, the limit for components"),
                code: ToolErrorCode::LimitExceeded,
            }
        }
        ErrorKind::InvalidInput => WasmHostError::Read {
            location: location.to_owned(),
            reason: "it is not a regular file".to_owned(),
            code: ToolErrorCode::InvalidInput,
        },
        _ => WasmHostError::read_error(location, error),
    }
}

impl WasmPlugin {
    pub(crate) fn new(
        host: Arc<WasmHost>,
        bytes: ComponentBytes,
        location: String,
        digest: Sha256Digest,
        kind: ComponentKind,
        mode: EngineMode,
    ) -> Self {
        Self {
            host,
            bytes,
            location,
            digest,
            kind,
            mode,
            traits: BuiltinTraits::default(),
            clients: Arc::default(),
            code: OnceCell::new(),
        }
    }

    /// Returns the code if it is already loaded.
    pub(crate) fn loaded(&self) -> Option<&Arc<PreparedComponent>> {
        self.code.get()
    }

    /// Returns the code, ready to be instantiated. Code that is not in the cache is compiled within these limits. Errors
    /// about the content do not name the component: see [`WasmHostError::at`].
    pub(crate) async fn load(
        self: &Arc<Self>,
        limits: CompileLimits,
    ) -> Result<&Arc<PreparedComponent>, WasmHostError> {
        if let Some(callee) = self.code.get() {
            return Ok(callee);
        }
        // The file is hashed even if its code is cached: grants apply to the file that was described.
        self.check_digest()?;
        let request = CompileRequest {
            digest: self.digest,
            name: self.location.clone(),
            lane: match self.bytes {
                ComponentBytes::Bundled(_) => CompileLane::BuiltIn,
                ComponentBytes::File(_) | ComponentBytes::Memory(_) => CompileLane::Custom,
            },
            mode: self.mode,
            limits,
        };
        let plugin = Arc::clone(self);
        let component = self
            .host
            .component(request, move || plugin.read_verified())
            .await?;
        let link = || async {
            let pre = self.link(&component)?;
            Ok(Arc::new(PreparedComponent::new(pre, &self.kind)?))
        };
        self.code.get_or_try_init(link).await
    }

    /// Checks that the file is the one that was described. Built-in bytes were hashed when mimir was built and cannot
    /// change.
    fn check_digest(&self) -> Result<(), WasmHostError> {
        match &self.bytes {
            ComponentBytes::File(_) if self.bytes.digest(&self.location)? != self.digest => {
                Err(WasmHostError::Changed(self.location.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Reads the component and checks that it is the one that was described. A core module is converted: its digest
    /// stays that of the file, to which approvals apply.
    pub(crate) fn read_verified(&self) -> Result<Vec<u8>, WasmHostError> {
        let bytes = self.bytes.read(&self.location)?;
        if matches!(self.bytes, ComponentBytes::File(_))
            && Sha256Digest::of_bytes(&bytes) != self.digest
        {
            return Err(WasmHostError::Changed(self.location.clone()));
        }
        match adapt(&bytes) {
            Ok(Cow::Borrowed(_)) => Ok(bytes),
            Ok(Cow::Owned(component)) => Ok(component),
            Err(error) => Err(WasmHostError::Component(
                error.to_string(),
                ToolErrorCode::InvalidInput,
            )),
        }
    }

    fn link(&self, component: &Component) -> Result<InstancePre<StoreState>, WasmHostError> {
        self.host
            .running(self.mode)?
            .linker
            .instantiate_pre(component)
            .map_err(|error| {
                let message =
                    format!("it imports an interface that mimir does not provide: {error:#}");
                WasmHostError::Component(message, ToolErrorCode::InvalidInput)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::WasiGeneration;
    use crate::host::HostOptions;

    const PROGRAM: &str = r#"(module (memory (export "memory") 1) (func (export "_start")))"#;

    #[tokio::test]
    async fn plugin_in_a_core_module_has_the_digest_of_its_file() {
        let home = tempfile::tempdir().unwrap();
        let host = WasmHost::new(HostOptions::new(home.path()));
        for (name, content) in [
            ("program.wat", PROGRAM.as_bytes().to_vec()),
            ("program.wasm", wat::parse_str(PROGRAM).unwrap()),
        ] {
            let path = home.path().join(name);
            std::fs::write(&path, &content).unwrap();
            let plugin = Arc::new(WasmPlugin::new(
                Arc::clone(&host),
                ComponentBytes::File(path.clone()),
                name.to_owned(),
                Sha256Digest::of_bytes(&content),
                ComponentKind::Command(WasiGeneration::Preview2),
                EngineMode::Sequential,
            ));
            let component = plugin.read_verified().unwrap();
            assert_ne!(component, content, "{name} is converted");
            let loaded = plugin.load(CompileLimits::default()).await.unwrap();
            assert!(matches!(**loaded, PreparedComponent::Command(_)));
            std::fs::write(&path, "(module)").unwrap();
            let changed = plugin.read_verified().unwrap_err();
            assert!(matches!(changed, WasmHostError::Changed(_)), "{changed}");
        }
    }
}
