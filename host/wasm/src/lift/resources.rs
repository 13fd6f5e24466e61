//! Resources as tools: one call creates a resource, calls its methods in order, and drops it.
//!
//! A handle has no form in JSON and would outlive its instance, so a resource never leaves its call. Without a
//! constructor, the first static function that returns the resource takes its place. A resource without either, and
//! functions that take or return one, are not tools.

use std::collections::{HashMap, HashSet};

use mimir_core::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmparser::component_types::{
    AliasableResourceId, ComponentDefinedType, ComponentFuncType, ComponentValType,
};

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
    let (constructors, others) = split_constructors(surface, exports);
    // One pass over all exports, however many resources there are.
    let mut methods_of: HashMap<ResourcePath, Vec<ExportedFunction>> = constructors
        .iter()
        .map(|(resource, _)| (resource.clone(), Vec::new()))
        .collect();
    for export in others {
        let methods = ResourcePath::of(&export.path, "[method]");
        match methods.and_then(|resource| methods_of.get_mut(&resource)) {
            Some(methods) => methods.push(export),
            None => sorted.functions.push(export),
        }
    }
    for (resource, constructor) in constructors {
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

/// Splits the exports into one constructor for each resource that has one, and all others.
fn split_constructors(
    surface: &ComponentSurface,
    exports: Vec<ExportedFunction>,
) -> (Vec<(ResourcePath, ExportedFunction)>, Vec<ExportedFunction>) {
    let mut constructed: HashSet<ResourcePath> = exports
        .iter()
        .filter_map(|export| ResourcePath::of(&export.path, "[constructor]"))
        .collect();
    let own: HashMap<ResourcePath, AliasableResourceId> = exports
        .iter()
        .filter_map(|export| {
            let resource = ResourcePath::of(&export.path, "[method]")?;
            Some((resource, self_resource(surface, export)?))
        })
        .collect();
    let (mut constructors, mut others) = (Vec::new(), Vec::new());
    for export in exports {
        if let Some(resource) = ResourcePath::of(&export.path, "[constructor]") {
            constructors.push((resource, export));
            continue;
        }
        let returned = || {
            let ty = surface.types().get(export.ty)?;
            returned_resource(surface, ty.result)
        };
        match ResourcePath::of(&export.path, "[static]") {
            Some(resource)
                if returned().is_some_and(|id| own.get(&resource) == Some(&id))
                    && constructed.insert(resource.clone()) =>
            {
                constructors.push((resource, export));
            }
            _ => others.push(export),
        }
    }
    (constructors, others)
}

/// The position of a resource among the exports of its component.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ResourcePath {
    interface: Option<String>,
    name: String,
}

impl ResourcePath {
    /// Returns the resource of a function of this kind, such as `[method]`; `None` for another function.
    fn of(path: &ExportPath, kind: &str) -> Option<Self> {
        let rest = path.function.strip_prefix(kind)?;
        Some(Self {
            interface: path.interface.clone(),
            name: rest.split('.').next().unwrap_or_default().to_owned(),
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

/// Returns the resource that a constructor returns, itself or in a `result`.
fn returned_resource(
    surface: &ComponentSurface,
    result: Option<ComponentValType>,
) -> Option<AliasableResourceId> {
    match defined(surface, result?)? {
        ComponentDefinedType::Own(resource) => Some(*resource),
        ComponentDefinedType::Result { ok: Some(ok), .. } => match defined(surface, *ok)? {
            ComponentDefinedType::Own(resource) => Some(*resource),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the resource that a method borrows.
fn self_resource(
    surface: &ComponentSurface,
    method: &ExportedFunction,
) -> Option<AliasableResourceId> {
    let function = surface.types().get(method.ty)?;
    let (_, ty) = function.params.first()?;
    match defined(surface, *ty)? {
        ComponentDefinedType::Borrow(resource) => Some(*resource),
        _ => None,
    }
}

fn defined(surface: &ComponentSurface, ty: ComponentValType) -> Option<&ComponentDefinedType> {
    match ty {
        ComponentValType::Type(id) => surface.types().get(id),
        ComponentValType::Primitive(_) => None,
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
    if returned_resource(surface, ty.result).is_none() {
        return Err(Unliftable::Resource);
    }
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
