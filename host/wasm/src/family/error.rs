//! Errors for files that are not tools, with a code for programs and a message for the user who installed the file.

use mimir_core::text;
use serde::{Deserialize, Serialize};

use super::{CONTRACT, MAX_FILE_BYTES};
use crate::lift::SkippedExport;

/// Maximum number of names in one message.
const MAX_NAMES: usize = 5;

/// Maximum length of a name or reason from a file in a message, in characters.
const MAX_NAME_CHARS: usize = 120;

/// Reason why a file cannot be used as a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FamilyError {
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error(
        "the file has {} and mimir loads at most {}: build it with optimisation and without debug information (`wasm-tools strip`)",
        text::bytes(*size),
        text::bytes(MAX_FILE_BYTES)
    )]
    TooLarge {
        /// The file's size in bytes.
        size: u64,
    },
    /// The file is not WebAssembly.
    #[error("this is not a WebAssembly file: it does not begin with `\\0asm`{hint}")]
    NotWasm {
        /// A hint about the detected format as the end of the message, or an empty text.
        hint: String,
    },
    /// The file is a core module, not a component. [`adapt`](crate::componentize::adapt) converts it.
    #[error("this is a core module, not a component: it has no WIT types")]
    CoreModule,
    /// The component encoding is not known.
    #[error(
        "this is WebAssembly in an encoding that mimir does not know (version {version}, layer {layer}): build it with current tools"
    )]
    Encoding {
        /// The version field of the header.
        version: u16,
        /// The layer field of the header.
        layer: u16,
    },
    /// The file violates the format, or ends too early.
    #[error("the file is damaged or truncated at byte {offset}: {reason}; copy or build it again")]
    Corrupt {
        /// The position in the file.
        offset: u64,
        /// The fault at that position.
        reason: String,
    },
    /// The component was built for a later minor version of the contract.
    #[error(
        "it was built for `{found}`, but this version of mimir offers {CONTRACT}: update mimir, or build the plugin for {}.{}",
        CONTRACT.major,
        CONTRACT.minor
    )]
    ContractNewer {
        /// The interface that it imports or exports.
        found: String,
    },
    /// The component was built for another major version of the contract, or for an unknown version.
    #[error(
        "it was built for `{found}`, which this version of mimir does not support; it offers {CONTRACT}: build the plugin for {}.{}",
        CONTRACT.major,
        CONTRACT.minor
    )]
    ContractUnknown {
        /// The interface that it imports or exports.
        found: String,
    },
    /// The component uses a WASI version that this host does not provide.
    #[error(
        "`{found}` is not provided: expected an interface of WASI 0.2, or of the final 0.3; build it with current tools, or for `wasm32-wasip2`"
    )]
    Wasi {
        /// The interface.
        found: String,
    },
    /// The component uses parts of the component model's `async` that this host does not support.
    #[error(
        "it uses {found}, which mimir does not support: expected async functions with a callback, and streams and futures; build it with callbacks (the default of wit-bindgen), or without async"
    )]
    AsyncFeatures {
        /// The features it uses, as a list.
        found: String,
    },
    /// The component has imports that this host does not provide.
    #[error(
        "it imports {}, which mimir does not provide: tools get WASI 0.2 and 0.3 (cli, clocks, filesystem, http, io, random, sockets), `wasi:config`, `wasi:keyvalue`, `wasi:logging` and `mimir:tool` {CONTRACT}; compose the component with one that provides it (`wac plug`), or build it without",
        list_names(missing)
    )]
    Imports {
        /// The imports, as written.
        missing: Vec<String>,
    },
    /// The component has no callable export.
    #[error(
        "there is nothing to call: it exports no `mimir:tool/toolset`, no function with plain types, no `wasi:http/incoming-handler`, no `wasi:http/handler` and no `wasi:cli/run`{}",
        skipped_reasons(skipped)
    )]
    NothingToCall {
        /// Skipped functions, each with the reason.
        skipped: Vec<String>,
    },
}

impl FamilyError {
    /// Returns the stable error code.
    pub const fn code(&self) -> &'static str {
        match self {
            FamilyError::TooLarge { .. } => "FILE_TOO_LARGE",
            FamilyError::NotWasm { .. } => "NOT_WASM",
            FamilyError::CoreModule => "CORE_MODULE",
            FamilyError::Encoding { .. } => "UNKNOWN_ENCODING",
            FamilyError::Corrupt { .. } => "CORRUPT",
            FamilyError::ContractNewer { .. } => "CONTRACT_NEWER",
            FamilyError::ContractUnknown { .. } => "CONTRACT_UNKNOWN",
            FamilyError::Wasi { .. } => "WASI_VERSION",
            FamilyError::AsyncFeatures { .. } => "ASYNC_NOT_PROVIDED",
            FamilyError::Imports { .. } => "IMPORT_NOT_PROVIDED",
            FamilyError::NothingToCall { .. } => "NOTHING_TO_CALL",
        }
    }

    pub(super) fn corrupt(offset: usize, reason: impl std::fmt::Display) -> Self {
        FamilyError::Corrupt {
            offset: offset as u64,
            reason: shown(&reason.to_string()),
        }
    }

    pub(super) fn nothing_to_call(skipped: &[SkippedExport]) -> Self {
        FamilyError::NothingToCall {
            skipped: skipped
                .iter()
                .map(|export| format!("`{}` {}", export.export, export.reason))
                .collect(),
        }
    }
}

impl From<wasmparser::Error> for FamilyError {
    fn from(error: wasmparser::Error) -> Self {
        Self::corrupt(error.offset(), error.message())
    }
}

/// Returns a text from a file as one line of limited length.
pub(crate) fn shown(text: &str) -> String {
    let visible = text::visible(text);
    let cut = text::prefix(&visible, MAX_NAME_CHARS);
    if cut.len() < visible.len() {
        format!("{cut}…")
    } else {
        visible
    }
}

/// Returns the first names of a list, quoted, and the number of the others.
pub(crate) fn list_names(names: &[String]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    match more {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}

fn skipped_reasons(skipped: &[String]) -> String {
    match skipped {
        [] => String::new(),
        skipped => format!(
            " ({})",
            skipped
                .iter()
                .take(MAX_NAMES)
                .cloned()
                .collect::<Vec<_>>()
                .join("; ")
        ),
    }
}
