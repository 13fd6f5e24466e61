//! Conversion of core modules to components, in this process.
//!
//! Languages without component tools of their own (C, C++, Go, Zig) are compiled to a core module for WASI 0.1.
//! [`componentize`] adds the types of the contract and the adapter to WASI 0.2. [`adapt`] converts the files that a person
//! adds as tools: programs and libraries that were not written for mimir.
//!
//! Out of scope: compiling the sources, and installing the component.

use std::panic::{AssertUnwindSafe, catch_unwind};

use wasi_preview1_component_adapter_provider as adapters;
use wasmparser::{Validator, WasmFeatures};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

mod adapt;
mod error;
pub(crate) mod manifest_section;
mod module_outline;
mod number_functions;
mod seal;
mod wasm_text;

pub use adapt::adapt;
pub(crate) use adapt::{ADAPT_VERSION, adapt_exports};
pub use error::ComponentizeError;
use module_outline::ModuleOutline;
pub use seal::seal;

/// The adapter from WASI 0.1 to WASI 0.2 for modules that are initialized once and then called.
pub const REACTOR_ADAPTER: &[u8] = adapters::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;

/// The adapter from WASI 0.1 to WASI 0.2 for programs.
const COMMAND_ADAPTER: &[u8] = adapters::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER;

/// Module name of the imports of WASI 0.1.
pub(crate) const WASI_01: &str = "wasi_snapshot_preview1";

/// File names and texts of the WIT that the SDKs are generated from, dependencies first: the contract, and the used part
/// of WASI.
const SDK_WIT: [(&str, &str); 4] = [
    ("tool.wit", include_str!("../../../wit/tool.wit")),
    ("io.wit", include_str!("../../../sdk/wit/io.wit")),
    ("http.wit", include_str!("../../../sdk/wit/http.wit")),
    (
        "bindings.wit",
        include_str!("../../../sdk/wit/bindings.wit"),
    ),
];

/// The world of the SDKs in the last of these files. A component imports only those of its interfaces that the module
/// calls.
const SDK_WORLD: &str = "bindings";

/// Converts a core module that was built with one of the SDKs to a component of the contract.
///
/// The module exports `mimir:tool/toolset` by its name in the canonical ABI (`mimir:tool/toolset@1.0.0#call`), and may
/// import WASI 0.1. Without a section of component types, it gets the world of the SDKs. The result is validated and
/// deterministic.
///
/// # Errors
///
/// A file that is not a core module, or is damaged; a module without the exports of the contract, or with those of
/// another version; imports that are neither WASI nor the contract.
///
/// # Example
///
/// ```
/// use mimir_wasm::componentize::{ComponentizeError, componentize};
///
/// let empty_module = b"\0asm\x01\0\0\0";
/// let error = componentize(empty_module).unwrap_err();
/// assert_eq!(error, ComponentizeError::NoToolset);
/// ```
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, ComponentizeError> {
    let outline = ModuleOutline::read(module)?;
    outline.check_toolset()?;
    outline.check_imports()?;
    let encoded = if outline.has_world {
        encode_component(module, REACTOR_ADAPTER)
    } else {
        with_sdk_world(module).and_then(|module| encode_component(&module, REACTOR_ADAPTER))
    };
    encoded.map_err(|error| encode_error(module, &error))
}

/// Returns the module with the types of the SDKs' world.
fn with_sdk_world(module: &[u8]) -> Result<Vec<u8>, String> {
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for (name, text) in SDK_WIT {
        packages.push(resolve.push_str(name, text).map_err(reason)?);
    }
    let world = resolve
        .select_world(&packages[SDK_WIT.len() - 1..], Some(SDK_WORLD))
        .map_err(reason)?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).map_err(reason)?;
    Ok(module)
}

/// Returns the component of a module with component types. Imports of its world that the module does not have are left
/// out.
fn encode_component(module: &[u8], adapter: &[u8]) -> Result<Vec<u8>, String> {
    let encode = || {
        let mut encoder = ComponentEncoder::default();
        encoder.validate(true);
        encoder.module(module).map_err(reason)?;
        encoder.adapter(WASI_01, adapter).map_err(reason)?;
        encoder.encode().map_err(reason)
    };
    // The encoder panics for some damaged sections of component types.
    catch_unwind(AssertUnwindSafe(encode))
        .unwrap_or_else(|_| Err("its component types are damaged".to_owned()))
}

/// Returns an error with its causes, as text.
fn reason(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

/// Returns the error for a module that was not encoded. A damaged module is named as such: the encoder reports it as a
/// fault of its own result.
fn encode_error(module: &[u8], error: &str) -> ComponentizeError {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    match validator.validate_all(module) {
        Err(damage) => ComponentizeError::from(damage),
        Ok(_) => ComponentizeError::encode(error),
    }
}

#[cfg(test)]
mod tests;
