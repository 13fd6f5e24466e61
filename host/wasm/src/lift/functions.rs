//! Conversion of a component's exports into tools.

use std::fmt;

use mimir_core::schema::Schema;
use mimir_core::text;
use wasmparser::component_types::{ComponentEntityType, ComponentFuncTypeId};

use super::docs::PackageDocs;
use super::resources::{self, DescribedResource, ResourceFunctions};
use super::schema::{self, TypeCatalogue, Unliftable};
use super::{ExportPath, LiftedTool, LiftedTools, MAX_NAME_CHARS, SkippedExport, names};
use crate::family::{self, ComponentSurface, InterfaceName};

/// Maximum number of tools of one component. Models choose badly long before this.
pub(crate) const MAX_TOOLS: usize = 256;

/// Maximum number of skipped exports that are listed individually.
const MAX_SKIPPED: usize = 32;

/// The function with which componentize-py starts the interpreter, and its instance.
const PYTHON_INIT: (&str, &str) = ("exports", "init");

/// The function with which componentize-qjs loads the script, and its first parameters.
const QUICKJS_INIT: (&str, [&str; 2]) = ("init", ["shim", "script"]);

/// Returns the tools of a component that was not written for mimir.
pub(crate) fn lift(surface: &ComponentSurface) -> LiftedTools {
    let docs = PackageDocs::parse(surface.docs());
    let mut catalogue = TypeCatalogue::new(surface, &docs);
    let mut described: Vec<DescribedFunction> = Vec::new();
    let mut skipped = SkippedExports::default();
    let exports = functions(surface, &mut skipped);
    let sorted = resources::sort_functions(surface, &mut catalogue, &docs, exports);
    for (path, reason) in &sorted.refused {
        skipped.add(path, &reason.to_string());
    }
    for resource in sorted.resources {
        if described.len() >= MAX_TOOLS {
            skipped.add(&resource.path, &over_limit());
            continue;
        }
        described.push(DescribedFunction::from(resource));
    }
    for export in sorted.functions {
        if described.len() >= MAX_TOOLS {
            skipped.add(&export.path, &over_limit());
            continue;
        }
        match describe(surface, &mut catalogue, export.ty) {
            Ok((input, output)) => described.push(DescribedFunction {
                path: export.path,
                input,
                output,
                resource: None,
                description: None,
            }),
            Err(reason) => skipped.add(&export.path, &reason.to_string()),
        }
    }
    let paths: Vec<ExportPath> = described.iter().map(|tool| tool.path.clone()).collect();
    let names = names::assign_names(&paths);
    let mut tools = Vec::new();
    for (function, name) in described.into_iter().zip(names) {
        let path = function.path;
        let Some(name) = name else {
            skipped.add(&path, "has a name without letters and digits");
            continue;
        };
        let description = function.description.unwrap_or_else(|| {
            docs.function(path.interface.as_deref(), &path.function)
                .unwrap_or_else(|| default_description(&path))
        });
        tools.push(LiftedTool {
            name,
            description,
            input_schema: Schema::unchecked(function.input),
            output_schema: function.output.map(Schema::unchecked),
            resource: function.resource,
            export: path,
        });
    }
    LiftedTools {
        tools,
        skipped: skipped.finish(),
    }
}

/// A callable function or resource, with its schemas as text.
struct DescribedFunction {
    path: ExportPath,
    input: String,
    output: Option<String>,
    resource: Option<ResourceFunctions>,
    /// The description, if it is not that of the function.
    description: Option<String>,
}

impl From<DescribedResource> for DescribedFunction {
    fn from(resource: DescribedResource) -> Self {
        Self {
            path: resource.path,
            input: resource.input,
            output: Some(resource.output),
            resource: Some(resource.functions),
            description: Some(resource.description),
        }
    }
}

/// An exported function.
pub(super) struct ExportedFunction {
    pub path: ExportPath,
    pub ty: ComponentFuncTypeId,
}

