//! Names of the imports and exports of a core module, without its code.

use wasmparser::{Encoding, Parser, Payload};

use super::{ComponentizeError, WASI_01};
use crate::family::{CONTRACT, shown};

/// Prefix of the sections with component types.
const WORLD_SECTION: &str = "component-type";

/// Prefix of the interfaces of the contract.
const MIMIR: &str = "mimir:tool/";

/// The outline of a core module.
#[derive(Debug, Default)]
pub(super) struct ModuleOutline {
    /// Module and name of each import, as written.
    pub imports: Vec<(String, String)>,
    /// Names of the exported functions.
    pub exports: Vec<String>,
    /// True if the module has a section of component types.
    pub has_world: bool,
}

/// Returns the exported function of the contract, by its name in core modules.
pub(super) fn call_export() -> String {
    format!("{MIMIR}toolset@{CONTRACT}#call")
}

impl ModuleOutline {
    /// Reads the outline. Function bodies are skipped, not validated.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ComponentizeError> {
        if !bytes.starts_with(b"\0asm") {
            let reason = "it does not begin with `\\0asm`";
            return Err(ComponentizeError::NotModule(reason.to_owned()));
        }
        let mut outline = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::Version {
                    encoding: Encoding::Component,
                    ..
                } => {
                    let reason = "it is a component already";
                    return Err(ComponentizeError::NotModule(reason.to_owned()));
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let name = (import.module.to_owned(), import.name.to_owned());
                        outline.imports.push(name);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        outline.exports.push(export?.name.to_owned());
                    }
                }
                Payload::CustomSection(section) => {
                    outline.has_world |= section.name().starts_with(WORLD_SECTION);
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    /// Checks that the module exports the contract in the version of this host.
    pub(super) fn check_toolset(&self) -> Result<(), ComponentizeError> {
        let expected = call_export();
        if self.exports.contains(&expected) {
            return Ok(());
        }
        let prefix = format!("{MIMIR}toolset@");
        let other = self.exports.iter().find(|name| name.starts_with(&prefix));
        // Exports of the right version without `call` are not a plugin either.
        let version = other.map(|name| name.split('#').next().unwrap_or(name));
        Err(match version {
            Some(found) if !expected.starts_with(found) => ComponentizeError::ContractVersion {
                found: shown(found),
            },
            _ => ComponentizeError::NoToolset,
        })
    }

    /// Checks that each import is one of WASI or of the contract.
    pub(super) fn check_imports(&self) -> Result<(), ComponentizeError> {
        let unknown = self.imports.iter().filter(|(module, _)| {
            // `[export]mimir:tool/…` and `$root` have the functions for handles, tasks and resources.
            let interface = module.strip_prefix("[export]").unwrap_or(module);
            let is_interface = interface.starts_with(MIMIR) || interface.starts_with("wasi:");
            !(is_interface || module == WASI_01 || module == "$root")
        });
        let names: Vec<String> = unknown
            .map(|(module, name)| shown(&format!("{module}.{name}")))
            .collect();
        if !names.is_empty() {
            return Err(ComponentizeError::Imports { names });
        }
        let suffix = format!("@{CONTRACT}");
        let mut modules = self.imports.iter().map(|(module, _)| module);
        match modules.find(|module| module.starts_with(MIMIR) && !module.ends_with(&suffix)) {
            Some(found) => Err(ComponentizeError::ContractVersion {
                found: shown(found),
            }),
            None => Ok(()),
        }
    }
}
