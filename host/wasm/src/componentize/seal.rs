//! Replaces imports of a component by stubs, so that its imports prove what its tools cannot do.
//!
//! The runtimes of Go and CPython, and the C library, import files and sockets whether a tool uses them or not. A stub is a
//! component inside of the result, in the place of the import: it has no preopened directory, and its functions fail with
//! the error that access is denied, return nothing, or trap if they can do neither. So a tool finds no files, as it would
//! without a grant.
//!
//! Out of scope: components that are used as they are. Only `mimir tools build` seals.

use std::convert::Infallible;

use mimir_core::Needs;
use wasm_encoder::reencode::{Reencode, ReencodeComponent};
use wasm_encoder::{
    Alias, Component, ComponentAliasSection, ComponentExportKind, ComponentExportSection,
    ComponentImportSection, ComponentInstanceSection, ComponentSectionId, RawSection,
};
use wasmparser::{
    ComponentExternalKind, ComponentTypeRef, Parser, Payload, Validator, WasmFeatures,
};
use wit_component::DecodedWasm;

use super::{ComponentizeError, reason};
use stub_component::StubComponent;

mod stub_component;

/// Replaces imports that no need of the plugin's tools asks for: files unless one of them needs files, and sockets, which
/// the host refuses to all tools. Other imports stay, and so does a component without such imports.
///
/// # Errors
///
/// A file that is not a component, or one of an unusual structure.
pub fn seal<'a>(
    component: &[u8],
    needs: impl IntoIterator<Item = &'a Needs>,
) -> Result<Vec<u8>, ComponentizeError> {
    let keeps_files = needs.into_iter().any(|needs| !needs.files.is_empty());
    let is_sealed = |interface: &str| {
        interface.starts_with("wasi:sockets/")
            || interface.starts_with("wasi:filesystem/") && !keeps_files
    };
    if component.get(6..8) != Some(&[1, 0]) {
        return Err(ComponentizeError::encode("it is not a component"));
    }
    crate::family::check_nesting(component, 0).map_err(encode_failure)?;
    let decoded = wit_component::decode(component).map_err(encode_failure)?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(ComponentizeError::encode(
            "it is a WIT package, not a component",
        ));
    };
    let stubs = stub_component::stubs(&resolve, world, is_sealed)?;
    if stubs.is_empty() {
        return Ok(component.to_vec());
    }
    let sealed = SealedComponent::default().build(component, &stubs)?;
    // The structure of the component may be one that `SealedComponent` does not handle.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    validator.validate_all(&sealed).map_err(encode_failure)?;
    Ok(sealed)
}

fn encode_failure(error: impl std::fmt::Display) -> ComponentizeError {
    ComponentizeError::encode(&reason(error))
}

/// New indices of the instances that the component imports. Stubs add instances; everything else keeps its index.
#[derive(Default)]
struct ShiftedInstances(Vec<u32>);

impl Reencode for ShiftedInstances {
    type Error = Infallible;
}

impl ReencodeComponent for ShiftedInstances {
    fn component_instance_index(&mut self, index: u32) -> u32 {
        // An instance that does not exist stays invalid.
        self.0.get(index as usize).copied().unwrap_or(u32::MAX)
    }
}

/// The component that is being built: the imports that stay, the stubs, and the original component, which is instantiated
/// with both. It is not changed itself, because a component cannot call one that it contains.
#[derive(Default)]
struct SealedComponent {
    component: Component,
    shifted: ShiftedInstances,
    next_instance: u32,
    next_component: u32,
    /// The instances of the stubs so far. The first interface of a stub is imported before that of the next one.
    stub_instances: Vec<u32>,
    /// The imported and stub instances, by interface.
    interfaces: Vec<(String, u32)>,
    exports: Vec<(String, ComponentExternalKind)>,
}

impl SealedComponent {
    fn build(
        mut self,
        original: &[u8],
        stubs: &[StubComponent],
    ) -> Result<Vec<u8>, ComponentizeError> {
        let sections = top_sections(original)?;
        let is_import =
            |section: &Payload<'_>| matches!(section, Payload::ComponentImportSection(_));
        let count = sections
            .iter()
            .rposition(is_import)
            .map_or(0, |last| last + 1);
        let (imports, rest) = sections.split_at(count);
        for section in imports {
            self.copy_import_section(section, original, stubs)?;
        }
        for section in rest {
            if let Payload::ComponentExportSection(section) = section {
                for export in section.clone() {
                    let export = export.map_err(encode_failure)?;
                    self.exports
                        .push((export.name.name.to_owned(), export.kind));
                }
            }
        }
        self.instantiate_original(original)?;
        Ok(self.component.finish())
    }

