//! Detection of a file's kind from its bytes alone, without compiling or running it.
//!
//! [`detect`] reads the outline of a component (types, imports and exports; function bodies are skipped) and returns
//! its family. Any other file gets a [`FamilyError`] with a remedy. The bytes may be hostile: counts, sizes and nesting
//! are checked against limits before they are used.
//!
//! Out of scope: engines, stores, instances.

mod component_surface;
mod error;
mod interface;
mod proof;
mod type_nesting;

pub use component_surface::check_size;
pub use error::FamilyError;
pub use interface::{InterfaceVersion, uses_wasi_03};
pub use proof::{Proof, is_pure, proofs};

pub(crate) use component_surface::ComponentSurface;
pub(crate) use error::{list_names, shown};
pub(crate) use interface::{CONFIG_STORES, InterfaceName, LOGGING};
pub(crate) use type_nesting::check_component as check_nesting;

use serde::{Deserialize, Serialize};
use wasmparser::component_types::ComponentEntityType;

use crate::engine::EngineMode;
use crate::lift::{self, LiftedTools};

/// Maximum size of an inspected file in bytes. Whole language engines have about 40 MB; reading and compiling a file
/// above the limit would take minutes and gigabytes.
pub const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The version of the contract `mimir:tool` that this host offers.
pub const CONTRACT: InterfaceVersion = InterfaceVersion {
    major: 1,
    minor: 0,
    patch: 0,
};

/// The calling convention of a component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ComponentFamily {
    /// The component exports `mimir:tool/toolset` and describes its own tools.
    Toolset {
        /// The version of the contract that the component was built for.
        version: InterfaceVersion,
        /// True if the component also exports `mimir:tool/assessor`.
        assessor: bool,
    },
    /// The component exports `near:agent/tool`, and describes itself.
    AgentTool,
    /// The component exports at least one typed function; each of them is a tool.
    Lifted(LiftedTools),
    /// The component answers requests: it exports `wasi:http/incoming-handler`, or `wasi:http/handler` of WASI 0.3.
    HttpHandler(WasiGeneration),
    /// The component is a program: it exports `wasi:cli/run` and nothing else that can be called.
    Command(WasiGeneration),
}

/// A generation of WASI, which determines how an entry point is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WasiGeneration {
    /// WASI 0.2.
    Preview2,
    /// WASI 0.3, with async functions.
    Preview3,
}

/// Facts about a component that follow from its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectedComponent {
    /// Calling convention.
    pub family: ComponentFamily,
    /// The mode of the engine that the component needs.
    pub mode: EngineMode,
    /// Names of the imported interfaces as written (`wasi:io/streams@0.2.6`), in the component's order. Interfaces with
    /// types only are left out: they give no capability.
    pub imports: Vec<String>,
    /// Names of the exports as written, in the component's order.
    pub exports: Vec<String>,
}

/// Detects the kind of a component; convert other files with [`adapt`](crate::componentize::adapt) first. Time and
/// memory are in proportion to the size of the file's outline, whatever counts the file claims.
///
/// A toolset takes precedence. A component that exports typed functions *and* `wasi:cli/run` is lifted, and the run
/// export is listed as skipped.
pub fn detect(bytes: &[u8]) -> Result<DetectedComponent, FamilyError> {
    check_size(bytes.len() as u64)?;
    component_surface::check_header(bytes)?;
    let surface = ComponentSurface::read(bytes)?;
    let toolset = toolset(&surface)?;
    let imports = interface::check_imports(&surface)?;
    let family = match toolset {
        Some(family) => family,
        None => foreign(&surface)?,
    };
    Ok(DetectedComponent {
        family,
        mode: mode(&surface),
        imports,
        exports: surface.exports().map(|(name, _)| name.to_owned()).collect(),
    })
}

/// Returns the mode of the engine that the component needs. WASI 0.3 is linked for concurrent components only.
fn mode(surface: &ComponentSurface) -> EngineMode {
    let names = surface.imports().chain(surface.exports());
    let mut names = names.filter_map(|(name, _)| InterfaceName::parse(name));
    if names.any(|name| name.is_wasi_03()) {
        EngineMode::Concurrent
    } else {
        surface.mode()
    }
}

/// Returns the toolset family, or `None` if no toolset is exported.
fn toolset(surface: &ComponentSurface) -> Result<Option<ComponentFamily>, FamilyError> {
    let exported = |expected: &str| {
        surface.exports().find_map(|(name, ty)| {
            let parsed = InterfaceName::parse(name)?;
            let matches = matches!(ty, ComponentEntityType::Instance(_))
                && parsed.matches(interface::MIMIR, expected);
            matches.then_some(parsed)
        })
    };
    let Some(toolset) = exported("toolset") else {
        return Ok(None);
    };
    let version = interface::check_contract(&toolset)?;
    let assessor = match exported("assessor") {
        Some(assessor) => {
            interface::check_contract(&assessor)?;
            true
        }
        None => false,
    };
    Ok(Some(ComponentFamily::Toolset { version, assessor }))
}

/// Returns the family of a component that was not written for mimir.
fn foreign(surface: &ComponentSurface) -> Result<ComponentFamily, FamilyError> {
    let mut names = surface
        .exports()
        .filter_map(|(name, _)| InterfaceName::parse(name));
    if names.any(|name| name.is_agent("tool")) {
        return Ok(ComponentFamily::AgentTool);
    }
    let tools = lift::lift(surface);
    if !tools.tools.is_empty() {
        return Ok(ComponentFamily::Lifted(tools));
    }
    let mut entry_points: Vec<_> = surface
        .exports()
        .filter(|(_, ty)| matches!(ty, ComponentEntityType::Instance(_)))
        .filter_map(|(name, _)| entry_point(&InterfaceName::parse(name)?))
        .collect();
    // A server may also be a program, or a server of an unknown version a program of a known one.
    entry_points.sort_by_key(|family| match family {
        Ok(ComponentFamily::HttpHandler(_)) => 0,
        Ok(_) => 1,
        Err(_) => 2,
    });
    if let Some(family) = entry_points.into_iter().next() {
        return family;
    }
    Err(FamilyError::nothing_to_call(&tools.skipped))
}

/// Returns the family of a component that exports the entry point of a server or a program; `None` for any other
/// interface.
pub(crate) fn entry_point(
    name: &InterfaceName<'_>,
) -> Option<Result<ComponentFamily, FamilyError>> {
    let generation = if name.is_wasi_02() {
        Some(WasiGeneration::Preview2)
    } else if name.is_wasi_03() {
        Some(WasiGeneration::Preview3)
    } else {
        None
    };
    Some(match (name.package, name.name, generation) {
        ("wasi:http", "incoming-handler", Some(WasiGeneration::Preview2)) => {
            Ok(ComponentFamily::HttpHandler(WasiGeneration::Preview2))
        }
        ("wasi:http", "handler", Some(WasiGeneration::Preview3)) => {
            Ok(ComponentFamily::HttpHandler(WasiGeneration::Preview3))
        }
        ("wasi:cli", "run", Some(generation)) => Ok(ComponentFamily::Command(generation)),
        ("wasi:http", "incoming-handler" | "handler", _) | ("wasi:cli", "run", _) => {
            Err(FamilyError::Wasi {
                found: name.to_string(),
            })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
