//! Builds a component from CPython as shipped by `bashkit-cpython-wasm`: a snapshot of the interpreter with its library
//! loaded, in which every call starts.
//!
//! The build needs cargo alone: the pin manifest fetches the package, wasmtime's adapter provides WASI, and
//! `bridge.wat` the connection to the host. The snapshot is a module of 18 MB, compressed to 5 MB. The code that
//! wit-component adds around the module is small, so the parts are stored separately, and the module stays compressed
//! until it is compiled to machine code.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result};
use lzma_rust2::XzReader;
use sha2::{Digest, Sha256};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::pin;

const PACKAGE: &str = "bashkit-cpython-wasm";

const SNAPSHOT: &str = "artifacts/python.wasm.xz";
const SNAPSHOT_SHA256: &str = "93b66c1e1357a3b77481fee8e14448b55ca83a0dec4b05ec0284b33b58099b75";

const LIBRARY: &str = "artifacts/python314.zip";
const LIBRARY_SHA256: &str = "a2fbfc15b11fe851fffe3a84369f4d8c73992904ea23bbc045d89373737e15ea";

/// The licences that must be distributed with the executable.
const LICENCES: &str = "THIRD_PARTY_LICENSES.md";
const LICENCES_SHA256: &str = "04eab1b3e3c908fbc21cc182921ca469741e08f7d83de024596efd878ce1d0fb";

/// The component of the engine in parts, and its other files.
pub struct LinkedPython {
    pub before: Vec<u8>,
    /// The module between `before` and `after`, compressed.
    pub module: Vec<u8>,
    pub after: Vec<u8>,
    /// sha256 of the whole component, uncompressed.
    pub sha256: [u8; 32],
    pub library: Vec<u8>,
    pub licences: Vec<u8>,
}

pub fn link(here: &Path) -> Result<LinkedPython> {
    let package = pin::package(&here.join("python/pin"), PACKAGE)?;
    let packed = package.file(SNAPSHOT, SNAPSHOT_SHA256)?;
    let mut module = Vec::new();
    XzReader::new(packed.as_slice(), false)
        .read_to_end(&mut module)
        .context("decompressing CPython")?;

    let mut resolve = Resolve::default();
    let (code, _) = resolve.push_path(here.join("code/engine.wit"))?;
    let world = resolve.select_world(&[code], Some("engine"))?;
    let mut bridge = wat::parse_file(here.join("python/bridge.wat"))?;
    embed_component_metadata(&mut bridge, &resolve, world, StringEncoding::UTF8)?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .adapter(
            "wasi_snapshot_preview1",
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .adapter("bashkit", &bridge)?
        .encode()
        .context("building the component of CPython")?;
    let at = component
        .windows(module.len())
        .position(|window| window == module)
        .context("the component of CPython does not contain its module unchanged")?;
    Ok(LinkedPython {
        before: component[..at].to_vec(),
        after: component[at + module.len()..].to_vec(),
        sha256: Sha256::digest(&component).into(),
        module: packed,
        library: package.file(LIBRARY, LIBRARY_SHA256)?,
        licences: package.file(LICENCES, LICENCES_SHA256)?,
    })
}