/// Returns all exported functions, in order. Exports that cannot contain any are skipped.
fn functions(surface: &ComponentSurface, skipped: &mut SkippedExports) -> Vec<ExportedFunction> {
    let mut exports = Vec::new();
    for (name, ty) in surface.exports() {
        let path = |interface: Option<&str>, function: &str| ExportPath {
            interface: interface.map(str::to_owned),
            function: function.to_owned(),
        };
        match ty {
            // Called at build time, and left in each component.
            ComponentEntityType::Func(ty) if is_quickjs_init(surface, name, ty) => {}
            ComponentEntityType::Func(ty) => exports.push(ExportedFunction {
                path: path(None, name),
                ty,
            }),
            ComponentEntityType::Instance(_)
                if InterfaceName::parse(name)
                    .is_some_and(|interface| family::entry_point(&interface).is_some()) =>
            {
                skipped.add(
                    &path(None, name),
                    "is the entry point of a program or a server; the typed functions are the tools",
                );
            }
            ComponentEntityType::Instance(id) => {
                let items = surface
                    .types()
                    .get(id)
                    .into_iter()
                    .flat_map(|instance| &instance.exports);
                for (function, item) in items {
                    match item.ty {
                        // componentize-py calls it at build time, and adds it to each of its components.
                        ComponentEntityType::Func(_)
                            if (name, function.as_str()) == PYTHON_INIT => {}
                        ComponentEntityType::Func(ty) => exports.push(ExportedFunction {
                            path: path(Some(name), function),
                            ty,
                        }),
                        ComponentEntityType::Type { .. } => {}
                        _ => skipped.add(&path(Some(name), function), "is not a function"),
                    }
                }
            }
            ComponentEntityType::Type { .. } => {}
            _ => skipped.add(&path(None, name), "is not a function"),
        }
    }
    exports
}

fn is_quickjs_init(surface: &ComponentSurface, name: &str, ty: ComponentFuncTypeId) -> bool {
    let (init, params) = QUICKJS_INIT;
    let function = surface.types().get(ty);
    name == init
        && function.is_some_and(|function| {
            let names = function.params.iter().map(|(name, _)| name.as_str());
            names.take(params.len()).eq(params)
        })
}

/// Returns the schemas of a function, as text.
fn describe(
    surface: &ComponentSurface,
    catalogue: &mut TypeCatalogue<'_>,
    ty: ComponentFuncTypeId,
) -> Result<(String, Option<String>), Unliftable> {
    let function = surface.types().get(ty).ok_or(Unliftable::Unknown)?;
    let params = function
        .params
        .iter()
        .map(|(name, ty)| (name.as_str(), *ty));
    let input = schema::text(&catalogue.arguments(params)?)?;
    let output = match function.result {
        Some(ty) => catalogue.result(ty)?.map(|schema| schema::text(&schema)),
        None => None,
    };
    Ok((input, output.transpose()?))
}

fn default_description(path: &ExportPath) -> String {
    let function = text::visible(text::prefix(&path.function, MAX_NAME_CHARS));
    match &path.interface {
        Some(interface) => format!(
            "Calls the function `{function}` of `{}`.",
            text::visible(text::prefix(interface, MAX_NAME_CHARS))
        ),
        None => format!("Calls the function `{function}`."),
    }
}

/// Returns the reason for which a function beyond [`MAX_TOOLS`] is skipped, as the end of a sentence.
pub(crate) fn over_limit() -> String {
    format!("exceeds the limit of {MAX_TOOLS} tools per component")
}

/// The skipped exports, of which only the first ones are named.
#[derive(Debug, Default)]
pub(crate) struct SkippedExports {
    listed: Vec<SkippedExport>,
    /// Number of further skipped exports.
    unlisted: usize,
}

impl SkippedExports {
    /// Adds an export, with the reason as the end of a sentence.
    pub(crate) fn add(&mut self, export: &(impl fmt::Display + ?Sized), reason: &str) {
        if self.listed.len() == MAX_SKIPPED {
            self.unlisted += 1;
            return;
        }
        self.listed.push(SkippedExport {
            export: text::visible(text::prefix(&export.to_string(), MAX_NAME_CHARS)),
            reason: reason.to_owned(),
        });
    }

    /// Returns the list, which ends with the number of exports that are not named.
    pub(crate) fn finish(mut self) -> Vec<SkippedExport> {
        if self.unlisted > 0 {
            self.listed.push(SkippedExport {
                export: format!("{} more exports", self.unlisted),
                reason: "are skipped as well".into(),
            });
        }
        self.listed
    }
}
