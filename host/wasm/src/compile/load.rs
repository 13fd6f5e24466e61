//! Loading of machine code from the cache.
//!
//! Deserializing is sound only for output of `Component::serialize`, since the code will run. The cache is outside of
//! the workspace. It returns only entries in a folder and a file that only this user can write to, and whose content
//! has the hash recorded when `compile` stored it under this key. wasmtime itself refuses code of another version or
//! with other settings. A program that runs as this user could forge an entry, but it could just as well change mimir
//! itself.
//!
//! Out of scope: storing entries and verifying them.

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps code from its file; pages that never run are not read.
#[expect(
    unsafe_code,
    reason = "running cached machine code is what a code cache is for"
)]
pub(super) fn map_code(engine: &Engine, file: &Path) -> Option<Component> {
    // SAFETY: see above. `ComponentCache::verified_file` returns a file that, by its metadata, has not changed since
    // its content was verified. Entries are replaced as a whole and never written to, so the mapped content stays the
    // same.
    let mapped = unsafe { Component::deserialize_file(engine, file) };
    mapped
        // A file system mounted without execute permission also forbids mapping code.
        .inspect_err(|error| tracing::debug!(%error, "cached code is not mapped"))
        .ok()
}

/// Loads code that this host's compiler has just produced.
#[expect(
    unsafe_code,
    reason = "running machine code that was compiled elsewhere is what a compiler process is for"
)]
pub(super) fn load_fresh(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: a `ComponentCompiler` returns the output of `Engine::precompile_component`. It runs in this process, or
    // in a process that this host started from its own executable and that replies over a pipe that no other process
    // has.
    unsafe { Component::deserialize(engine, code) }
}

/// Loads code that was read and verified against its hash.
#[expect(
    unsafe_code,
    reason = "running cached machine code is what a code cache is for"
)]
pub(super) fn load_copied(engine: &Engine, code: &[u8]) -> Option<Component> {
    // SAFETY: see above. These are the very bytes that `ComponentCache::read_code` verified.
    let copied = unsafe { Component::deserialize(engine, code) };
    copied
        .inspect_err(|error| tracing::warn!(%error, "ignoring cached code"))
        .ok()
}
