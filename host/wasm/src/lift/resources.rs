//! Resources as tools: one call creates a resource, calls its methods in order, and drops it.
//!
//! A handle has no form in JSON and would outlive its instance, so a resource never leaves its call. A resource without
//! a constructor, and functions that take or return one, are not tools.

use std::collections::HashMap;

use mimir_core::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmparser::component_types::{ComponentDefinedType, ComponentFuncType, ComponentValType};

use super::docs::PackageDocs;
use super::functions::ExportedFunction;
use super::schema::{self, TypeCatalogue, Unliftable};
use super::{ExportPath, MAX_NAME_CHARS};
use crate::family::ComponentSurface;

/// Maximum number of actions in one call.
pub(super) const MAX_ACTIONS: usize = 100;

/// The properties of a call.
pub(super) const NEW: &str = "new";
pub(super) const ACTIONS: &str = "actions";
pub(super) const ACTION: &str = "action";
pub(super) const ARGUMENTS: &str = "arguments";
pub(super) const RESULTS: &str = "results";

/// The functions of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFunctions {
    /// The constructor.
    pub constructor: ExportPath,
    /// The methods that can be called.
    pub methods: Vec<ResourceMethod>,
}

/// A method of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceMethod {
    /// Its name in a call.
    pub action: String,
    /// The function behind it.
    pub export: ExportPath,
}

/// A resource that can be a tool, with its schemas as text.
pub(super) struct DescribedResource {
    /// The resource, as if it were a function.
    pub path: ExportPath,
    pub functions: ResourceFunctions,
    pub input: String,
    pub output: String,
    pub description: String,
}

/// The exported functions, with those of resources taken out.
pub(super) struct SortedFunctions {
    pub resources: Vec<DescribedResource>,
    pub functions: Vec<ExportedFunction>,
    /// Methods that cannot be called, each with the reason.
    pub refused: Vec<(ExportPath, Unliftable)>,
}

/// Collects the functions of each resource with a constructor.
pub(super) fn sort_functions(
    surface: &ComponentSurface,
    catalogue: &mut TypeCatalogue<'_>,
    docs: &PackageDocs,
    exports: Vec<ExportedFunction>,
) -> SortedFunctions {
    let mut sorted = SortedFunctions {
        resources: Vec::new(),
        functions: Vec::new(),
        refused: Vec::new(),
    };
    let (constructors, others): (Vec<_>, Vec<_>) = exports
        .into_iter()
        .partition(|export| export.path.function.starts_with(CONSTRUCTOR));
    let resource_of = |constructor: &ExportPath| ResourcePath {
        interface: constructor.interface.clone(),
        name: constructor.function.replacen(CONSTRUCTOR, "", 1),
    };
    // One pass over all exports, however many resources there are.
    let mut methods_of: HashMap<ResourcePath, Vec<ExportedFunction>> = constructors
        .iter()
        .map(|constructor| (resource_of(&constructor.path), Vec::new()))
        .collect();
    for export in others {
        let methods = ResourcePath::of_method(&export.path);
        match methods.and_then(|resource| methods_of.get_mut(&resource)) {
            Some(methods) => methods.push(export),
            None => sorted.functions.push(export),
        }
    }
    for constructor in constructors {
        let resource = resource_of(&constructor.path);
        let methods = methods_of.remove(&resource).unwrap_or_default();
        let name = resource.name;
        let methods: Vec<_> = methods
            .into_iter()
            .filter_map(|method| match check_method(surface, catalogue, &method) {
                Ok(()) => Some(method),
                Err(reason) => {
                    sorted.refused.push((method.path, reason));
                    None
                }
            })
            .collect();
        match describe(surface, catalogue, docs, &name, &constructor, &methods) {
            Ok(resource) => sorted.resources.push(resource),
            Err(reason) => {
                let paths = std::iter::once(constructor.path)
                    .chain(methods.into_iter().map(|method| method.path));
                sorted.refused.extend(paths.map(|path| (path, reason)));
            }
        }
    }
    sorted
}

/// Prefix of the name of a constructor.
const CONSTRUCTOR: &str = "[constructor]";

/// The position of a resource among the exports of its component.
#[derive(PartialEq, Eq, Hash)]
struct ResourcePath {
    interface: Option<String>,
    name: String,
}

