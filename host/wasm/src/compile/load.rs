//! Machine code from the cache, made to be run.
//!
//! That it may be run is what makes this sound: deserializing is for what `Component::serialize` wrote. The cache gives
//! only entries that lie outside of the workspace, in a folder and a file which nobody but this user can write, and whose
//! content has the hash that it had when `compile` put it there under this key; wasmtime itself refuses code of another
//! version or of other settings. A program that runs as this user could write there, but it could as well change mimir
//! itself.
//!
//! Never here: what is kept, and whether it is what was kept.

use std::path::Path;

use wasmtime::Engine;
use wasmtime::component::Component;

/// Code as it lies in its file, of which nothing is read that does not run.
#[expect(
    unsafe_code,
    reason = "running cached machine code is what a code cache is for"
)]
pub(super) fn mapped(engine: &Engine, file: &Path) -> Option<Component> {
    // SAFETY: see above. `Cache::unchanged` gives a file of which the system says that nobody has changed it since its
    // content had its hash. Entries are replaced as a whole and never written to, so what is mapped stays what it was.
    let mapped = unsafe { Component::deserialize_file(engine, file) };
    mapped
        // Where no program may be run from, none can be mapped to be run either.
        .inspect_err(|error| tracing::debug!(%error, "cached code is not mapped"))
        .ok()
}

/// Code that this host's compiler made a moment ago.
#[expect(
    unsafe_code,
    reason = "running machine code that was compiled elsewhere is what a compiler process is for"
)]
pub(super) fn fresh(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: a `Compiler` returns what `Engine::precompile_component` wrote. It is in this process, or a process that
    // this host started from its own file and that answers over a pipe that no other process has.
    unsafe { Component::deserialize(engine, code) }
}

/// Code that was read and compared with its hash.
#[expect(
    unsafe_code,
    reason = "running cached machine code is what a code cache is for"
)]
pub(super) fn copied(engine: &Engine, code: &[u8]) -> Option<Component> {
    // SAFETY: see above. These are the very bytes that `Cache::code` compared.
    let copied = unsafe { Component::deserialize(engine, code) };
    copied
        .inspect_err(|error| tracing::warn!(%error, "cached code is not used"))
        .ok()
}
