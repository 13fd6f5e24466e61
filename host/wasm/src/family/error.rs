//! Why a file is no tool, in a code for programs and a sentence for the person who put it there.

use mimir_core::text;
use serde::{Deserialize, Serialize};

use super::core_module::CoreModule;
use super::{CONTRACT, FILE_MOST};
use crate::lift::Skipped;

/// More names than this in one message help nobody.
const NAMED: usize = 5;

/// The longest name or reason out of a file that a message repeats, in characters.
const SHOWN: usize = 120;

/// A file that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FamilyError {
    /// More bytes than [`FILE_MOST`].
    #[error(
        "the file has {} and mimir loads at most {}: build it with optimisation and without debug information (`wasm-tools strip`)",
        text::bytes(*size),
        text::bytes(FILE_MOST)
    )]
    TooLarge {
        /// The file's size in bytes.
        size: u64,
    },
    /// Not WebAssembly at all.
    #[error("this is no WebAssembly file: it does not begin with `\\0asm`{hint}")]
    NotWasm {
        /// What it looks like instead, as the rest of the sentence.
        hint: String,
    },
    /// A core module.
    #[error("this is a core module, and mimir runs components: {}", .0.remedy())]
    CoreModule(CoreModule),
    /// A component encoding that is not known.
    #[error(
        "this is WebAssembly in an encoding that mimir does not know (version {version}, layer {layer}): build it with current tools"
    )]
    Encoding {
        /// The version field of the header.
        version: u16,
        /// The layer field of the header.
        layer: u16,
    },
    /// Bytes that break the format, or end too early.
    #[error("the file is damaged or cut short, at byte {offset}: {reason}; copy or build it again")]
    Corrupt {
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A later minor version of the contract.
    #[error(
        "it was built for `{found}`, and this mimir offers {CONTRACT}: update mimir, or build the plugin for {}.{}",
        CONTRACT.major,
        CONTRACT.minor
    )]
    ContractNewer {
        /// The interface that it asks for or offers.
        found: String,
    },
    /// A version of the contract with another major number, or none.
    #[error(
        "it was built for `{found}`, which this mimir does not know; it offers {CONTRACT}: build the plugin for {}.{}",
        CONTRACT.major,
        CONTRACT.minor
    )]
    ContractUnknown {
        /// The interface that it asks for or offers.
        found: String,
    },
    /// A WASI version that is not 0.2.
    #[error("it uses `{found}`, and mimir offers WASI 0.2 only: build it for `wasm32-wasip2`")]
    Wasi {
        /// The interface.
        found: String,
    },
    /// Imports that nothing here provides.
    #[error(
        "it imports {}, which mimir does not provide: tools get WASI 0.2 (cli, clocks, filesystem, http, io, random, sockets), `wasi:config/store` and `mimir:tool` {CONTRACT}; compose the component with one that provides it (`wac plug`), or build it without",
        list(missing)
    )]
    Imports {
        /// The imports, as written.
        missing: Vec<String>,
    },
    /// A component without an export that can be called.
    #[error(
        "there is nothing to call: it exports no `mimir:tool/toolset`, no function with plain types and no `wasi:cli/run`{}",
        because(skipped)
    )]
    NothingToCall {
        /// Functions that were left out, each with the reason.
        skipped: Vec<String>,
    },
}

impl FamilyError {
    /// A stable spelling for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            FamilyError::TooLarge { .. } => "FILE_TOO_LARGE",
            FamilyError::NotWasm { .. } => "NOT_WASM",
            FamilyError::CoreModule(_) => "CORE_MODULE",
            FamilyError::Encoding { .. } => "UNKNOWN_ENCODING",
            FamilyError::Corrupt { .. } => "CORRUPT",
            FamilyError::ContractNewer { .. } => "CONTRACT_NEWER",
            FamilyError::ContractUnknown { .. } => "CONTRACT_UNKNOWN",
            FamilyError::Wasi { .. } => "WASI_VERSION",
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

    pub(super) fn nothing_to_call(skipped: &[Skipped]) -> Self {
        FamilyError::NothingToCall {
            skipped: skipped
                .iter()
                .map(|it| format!("`{}` {}", it.export, it.reason))
                .collect(),
        }
    }
}

impl From<wasmparser::Error> for FamilyError {
    fn from(error: wasmparser::Error) -> Self {
        Self::corrupt(error.offset(), error.message())
    }
}

/// One line of bounded length out of a file.
pub(super) fn shown(text: &str) -> String {
    let visible = text::visible(text);
    let cut = text::prefix(&visible, SHOWN);
    if cut.len() < visible.len() {
        format!("{cut}…")
    } else {
        visible
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = names.len().saturating_sub(NAMED);
    match more {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}

fn because(skipped: &[String]) -> String {
    match skipped {
        [] => String::new(),
        some => format!(
            " ({})",
            some.iter()
                .take(NAMED)
                .cloned()
                .collect::<Vec<_>>()
                .join("; ")
        ),
    }
}