    /// Copies one of the sections up to the last import. These define the types of the imports.
    fn copy_import_section(
        &mut self,
        section: &Payload<'_>,
        original: &[u8],
        stubs: &[StubComponent],
    ) -> Result<(), ComponentizeError> {
        match section {
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    let import = import.map_err(encode_failure)?;
                    let name = import.name.name;
                    if !matches!(import.ty, ComponentTypeRef::Instance(_)) {
                        return Err(ComponentizeError::encode(&format!(
                            "the import `{name}` is not an interface"
                        )));
                    }
                    let is_stub =
                        |stub: &StubComponent| stub.interfaces.iter().any(|it| it == name);
                    if let Some(at) = stubs.iter().position(is_stub) {
                        let instance = match self.stub_instances.get(at) {
                            Some(instance) => *instance,
                            None => self.add_stub(&stubs[at])?,
                        };
                        self.alias_interface(instance, name);
                        continue;
                    }
                    let ty = self.shifted.component_type_ref(import.ty);
                    let mut imports = ComponentImportSection::new();
                    imports.import(name, ty.map_err(encode_failure)?);
                    self.component.section(&imports);
                    self.add_interface(name);
                }
            }
            Payload::ComponentAliasSection(section) => {
                let mut aliases = ComponentAliasSection::new();
                for alias in section.clone() {
                    let alias = self.shifted.component_alias(alias.map_err(encode_failure)?);
                    aliases.alias(alias.map_err(encode_failure)?);
                }
                self.component.section(&aliases);
            }
            // Indices in types are those of types alone.
            Payload::ComponentTypeSection(section) => {
                let data = original.get(section.range()).unwrap_or_default();
                let id = ComponentSectionId::Type.into();
                self.component.section(&RawSection { id, data });
            }
            Payload::CustomSection(_) => {}
            _ => {
                return Err(ComponentizeError::encode(
                    "it has other sections before its imports",
                ));
            }
        }
        Ok(())
    }

    /// Adds a stub in the place of its first import, and returns its instance.
    fn add_stub(&mut self, stub: &StubComponent) -> Result<u32, ComponentizeError> {
        let mut arguments = Vec::new();
        for import in &stub.imports {
            let mut known = self.interfaces.iter();
            let Some((_, index)) = known.find(|(interface, _)| interface == import) else {
                return Err(ComponentizeError::encode(&format!(
                    "`{}` is imported before `{import}`",
                    stub.interfaces.join("`, `")
                )));
            };
            arguments.push((import.as_str(), ComponentExportKind::Instance, *index));
        }
        let instance = self.instantiate(&stub.bytes, arguments);
        self.stub_instances.push(instance);
        Ok(instance)
    }

    /// Adds an interface of a stub in the place of its import.
    fn alias_interface(&mut self, instance: u32, name: &str) {
        let mut aliases = ComponentAliasSection::new();
        aliases.alias(Alias::InstanceExport {
            instance,
            kind: ComponentExportKind::Instance,
            name,
        });
        self.component.section(&aliases);
        self.add_interface(name);
    }

    /// Assigns the next index to an instance that the original component imports.
    fn add_interface(&mut self, name: &str) {
        self.interfaces.push((name.to_owned(), self.next_instance));
        self.shifted.0.push(self.next_instance);
        self.next_instance += 1;
    }

    /// Adds the original component, and exports what it exports.
    fn instantiate_original(&mut self, original: &[u8]) -> Result<(), ComponentizeError> {
        let interfaces = std::mem::take(&mut self.interfaces);
        let arguments = interfaces
            .iter()
            .map(|(name, index)| (name.as_str(), ComponentExportKind::Instance, *index));
        let instance = self.instantiate(original, arguments.collect());
        let mut next_function = 0;
        for (name, kind) in std::mem::take(&mut self.exports) {
            let (next, kind) = match kind {
                ComponentExternalKind::Instance => {
                    (&mut self.next_instance, ComponentExportKind::Instance)
                }
                ComponentExternalKind::Func => (&mut next_function, ComponentExportKind::Func),
                _ => {
                    return Err(ComponentizeError::encode(&format!(
                        "the export `{name}` is not an interface or a function"
                    )));
                }
            };
            let mut aliases = ComponentAliasSection::new();
            aliases.alias(Alias::InstanceExport {
                instance,
                kind,
                name: &name,
            });
            let mut exports = ComponentExportSection::new();
            exports.export(name.as_str(), kind, *next, None);
            // An export has an index of its own.
            *next += 2;
            self.component.section(&aliases).section(&exports);
        }
        Ok(())
    }

    /// Adds a component and an instance of it, and returns the index of the instance.
    fn instantiate(
        &mut self,
        component: &[u8],
        arguments: Vec<(&str, ComponentExportKind, u32)>,
    ) -> u32 {
        self.component.section(&RawSection {
            id: ComponentSectionId::Component.into(),
            data: component,
        });
        let mut instances = ComponentInstanceSection::new();
        instances.instantiate(self.next_component, arguments);
        self.component.section(&instances);
        self.next_component += 1;
        self.next_instance += 1;
        self.next_instance - 1
    }
}

/// Returns the sections of a component, without those of nested components and modules.
fn top_sections(component: &[u8]) -> Result<Vec<Payload<'_>>, ComponentizeError> {
    let (mut sections, mut depth) = (Vec::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(encode_failure)? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            payload if depth == 1 => sections.push(payload),
            _ => {}
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests;
