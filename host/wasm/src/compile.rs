//! Compilation of components to machine code, through the cache.
//!
//! The size of the code is limited before compilation ([`code_size`]), time and memory during compilation
//! ([`ComponentCompiler`]). A queue ([`queue`]) ensures that each component is compiled once.

use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use mimir_core::{Limits, ToolErrorCode};

use crate::cache::ComponentCache;
use crate::componentize::ADAPT_VERSION;
use crate::digest::Sha256Digest;
use crate::error::WasmHostError;

mod child;
mod child_main;
mod code_size;
mod compiler;
mod load;
mod memory_images;
mod queue;

pub use child::ChildCompiler;
pub use child_main::run_if_child;
pub use compiler::{CompileError, CompileJob, ComponentCompiler, InProcessCompiler};
pub(crate) use queue::{CompileLane, CompileQueue, CompileRequest, run_blocking};

/// An event during the compilation of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileEvent {
    /// Compilation has started.
    Started {
        /// Display name of the component.
        name: String,
        /// Size of the component in bytes.
        bytes: u64,
    },
    /// The compilation has ended: it succeeded, failed, was stopped at a limit or cancelled.
    Finished {
        /// Display name of the component.
        name: String,
        /// Elapsed time.
        took: Duration,
    },
}

/// Limits for compiling one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Maximum wall-clock time from the start of the compiler.
    pub time: Duration,
    /// Maximum memory of the compiler in bytes.
    pub memory: u64,
}

impl From<&Limits> for CompileLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            time: limits.compile_time,
            memory: limits.compile_memory,
        }
    }
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

/// Returns the cache key of a component's code: its digest, and a hash of the compiler's version and settings, and of the
/// version of the conversion of core modules.
fn key(engine: &Engine, digest: &Sha256Digest) -> String {
    struct CodeHasher(Sha256);
    impl std::hash::Hasher for CodeHasher {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = CodeHasher(Sha256::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
    std::hash::Hash::hash(&ADAPT_VERSION, &mut hasher);
    let settings: [u8; 32] = hasher.0.finalize().into();
    format!("{digest}-{}", &Sha256Digest(settings).to_string()[..16])
}

/// Returns the compiled component from the cache, if a trustworthy entry exists.
pub(crate) fn cached_component(
    engine: &Engine,
    cache: &ComponentCache,
    digest: &Sha256Digest,
) -> Option<Component> {
    let key = key(engine, digest);
    let counts = cache.counts();
    let map = || {
        let file = cache.verified_file(&key)?;
        let component = load::map_code(engine, &file)?;
        counts.count_mapped(file.metadata().map_or(0, |meta| meta.len()));
        Some(component)
    };
    let copy = || {
        let code = cache.read_code(&key)?;
        let component = load::load_copied(engine, &code)?;
        counts.count_read(code.len() as u64);
        Some(component)
    };
    let component = map().or_else(copy);
    if component.is_none() {
        counts.count_missed();
    }
    component.map(memory_images::prepare_images)
}

/// Stores the cached code of a component for another one that differs in custom sections only.
pub(crate) fn copy_cached(
    engine: &Engine,
    cache: &ComponentCache,
    from: &Sha256Digest,
    to: &Sha256Digest,
) {
    if let Some(code) = cache.read_code(&key(engine, from)) {
        cache.store_code(&key(engine, to), &code);
    }
}

/// Loads freshly compiled code and stores it in the cache.
fn load_and_store(
    engine: &Engine,
    cache: &ComponentCache,
    digest: &Sha256Digest,
    name: &str,
    code: &[u8],
) -> Result<Component, WasmHostError> {
    let component = load::load_fresh(engine, code).map_err(|error| load_error(name, &error))?;
    cache.store_code(&key(engine, digest), code);
    Ok(memory_images::prepare_images(component))
}

/// Part of the pool's error message for a component with more memories, tables or instances than a call may have.
/// wasmtime exports no type for this error.
const TOO_LARGE_FOR_POOL: &str = "pooling allocator";

fn load_error(name: &str, error: &wasmtime::Error) -> WasmHostError {
    let reason = format!("{error:#}");
    if reason.contains(TOO_LARGE_FOR_POOL) {
        let message =
            format!("it has more memories, tables or instances than allowed for a tool: {reason}");
        return WasmHostError::Component(message, ToolErrorCode::LimitExceeded);
    }
    WasmHostError::Engine(format!(
        "the compiled code of {name} cannot be loaded: {reason}"
    ))
}