impl ResourcePath {
    /// Returns the resource of a method; `None` for another function.
    fn of_method(path: &ExportPath) -> Option<Self> {
        let (name, _) = path.function.strip_prefix("[method]")?.split_once('.')?;
        Some(Self {
            interface: path.interface.clone(),
            name: name.to_owned(),
        })
    }
}

type NamedParameters<'a> = Vec<(&'a str, ComponentValType)>;

/// A method for the schema of its resource.
pub(super) struct ActionOutline<'a> {
    pub name: &'a str,
    /// The parameters after the resource itself.
    pub params: NamedParameters<'a>,
    pub docs: Option<String>,
}

fn function<'a>(
    surface: &'a ComponentSurface,
    export: &ExportedFunction,
) -> Result<(&'a ComponentFuncType, NamedParameters<'a>), Unliftable> {
    let function = surface.types().get(export.ty).ok_or(Unliftable::Unknown)?;
    let params = function.params.iter();
    let params = params.map(|(name, ty)| (name.as_str(), *ty)).collect();
    Ok((function, params))
}

/// Returns the parameters of a method after the resource itself.
fn method_parameters<'a>(
    surface: &'a ComponentSurface,
    method: &ExportedFunction,
) -> Result<NamedParameters<'a>, Unliftable> {
    let (_, mut params) = function(surface, method)?;
    if params.is_empty() {
        return Err(Unliftable::Unknown);
    }
    params.remove(0);
    Ok(params)
}

fn check_method(
    surface: &ComponentSurface,
    catalogue: &mut TypeCatalogue<'_>,
    method: &ExportedFunction,
) -> Result<(), Unliftable> {
    let (ty, _) = function(surface, method)?;
    let params = method_parameters(surface, method)?;
    catalogue.arguments(params.into_iter())?;
    match ty.result {
        Some(result) => catalogue.result(result).map(drop),
        None => Ok(()),
    }
}

/// Checks that a constructor returns the resource itself, or a `result` with it.
fn check_constructor(
    surface: &ComponentSurface,
    result: Option<ComponentValType>,
) -> Result<(), Unliftable> {
    let defined = |ty: Option<ComponentValType>| match ty {
        Some(ComponentValType::Type(id)) => surface.types().get(id),
        _ => None,
    };
    match defined(result) {
        Some(ComponentDefinedType::Own(_)) => Ok(()),
        Some(ComponentDefinedType::Result { ok, .. }) => match defined(*ok) {
            Some(ComponentDefinedType::Own(_)) => Ok(()),
            _ => Err(Unliftable::Resource),
        },
        _ => Err(Unliftable::Resource),
    }
}

fn describe(
    surface: &ComponentSurface,
    catalogue: &mut TypeCatalogue<'_>,
    docs: &PackageDocs,
    name: &str,
    constructor: &ExportedFunction,
    methods: &[ExportedFunction],
) -> Result<DescribedResource, Unliftable> {
    if methods.is_empty() {
        return Err(Unliftable::Resource);
    }
    let (ty, params) = function(surface, constructor)?;
    check_constructor(surface, ty.result)?;
    let interface = constructor.path.interface.as_deref();
    let mut actions = Vec::new();
    for method in methods {
        let action = method.path.function.split_once('.');
        let action = action.map_or(method.path.function.as_str(), |(_, action)| action);
        let docs = docs.function(interface, &method.path.function);
        actions.push(ActionOutline {
            name: action,
            params: method_parameters(surface, method)?,
            docs,
        });
    }
    let shown = text::visible(text::prefix(name, MAX_NAME_CHARS));
    let input = catalogue.resource(params, &actions)?;
    let output = serde_json::json!({
        "type": "object",
        "properties": { RESULTS: {
            "type": "array", "items": {},
            "description": "The result of each action, null for one without a result."
        } },
        "required": [RESULTS],
        "additionalProperties": false
    });
    Ok(DescribedResource {
        path: ExportPath {
            interface: constructor.path.interface.clone(),
            function: name.to_owned(),
        },
        functions: ResourceFunctions {
            constructor: constructor.path.clone(),
            methods: methods
                .iter()
                .zip(&actions)
                .map(|(method, action)| ResourceMethod {
                    action: action.name.to_owned(),
                    export: method.path.clone(),
                })
                .collect(),
        },
        description: format!(
            "Creates a `{shown}`, calls its methods in the given order, and drops it: it does not outlive the call."
        ),
        input: schema::text(&input)?,
        output: schema::text(&Value::Object(schema::object(output)))?,
    })
}
