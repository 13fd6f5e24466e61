//! Links the JavaScript engine: its runtime, as shipped compiled by `componentize-qjs`, to the world of `engine.wit`.
//!
//! The build needs cargo alone: the pin manifest fetches the runtime, wit-dylib generates the glue, and wit-component
//! joins the two. The remaining step, creating the initial state of calls, needs a WebAssembly engine. Compiling one
//! for the build script would cost every build minutes, so `mimir-wasm` does this step at the first use and caches the
//! result.

use std::path::Path;

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wit_component::{Linker, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::pin;

/// The package that contains the runtime, and its path there. The variant without component-model async: nothing else
/// in mimir needs that, and enabling it in the engine would increase the attack surface for foreign components.
const PACKAGE: &str = "componentize-qjs";
const RUNTIME: &str = "prebuilt/runtime-sync.wasm";

const RUNTIME_SHA256: &str = "25703f010b80efb806f9c35daf9ee6524ad60320c9781b0bae4e234264f8dac5";

/// Size in bytes of the engine's stack in its memory. The wasm stack used at the same time is a multiple of this size,
/// and has to fit into the limit for guests.
const STACK: u32 = 4 << 20;

/// The parts for plugins in JavaScript, linked at run time, since their worlds are not known here.
pub struct JavascriptParts {
    pub runtime: Vec<u8>,
    /// A substitute for the module loader that the runtime imports.
    pub loader: Vec<u8>,
}

pub fn parts(here: &Path) -> Result<JavascriptParts> {
    Ok(JavascriptParts {
        runtime: runtime(here)?,
        loader: wat::parse_file(here.join("javascript/plugin/loader.wat"))?,
    })
}

fn runtime(here: &Path) -> Result<Vec<u8>> {
    let package = pin::package(&here.join("javascript/pin"), PACKAGE)?;
    limit_stack(package.file(RUNTIME, RUNTIME_SHA256)?)
}

/// The code that sets the runtime's stack limit. Compiled for WASI, it sets limit and size to 0, so that endless
/// recursion causes a trap, which a script cannot catch.
const UNLIMITED: [u8; 24] = [
    0x20, 0x00, 0x41, 0x00, 0x36, 0x02, 0xfc, 0x04, // runtime.stack_limit = 0
    0x20, 0x00, 0x20, 0x04, 0x36, 0x02, 0xf8, 0x04, // runtime.stack_top = (local 4)
    0x20, 0x00, 0x41, 0x00, 0x36, 0x02, 0xf4, 0x04, // runtime.stack_size = 0
];

/// The replacement, with a limit 256 KiB from the end of the stack, which is at address 0. The other two values are
/// never read.
const LIMITED: [u8; 24] = [
    0x20, 0x00, 0x41, 0x80, 0x80, 0x10, 0x36, 0x02, 0xfc,
    0x04, // runtime.stack_limit = 0x40000
    0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01,
];

/// Returns the runtime with a stack limit, so that an endless recursion throws a `RangeError`.
fn limit_stack(mut runtime: Vec<u8>) -> Result<Vec<u8>> {
    let mut windows = runtime.windows(UNLIMITED.len()).enumerate();
    let matches = |(at, bytes): (usize, &[u8])| (bytes == UNLIMITED).then_some(at);
    let at = windows
        .find_map(matches)
        .context("finding the stack limit")?;
    runtime[at..at + LIMITED.len()].copy_from_slice(&LIMITED);
    Ok(runtime)
}

/// Returns the linked engine.
pub fn link(root: &Path, here: &Path) -> Result<Vec<u8>> {
    let runtime = runtime(here)?;
    let mut resolve = Resolve::default();
    resolve.push_path(root.join("wit"))?;
    let (package, _) = resolve.push_path(here.join("javascript/engine.wit"))?;
    let world = resolve.select_world(&[package], Some("engine"))?;
    let mut glue = wit_dylib::create(&resolve, world, None);
    embed_component_metadata(&mut glue, &resolve, world, StringEncoding::UTF8)?;
    let mut linker = Linker::default();
    linker.stack_size(STACK);
    linker.encoder().validate(true);
    linker.library("runtime.wasm", &runtime, false)?;
    linker.library("glue.wasm", &glue, false)?;
    linker.encoder().adapter(
        "wasi_snapshot_preview1",
        WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
    )?;
    linker.encode().context("linking the JavaScript engine")
}
