//! From a component's bytes to machine code, by way of the cache.
//!
//! Compiling is bounded in size before it begins ([`bounds`]), in time and memory while it lasts ([`Compiler`]), and
//! goes through a queue ([`queue`]) that compiles each component once.

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

/// What happens while a component is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompileEvent {
    /// It begins.
    Started {
        /// The component.
        name: String,
        /// Its size.
        bytes: u64,
    },
    /// The compilation has ended: done, refused, stopped at a limit or cancelled.
    Finished {
        /// The component.
        name: String,
        /// How long it took.
        took: Duration,
    },
}

/// The bounds of compiling one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Wall clock, from the moment at which the compiler starts.
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

/// The cache key of a component's code: its digest, and a hash of the compiler's version and settings.
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

/// The compiled component, from the cache if a trustworthy entry is there.
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

/// Loads code that was compiled a moment ago, and stores it in the cache.
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

/// The pool's words for a component that has more memories, tables or instances than a call may have. wasmtime exports
/// no type for it.
const TOO_LARGE_FOR_POOL: &str = "pooling allocator";

fn unloadable(name: &str, error: &wasmtime::Error) -> HostError {
    let reason = format!("{error:#}");
    if reason.contains(TOO_LARGE_FOR_POOL) {
        let message =
            format!("{name} has more memories, tables or instances than a tool may have: {reason}");
        return HostError::Component(message, Code::LimitExceeded);
    }
    HostError::Engine(format!(
        "the compiled code of {name} cannot be loaded: {reason}"
    ))
}
