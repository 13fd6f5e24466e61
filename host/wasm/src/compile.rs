//! From a component's bytes to machine code, by way of the cache.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use mimir_core::Code;

use crate::cache::Cache;
use crate::digest::Hash;
use crate::error::HostError;

mod bounds;
mod images;
mod load;
mod works;

pub(crate) use images::imaged;
pub(crate) use works::Works;

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
    /// It is done.
    Finished {
        /// The component.
        name: String,
        /// How long it took.
        took: Duration,
    },
}

/// The name of the code of a component in the cache: what it was made from, by which compiler and
/// with which settings.
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
    found.map(imaged)
}

/// Compiles the component and keeps its code.
pub(crate) fn compile(
    engine: &Engine,
    cache: &Cache,
    digest: &Hash,
    name: &str,
    bytes: &[u8],
    tell: &dyn Fn(CompileEvent),
) -> Result<Component, HostError> {
    if let Some(reason) = bounds::too_much(bytes) {
        return Err(HostError::Component(
            format!("{name} would take too long to compile: {reason}"),
            Code::LimitExceeded,
        ));
    }
    let start = Instant::now();
    tell(CompileEvent::Started {
        name: name.to_owned(),
        bytes: bytes.len() as u64,
    });
    let compiled = Component::new(engine, bytes);
    let took = start.elapsed();
    cache.counts().compiled(took);
    tell(CompileEvent::Finished {
        name: name.to_owned(),
        took,
    });
    let component = compiled.map_err(|error| uncompiled(name, &error))?;
    match component.serialize() {
        Ok(code) => cache.keep_code(&key(engine, digest), &code),
        Err(error) => tracing::warn!(%error, name, "compiled code cannot be kept"),
    }
    Ok(imaged(component))
}

/// What the pool says of a component that wants more memories, tables or instances than a call may
/// have. wasmtime exports no type for it.
const TOO_LARGE_FOR_POOL: &str = "pooling allocator";

fn uncompiled(name: &str, error: &wasmtime::Error) -> HostError {
    let reason = format!("{error:#}");
    if reason.contains(TOO_LARGE_FOR_POOL) {
        let message =
            format!("{name} has more memories, tables or instances than a tool may have: {reason}");
        return HostError::Component(message, Code::LimitExceeded);
    }
    HostError::Component(
        format!("{name} cannot be compiled: {reason}"),
        Code::InvalidInput,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_and_compiled_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().join("cache")));
        let engine = Engine::default();
        let bytes = wat::parse_str("(component)").unwrap();
        let digest = Hash::of(&bytes);
        assert!(cached(&engine, &cache, &digest).is_none());
        compile(&engine, &cache, &digest, "it", &bytes, &|_| {}).unwrap();
        // Too new to be mapped, it is read.
        assert!(cached(&engine, &cache, &digest).is_some());
        let counts = cache.counts().now();
        let found = (counts.missed, counts.compiled, counts.read + counts.mapped);
        assert_eq!(found, (1, 1, 1), "{counts:?}");
        assert!(
            counts.bytes > 0 && !counts.compiling.is_zero(),
            "{counts:?}"
        );
        // Bytes that are none were compiled, too, as far as that went.
        assert!(compile(&engine, &cache, &digest, "no", b"no", &|_| {}).is_err());
        assert_eq!(cache.counts().now().compiled, 2);
    }
}
