//! Errors for modules that cannot be converted to components.

use mimir_core::text;

use crate::family::{self, CONTRACT};

/// Reason why a module cannot be converted to a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComponentizeError {
    /// The file is not a core module.
    #[error("this is not a core module: {0}; expected a WebAssembly module for `wasm32-wasip1`")]
    NotModule(String),
    /// The file violates the format, or ends too early.
    #[error(
        "the module is damaged or truncated at byte {offset}: {reason}; copy or build it again"
    )]
    Corrupt {
        /// The position in the file.
        offset: u64,
        /// The fault at that position.
        reason: String,
    },
    /// The module does not export the contract.
    #[error(
        "the module exports no tools: expected the export `{}`, which the export line of the SDK adds",
        super::module_outline::call_export()
    )]
    NoToolset,
    /// The module was built for another version of the contract.
    #[error(
        "the module was built for `{found}`, but this version of mimir offers {CONTRACT}: build it with the SDK of this version"
    )]
    ContractVersion {
        /// The interface that the module imports or exports.
        found: String,
    },
    /// The module has imports that are neither WASI 0.1 nor the contract.
    #[error(
        "the module imports {}, which mimir does not provide: expected imports of WASI 0.1 (`wasi_snapshot_preview1`) and `mimir:tool` only{}",
        family::list_names(names),
        hint(names)
    )]
    Imports {
        /// The imports, as `module.name`.
        names: Vec<String>,
    },
    /// The module has more imports or exports than can be converted.
    #[error(
        "the module has more than {limit} {what}: export only the functions that are called (link it without `--export-all`)"
    )]
    TooManyItems {
        /// The kind of items.
        what: String,
        /// The largest number that is converted.
        limit: usize,
    },
    /// The module has no component types, and no functions that can be called without them.
    #[error(
        "the module has no WIT, which defines the types of its exports, and {}: build it as a program for `wasm32-wasip1`, with WIT bindings, or with an SDK (`mimir tools new`)",
        missing_types(allocator.as_deref())
    )]
    NoTypes {
        /// The exported function with which its callers reserve memory.
        allocator: Option<String>,
    },
    /// WebAssembly text is not valid.
    #[error("line {line}, column {column}: {reason}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The fault there.
        reason: String,
    },
    /// WebAssembly text is too large to be parsed.
    #[error(
        "the text has {}, which is too large to be parsed: convert it to binary with `wasm-tools parse FILE -o TOOL.wasm`",
        text::bytes(*size)
    )]
    TextTooLarge {
        /// The size in bytes.
        size: u64,
    },
    /// The module does not match its component types.
    #[error("the module cannot be converted to a component: {0}")]
    Encode(String),
}

impl ComponentizeError {
    /// Returns the stable error code.
    pub const fn code(&self) -> &'static str {
        match self {
            ComponentizeError::NotModule(_) => "NOT_MODULE",
            ComponentizeError::Corrupt { .. } => "CORRUPT",
            ComponentizeError::NoToolset => "NO_TOOLSET",
            ComponentizeError::ContractVersion { .. } => "CONTRACT_UNKNOWN",
            ComponentizeError::Imports { .. } => "IMPORT_NOT_PROVIDED",
            ComponentizeError::TooManyItems { .. } => "TOO_MANY_ITEMS",
            ComponentizeError::NoTypes { .. } => "NO_TYPES",
            ComponentizeError::Text { .. } => "INVALID_TEXT",
            ComponentizeError::TextTooLarge { .. } => "FILE_TOO_LARGE",
            ComponentizeError::Encode(_) => "NOT_CONVERTIBLE",
        }
    }

    /// Returns the error of the encoder, as one line of limited length.
    pub(super) fn encode(reason: &str) -> Self {
        ComponentizeError::Encode(family::shown(reason))
    }
}

impl From<wasmparser::Error> for ComponentizeError {
    fn from(error: wasmparser::Error) -> Self {
        ComponentizeError::Corrupt {
            offset: error.offset() as u64,
            reason: family::shown(error.message()),
        }
    }
}

fn missing_types(allocator: Option<&str>) -> String {
    match allocator {
        Some(name) => format!("passes its data through memory (it exports `{name}`)"),
        None => "exports no function over numbers".to_owned(),
    }
}

/// Returns a hint about the tools that generate such imports, as the end of the message.
fn hint(names: &[String]) -> &'static str {
    /// Imports by prefix, with the hints.
    const HINTS: [(&str, &str); 9] = [
        (
            "wbg.",
            "; wasm-bindgen modules need a JavaScript host: build for `wasm32-wasip1` or `wasm32-wasip2` without wasm-bindgen",
        ),
        (
            "__wbindgen",
            "; wasm-bindgen modules need a JavaScript host: build for `wasm32-wasip1` or `wasm32-wasip2` without wasm-bindgen",
        ),
        (
            "env.emscripten_",
            "; Emscripten's runtime needs a JavaScript host: link with `-sSTANDALONE_WASM`, or build with wasi-sdk",
        ),
        (
            "a.a",
            "; these short names are those of Emscripten, whose runtime needs a JavaScript host: link with `-sSTANDALONE_WASM`, or build with wasi-sdk",
        ),
        (
            "env.__syscall",
            "; Emscripten's runtime needs a JavaScript host: link with `-sSTANDALONE_WASM`, or build with wasi-sdk",
        ),
        (
            "env.abort",
            "; AssemblyScript calls its host to abort: compile with `--use abort=`, or with the WASI shim (`@assemblyscript/wasi-shim`)",
        ),
        (
            "gojs.",
            "; this is Go for browsers: build with `GOOS=wasip1 GOARCH=wasm`",
        ),
        (
            "wasi_unstable.",
            "; this is a WASI version before 0.1: build it with a current compiler",
        ),
        (
            "env.memory",
            "; the module expects the memory of a host: link it without `--import-memory`",
        ),
    ];
    names
        .iter()
        .find_map(|name| {
            let mut hints = HINTS.iter();
            hints.find_map(|(prefix, hint)| name.starts_with(prefix).then_some(*hint))
        })
        .unwrap_or_default()
}
