//! One call of a resource: constructor, methods, drop.

use serde_json::{Map, Value, json};
use wasmtime::AsContextMut;
use wasmtime::component::{Func, Instance, ResourceAny, Type, Val};

use super::LiftedTool;
use super::call::{CallResult, LiftError, LiftedOutput, call_function, finish_result};
use super::resources::{ACTION, ACTIONS, ARGUMENTS, MAX_ACTIONS, NEW, RESULTS};
use super::tool_index::ResourceIndex;
use super::value::{self, LoweredArgument, ValueError};

/// A method to call, with its arguments after the resource itself.
struct PlannedAction {
    name: String,
    function: Func,
    arguments: Vec<LoweredArgument>,
}

/// Calls the actions of `arguments` on a new resource. Nothing runs if one of them does not match its method.
pub(super) async fn call_resource(
    mut store: impl AsContextMut<Data: Send + 'static>,
    instance: &Instance,
    tool: &LiftedTool,
    resource: &ResourceIndex,
    arguments: &Value,
    max_bytes: usize,
) -> Result<LiftedOutput, LiftError> {
    let missing = || LiftError::Missing(tool.export.to_string());
    let constructor = instance
        .get_func(&mut store, resource.constructor)
        .ok_or_else(missing)?;
    let ty = constructor.ty(&store);
    let params: Vec<(&str, Type)> = ty.params().collect();
    let empty = Value::Object(Map::new());
    let given = arguments.get(NEW).unwrap_or(&empty);
    let new = value::lower_arguments(given, &params).map_err(|error| error.below(NEW))?;
    let planned = plan(&mut store, instance, resource, arguments)?;

    let created = call_function(&mut store, constructor, Vec::new(), new).await?;
    let handle = match created {
        Some(Val::Resource(handle)) => handle,
        Some(Val::Result(Ok(Some(value)))) => match *value {
            Val::Resource(handle) => handle,
            _ => return Err(missing()),
        },
        Some(failure @ Val::Result(Err(_))) => {
            let ty = ty.results().next().ok_or_else(missing)?;
            let failed = finish_result(&mut store, Some(failure), Some(&ty), max_bytes).await?;
            return match failed {
                Some(CallResult::Failure { message, details }) => {
                    Ok(LiftedOutput::Failure { message, details })
                }
                _ => Err(missing()),
            };
        }
        _ => return Err(missing()),
    };
    let output = run(&mut store, handle, planned, max_bytes).await?;
    let dropped = handle.resource_drop_async(&mut store).await;
    dropped.map_err(LiftError::Trap)?;
    output.ok_or_else(missing)
}

/// Finds the methods and converts their arguments.
fn plan(
    mut store: impl AsContextMut<Data: Send + 'static>,
    instance: &Instance,
    resource: &ResourceIndex,
    arguments: &Value,
) -> Result<Vec<PlannedAction>, ValueError> {
    let error = |path: String, message: &str| ValueError {
        path,
        message: message.to_owned(),
    };
    let actions = arguments.get(ACTIONS).and_then(Value::as_array);
    let actions = actions.filter(|actions| (1..=MAX_ACTIONS).contains(&actions.len()));
    let actions = actions.ok_or_else(|| {
        let message = format!("expected an array of 1 to {MAX_ACTIONS} actions");
        error(format!("/{ACTIONS}"), &message)
    })?;
    let empty = Value::Object(Map::new());
    let mut planned = Vec::new();
    for (at, given) in actions.iter().enumerate() {
        let path = format!("/{ACTIONS}/{at}");
        let name = given.get(ACTION).and_then(Value::as_str);
        let method = name.and_then(|name| {
            let mut methods = resource.methods.iter();
            methods.find(|(action, _)| action == name)
        });
        let function = method.and_then(|(_, index)| instance.get_func(&mut store, index));
        let (Some((name, _)), Some(function)) = (method, function) else {
            let names: Vec<&str> = resource
                .methods
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let message = format!("expected one of {}", names.join(", "));
            return Err(error(format!("{path}/{ACTION}"), &message));
        };
        let ty = function.ty(&store);
        let params: Vec<(&str, Type)> = ty.params().skip(1).collect();
        let given = given.get(ARGUMENTS).unwrap_or(&empty);
        let below = format!("{}/{at}/{ARGUMENTS}", ACTIONS);
        let arguments =
            value::lower_arguments(given, &params).map_err(|error| error.below(&below))?;
        planned.push(PlannedAction {
            name: name.clone(),
            function,
            arguments,
        });
    }
    Ok(planned)
}

/// Calls the methods in order. `None` if a function does not have the described type.
async fn run(
    mut store: impl AsContextMut<Data: Send + 'static>,
    handle: ResourceAny,
    planned: Vec<PlannedAction>,
    max_bytes: usize,
) -> Result<Option<LiftedOutput>, LiftError> {
    let mut results = Vec::new();
    let mut bytes_left = max_bytes;
    for (at, action) in planned.into_iter().enumerate() {
        let ty = action.function.ty(&store);
        let types: Vec<Type> = ty.results().collect();
        let this = vec![Val::Resource(handle)];
        let result = call_function(&mut store, action.function, this, action.arguments).await?;
        let size = result.as_ref().map_or(0, value::json_size);
        bytes_left = bytes_left.checked_sub(size).ok_or(LiftError::TooLarge)?;
        match finish_result(&mut store, result, types.first(), bytes_left).await? {
            Some(CallResult::Success(value)) => results.push(value.unwrap_or(Value::Null)),
            Some(CallResult::Failure { message, details }) => {
                let number = at + 1;
                return Ok(Some(LiftedOutput::Failure {
                    message: format!("action {number} (`{}`) failed: {message}", action.name),
                    details,
                }));
            }
            None => return Ok(None),
        }
    }
    Ok(Some(LiftedOutput::Ok(Some(json!({ RESULTS: results })))))
}
