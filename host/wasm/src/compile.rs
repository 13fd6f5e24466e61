//! Compilation of components to machine code, through the cache.
//!
//! Compilation is limited in size before it begins ([`bounds`]) and in time and memory while it runs ([`Compiler`]),
//! and passes through a queue ([`queue`]) that compiles each component once.

use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use mimir_core::{Code, Limits};

use crate::cache::Cache;
use crate::digest::Hash;
use crate::error::HostError;

mod bounds;
mod child;
mod compiler;
mod images;
mod load;
mod queue;
mod serve;

pub use child::ChildCompiler;
pub use compiler::{CompileError, CompileJob, Compiler, InProcess};
pub(crate) use queue::{CompileQueue, Lane, Request, blocking};
pub use serve::run_if_child;

/// An event during the compilation of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileEvent {
    /// Compilation has started.
    Started {
        /// The component.
        name: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The compilation has ended: done, refused, stopped at a limit or cancelled.
    Finished {
        /// The component.
        name: String,
        /// Elapsed time.
        took: Duration,
    },
}

/// Limits for compiling one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Wall-clock time, from the start of the compiler.
    pub time: Duration,
    /// Bytes of memory of the compiler.
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

/// Returns the cache key of a component's code: its digest, and a hash of the compiler's version and settings.
fn key(engine: &Engine, digest: &Hash) -> String {
    struct Hasher(Sha256);
    impl std::hash::Hasher for Hasher {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Hasher(Sha256::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
    let settings: [u8; 32] = hasher.0.finalize().into();
    format!("{digest}-{}", &Hash(settings).to_string()[..16])
}

/// Returns the compiled component from the cache if it has a trustworthy entry.
pub(crate) fn cached(engine: &Engine, cache: &Cache, digest: &Hash) -> Option<Component> {
    let key = key(engine, digest);
    let counts = cache.counts();
    let mapped = || {
        let file = cache.unchanged(&key)?;
        let component = load::mapped(engine, &file)?;
        counts.mapped(file.metadata().map_or(0, |meta| meta.len()));
        Some(component)
    };
    let read = || {
        let code = cache.code(&key)?;
        let component = load::copied(engine, &code)?;
        counts.read(code.len() as u64);
        Some(component)
    };
    let found = mapped().or_else(read);
    if found.is_none() {
        counts.missed();
    }
    found.map(images::imaged)
}

/// Loads freshly compiled code and stores it in the cache.
fn fresh(
    engine: &Engine,
    cache: &Cache,
    digest: &Hash,
    name: &str,
    code: &[u8],
) -> Result<Component, HostError> {
    let component = load::fresh(engine, code).map_err(|error| unloadable(name, &error))?;
    cache.keep_code(&key(engine, digest), code);
    Ok(images::imaged(component))
}

/// Text of the pool's error for a component with more memories, tables or instances than a call may have. wasmtime
/// exports no type for it.
const TOO_LARGE_FOR_POOL: &str = "pooling allocator";

fn unloadable(name: &str, error: &wasmtime::Error) -> HostError {
    let reason = format!("{error:#}");
    if reason.contains(TOO_LARGE_FOR_POOL) {
        let message = format!(
            "{name} has more memories, tables or instances than allowed for a tool: {reason}"
        );
        return HostError::Component(message, Code::LimitExceeded);
    }
    HostError::Engine(format!(
        "the compiled code of {name} cannot be loaded: {reason}"
    ))
}
