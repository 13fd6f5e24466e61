//! Names of the imports and exports of a core module, without its code.

use wasmparser::{BinaryReader, Encoding, ExternalKind, Parser, Payload};

use super::{ComponentizeError, WASI_01};
use crate::family::{CONTRACT, FamilyError, check_nesting, shown};

/// Prefix of the sections with component types.
const WORLD_SECTION: &str = "component-type";

/// First byte of the older form of such a section: the text encoding and the name of the world precede the component.
const OLD_WORLD_FORM: u8 = 0x03;

/// Maximum size of all sections with component types of a module, in bytes; those of all of WASI have a tenth of it.
const MAX_WORLD_BYTES: usize = 1 << 20;

/// Maximum number of a module's imports, and of its exported functions. The time for the conversion is not in proportion to
/// them; programs that export every function of their libraries have a few thousand.
const MAX_ITEMS: usize = 10_000;

/// Prefix of the imports of a module's own handles and tasks, which the encoder supplies for all interfaces.
const OWN_EXPORT: &str = "[export]";

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
        let mut world_bytes = 0;
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
                        check_count("imports", outline.imports.len())?;
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            outline.exports.push(export.name.to_owned());
                            check_count("exported functions", outline.exports.len())?;
                        }
                    }
                }
                Payload::CustomSection(section) if section.name().starts_with(WORLD_SECTION) => {
                    outline.has_world = true;
                    world_bytes += section.data().len();
                    if world_bytes > MAX_WORLD_BYTES {
                        return Err(ComponentizeError::encode(&format!(
                            "its component types have more than {MAX_WORLD_BYTES} bytes"
                        )));
                    }
                    check_world(section.data(), section.data_offset())?;
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
            // `[export]…` and `$root` have the functions for handles, tasks and resources.
            let is_interface = module.starts_with(MIMIR) || module.starts_with("wasi:");
            !(is_interface
                || module == WASI_01
                || module == "$root"
                || module.starts_with(OWN_EXPORT))
        });
        let names: Vec<String> = unknown
            .map(|(module, name)| shown(&format!("{module}.{name}")))
            .collect();
        if !names.is_empty() {
            return Err(ComponentizeError::Imports { names });
        }
        let suffix = format!("@{CONTRACT}");
        let mut modules = self
            .imports
            .iter()
            .map(|(module, _)| module.strip_prefix(OWN_EXPORT).unwrap_or(module));
        match modules.find(|module| module.starts_with(MIMIR) && !module.ends_with(&suffix)) {
            Some(found) => Err(ComponentizeError::ContractVersion {
                found: shown(found),
            }),
            None => Ok(()),
        }
    }
}

fn check_count(what: &str, count: usize) -> Result<(), ComponentizeError> {
    if count > MAX_ITEMS {
        return Err(ComponentizeError::TooManyItems {
            what: what.to_owned(),
            limit: MAX_ITEMS,
        });
    }
    Ok(())
}

/// Checks the nesting of a section with component types, which begins at byte `start`: the encoder follows it by recursion,
/// and a stack overflow ends the process.
fn check_world(section: &[u8], start: usize) -> Result<(), ComponentizeError> {
    let (mut component, mut offset) = (section, 0);
    if section.first() == Some(&OLD_WORLD_FORM) {
        let mut reader = BinaryReader::new(section, start);
        reader.read_bytes(2)?;
        reader.read_string()?;
        offset = reader.original_position() - start;
        component = section.get(offset..).unwrap_or_default();
    }
    check_nesting(component, start + offset).map_err(|error| match error {
        FamilyError::Corrupt { offset, reason } => ComponentizeError::Corrupt { offset, reason },
        other => ComponentizeError::encode(&other.to_string()),
    })
}
