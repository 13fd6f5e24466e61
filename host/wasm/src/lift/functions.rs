//! Conversion of a component's exports into tools.

use mimir_core::schema::Schema;
use mimir_core::text;
use wasmparser::component_types::{ComponentEntityType, ComponentFuncTypeId};

use super::docs::PackageDocs;
use super::schema::{self, TypeCatalogue, Unliftable};
use super::{ExportPath, LiftedTool, LiftedTools, SkippedExport, names};
use crate::family::{ComponentSurface, InterfaceName};

/// Maximum number of tools of one component. Models choose badly long before this.
const MAX_TOOLS: usize = 256;

/// Maximum number of skipped exports that are listed individually.
const MAX_SKIPPED: usize = 32;

/// Maximum length of an export name in a reason, in characters.
const MAX_NAME_CHARS: usize = 120;

/// The function with which componentize-py starts the interpreter, and its instance.
const PYTHON_INIT: (&str, &str) = ("exports", "init");

/// Returns the tools of a component that was not written for mimir.
pub(crate) fn lift(surface: &ComponentSurface) -> LiftedTools {
    let docs = PackageDocs::parse(surface.docs());
    let mut catalogue = TypeCatalogue::new(surface, &docs);
    let mut described: Vec<DescribedFunction> = Vec::new();
    let mut skipped = SkippedExports::default();
    for export in functions(surface, &mut skipped) {
        if described.len() == MAX_TOOLS {
            skipped.add(
                &export.path,
                &format!("exceeds the limit of {MAX_TOOLS} tools per component"),
            );
            continue;
        }
        match describe(surface, &mut catalogue, export.ty) {
            Ok((input, output)) => described.push(DescribedFunction {
                path: export.path,
                input,
                output,
            }),
            Err(reason) => skipped.add(&export.path, &reason.to_string()),
        }
    }
    let (paths, schemas): (Vec<_>, Vec<_>) = described
        .into_iter()
        .map(|function| (function.path, (function.input, function.output)))
        .unzip();
    let names = names::assign_names(&paths);
    let mut tools = Vec::new();
    for ((path, (input, output)), name) in paths.into_iter().zip(schemas).zip(names) {
        let Some(name) = name else {
            skipped.add(&path, "has a name without letters and digits");
            continue;
        };
        let description = docs
            .function(path.interface.as_deref(), &path.function)
            .unwrap_or_else(|| default_description(&path));
        tools.push(LiftedTool {
            name,
            description,
            input_schema: Schema::unchecked(input),
            output_schema: output.map(Schema::unchecked),
            export: path,
        });
    }
    LiftedTools {
        tools,
        skipped: skipped.finish(),
    }
}

/// A callable function, with its schemas as text.
struct DescribedFunction {
    path: ExportPath,
    input: String,
    output: Option<String>,
}

/// An exported function.
struct ExportedFunction {
    path: ExportPath,
    ty: ComponentFuncTypeId,
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
            ComponentEntityType::Func(ty) => exports.push(ExportedFunction {
                path: path(None, name),
                ty,
            }),
            ComponentEntityType::Instance(_)
                if InterfaceName::parse(name)
                    .is_some_and(|interface| interface.matches("wasi:cli", "run")) =>
            {
                skipped.add(
                    &path(None, name),
                    "is the entry point of a program; the typed functions are the tools",
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

/// Returns the schemas of a function, as text.
fn describe(
    surface: &ComponentSurface,
    catalogue: &mut TypeCatalogue<'_>,
    ty: ComponentFuncTypeId,
) -> Result<(String, Option<String>), Unliftable> {
    let function = surface.types().get(ty).ok_or(Unliftable::Unknown)?;
    if function.async_ {
        return Err(Unliftable::Async);
    }
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

/// The skipped exports, of which only the first ones are named.
#[derive(Default)]
struct SkippedExports {
    listed: Vec<SkippedExport>,
    /// Number of further skipped exports.
    unlisted: usize,
}

impl SkippedExports {
    fn add(&mut self, path: &ExportPath, reason: &str) {
        if self.listed.len() == MAX_SKIPPED {
            self.unlisted += 1;
            return;
        }
        self.listed.push(SkippedExport {
            export: text::visible(text::prefix(&path.to_string(), MAX_NAME_CHARS)),
            reason: reason.to_owned(),
        });
    }

    fn finish(mut self) -> Vec<SkippedExport> {
        if self.unlisted > 0 {
            self.listed.push(SkippedExport {
                export: format!("{} more exports", self.unlisted),
                reason: "are skipped as well".into(),
            });
        }
        self.listed
    }
}
