//! The positions of a tool's functions in a compiled component.

use wasmtime::component::{Component, ComponentExportIndex};

use super::LiftedTool;

/// The functions of a tool, valid for every instance of the component.
#[derive(Debug, Clone)]
pub enum ToolIndex {
    /// A single function.
    Function(ComponentExportIndex),
    /// The functions of a resource.
    Resource(ResourceIndex),
}

/// The functions of a resource.
#[derive(Debug, Clone)]
pub struct ResourceIndex {
    pub(super) constructor: ComponentExportIndex,
    /// The methods, each with the name of its action.
    pub(super) methods: Vec<(String, ComponentExportIndex)>,
}

impl LiftedTool {
    /// Finds the tool's functions in the compiled component. `None` if one of them does not exist.
    pub fn resolve(&self, component: &Component) -> Option<ToolIndex> {
        let Some(resource) = &self.resource else {
            return self.export.resolve(component).map(ToolIndex::Function);
        };
        let methods = resource.methods.iter().map(|method| {
            let index = method.export.resolve(component)?;
            Some((method.action.clone(), index))
        });
        Some(ToolIndex::Resource(ResourceIndex {
            constructor: resource.constructor.resolve(component)?,
            methods: methods.collect::<Option<_>>()?,
        }))
    }
}
