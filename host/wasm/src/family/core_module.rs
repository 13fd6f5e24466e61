//! Analysis of core modules by their imports, exports and custom sections, for instructions to make them components.

use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

/// The module that WASI 0.1 programs import.
const WASI_01: &str = "wasi_snapshot_preview1";

/// The prefix of the section in which `wasm-tools component embed` and `wit-bindgen` put a world.
const WORLD: &str = "component-type";

/// The entry function of a WASI 0.1 program.
const START: &str = "_start";

/// The properties of a core module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CoreModule {
    /// True if the module is a program: it exports `_start`.
    pub is_program: bool,
    /// True if the module contains a WIT world with the types of its functions.
    pub has_world: bool,
    /// True if the module imports WASI 0.1, which an adapter maps to WASI 0.2.
    pub uses_wasi_01: bool,
}

impl CoreModule {
    /// Reads a module up to the first damaged part, if any.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut module = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            let Ok(payload) = payload else { break };
            match payload {
                Payload::ImportSection(section) => {
                    let mut imports = section.into_imports().flatten();
                    module.uses_wasi_01 = imports.any(|import| import.module == WASI_01);
                }
                Payload::ExportSection(section) => {
                    let mut exports = section.into_iter().flatten();
                    module.is_program = exports.any(|export| export.name == START);
                }
                Payload::CustomSection(section) => {
                    module.has_world |= section.name().starts_with(WORLD);
                }
                _ => {}
            }
        }
        module
    }

    /// Returns instructions for turning the module into a component.
    pub(super) fn remedy(&self) -> String {
        let adapter = |kind: &str| {
            if self.uses_wasi_01 {
                format!(" --adapt wasi_snapshot_preview1.{kind}.wasm")
            } else {
                String::new()
            }
        };
        let new = |file: &str, kind: &str| {
            format!(
                "`wasm-tools component new {file}{} -o TOOL.wasm`",
                adapter(kind)
            )
        };
        match (self.is_program, self.has_world) {
            (true, _) => format!(
                "it is a program; build it for `wasm32-wasip2`, or make a component of it with {} (the adapter comes with wasmtime's releases)",
                new("MODULE.wasm", "command")
            ),
            (false, true) => format!(
                "build it for `wasm32-wasip2`, or make a component of it with {}",
                new("MODULE.wasm", "reactor")
            ),
            (false, false) => format!(
                "it has no WIT, which defines the types of its exports; build it for `wasm32-wasip2` with WIT bindings, or write a `tool.wit`, then run `wasm-tools component embed tool.wit MODULE.wasm -o EMBEDDED.wasm` and {}",
                new("EMBEDDED.wasm", "reactor")
            ),
        }
    }
}
