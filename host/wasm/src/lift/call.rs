//! One call of a lifted function.

use serde_json::{Value, json};
use wasmtime::AsContextMut;
use wasmtime::component::{Func, Instance, Type, Val};

use super::async_value::{self, AsyncResult};
use super::value::{self, LoweredArgument, UnraisableValue, ValueError};
use super::{LiftedTool, ToolIndex, resource_call, typed_call};

/// The result of a function.
#[derive(Debug, Clone, PartialEq)]
pub enum LiftedOutput {
    /// Success: an object that matches the output schema, or `None` for a function without a result.
    Ok(Option<Value>),
    /// The error of the function's `result`.
    Failure {
        /// The error: text unchanged, anything else as JSON.
        message: String,
        /// The error as JSON, unless the message is all of it.
        details: Option<Value>,
    },
}

/// Reason why a call has no output.
#[derive(Debug, thiserror::Error)]
pub enum LiftError {
    /// The arguments do not match the function. Nothing was run.
    #[error("the arguments do not match: {0}")]
    Arguments(#[from] ValueError),
    /// The component has no such function, or the function has types that JSON cannot represent.
    #[error("the component has no function `{0}` with the types that were described")]
    Missing(String),
    /// The result exceeds its limit.
    #[error("the result is too large")]
    TooLarge,
    /// The function trapped, or a limit of the store stopped it. Contains wasmtime's error.
    #[error("{0}")]
    Trap(wasmtime::Error),
}

/// Calls the function of `tool` at `index` (from [`LiftedTool::resolve`]) with `arguments`, an object with a property
/// per parameter, or with the actions of a resource.
///
/// The store's hostcall fuel (`Store::set_hostcall_fuel`) limits the number of values in a result; more values cause a
/// trap. A result that would take more than `max_bytes` bytes as JSON fails with [`LiftError::TooLarge`].
pub async fn call(
    mut store: impl AsContextMut<Data: Send + 'static>,
    instance: &Instance,
    tool: &LiftedTool,
    index: &ToolIndex,
    arguments: &Value,
    max_bytes: usize,
) -> Result<LiftedOutput, LiftError> {
    let missing = || LiftError::Missing(tool.export.to_string());
    let index = match index {
        ToolIndex::Function(index) => index,
        ToolIndex::Resource(resource) => {
            let called =
                resource_call::call_resource(store, instance, tool, resource, arguments, max_bytes);
            // On the heap: the future of a call should not be as large as its rarest kinds.
            return Box::pin(called).await;
        }
    };
    let function = instance.get_func(&mut store, index).ok_or_else(missing)?;
    let ty = function.ty(&store);
    let params: Vec<(&str, Type)> = ty.params().collect();
    let mut arguments = value::lower_arguments(arguments, &params)?;
    let types: Vec<Type> = ty.results().collect();
    let param_types = params.iter().map(|(_, ty)| ty);
    if let Some(shape) = typed_call::function_shape(param_types, types.first()) {
        match typed_call::call_typed(
            store.as_context_mut(),
            function,
            &shape,
            arguments,
            max_bytes,
        ) {
            Ok(called) => return called.await?.ok_or_else(missing),
            Err(returned) => arguments = returned,
        }
    }
    call_by_values(store, function, &types, arguments, max_bytes)
        .await?
        .ok_or_else(missing)
}

/// Calls a function of any type. Every part of an argument or result is a separate [`Val`]. Returns `None` if the
/// function does not have the described type.
pub(super) async fn call_by_values(
    mut store: impl AsContextMut<Data: Send + 'static>,
    function: Func,
    types: &[Type],
    arguments: Vec<LoweredArgument>,
    max_bytes: usize,
) -> Result<Option<LiftedOutput>, LiftError> {
    let result = call_function(&mut store, function, Vec::new(), arguments).await?;
    let finished = finish_result(&mut store, result, types.first(), max_bytes).await?;
    Ok(finished.map(|result| match result {
        CallResult::Success(None) => LiftedOutput::Ok(None),
        CallResult::Success(Some(value)) => LiftedOutput::Ok(Some(wrap(value, types.first()))),
        CallResult::Failure { message, details } => LiftedOutput::Failure { message, details },
    }))
}

/// Calls a function with `first` before its arguments, and returns its result.
pub(super) async fn call_function(
    mut store: impl AsContextMut<Data: Send + 'static>,
    function: Func,
    first: Vec<Val>,
    arguments: Vec<LoweredArgument>,
) -> Result<Option<Val>, LiftError> {
    let mut params = first;
    for argument in arguments {
        params.push(match argument {
            LoweredArgument::ByteStream(bytes) => {
                async_value::byte_stream(&mut store, bytes).map_err(LiftError::Trap)?
            }
            LoweredArgument::Stream(item, values) => {
                async_value::stream(store.as_context_mut(), &item, values)
                    .map_err(LiftError::Trap)?
            }
            LoweredArgument::Future(payload, value) => {
                async_value::future(store.as_context_mut(), &payload, value)
                    .map_err(LiftError::Trap)?
            }
            LoweredArgument::Bytes(bytes) => value::byte_values(bytes),
            LoweredArgument::Value(value) => value,
        });
    }
    let count = function.ty(&store).results().len();
    let mut results = vec![Val::Bool(false); count];
    function
        .call_async(&mut store, &params, &mut results)
        .await
        .map_err(LiftError::Trap)?;
    Ok(results.into_iter().next())
}

/// The result of a function as JSON.
pub(super) enum CallResult {
    /// The value, if the function has one.
    Success(Option<Value>),
    /// The error of the function's `result`, as in [`LiftedOutput::Failure`].
    Failure {
        message: String,
        details: Option<Value>,
    },
}

/// Converts the result of a function, after reading its stream or future if it is one. Returns `None` for a value that does not
/// match the type.
pub(super) async fn finish_result(
    mut store: impl AsContextMut<Data: Send + 'static>,
    result: Option<Val>,
    ty: Option<&Type>,
    max_bytes: usize,
) -> Result<Option<CallResult>, LiftError> {
    let (Some(result), Some(ty)) = (result, ty) else {
        return Ok(Some(CallResult::Success(None)));
    };
    if let Some(pending) = AsyncResult::take(&result, ty) {
        let read = Box::pin(pending.read(store.as_context_mut(), max_bytes)).await?;
        return Ok(Some(read));
    }
    if value::json_size(&result) > max_bytes {
        return Err(LiftError::TooLarge);
    }
    Ok(convert(&result, ty).ok())
}

/// Converts the result. The outermost `result` distinguishes success from failure; any other type is success.
fn convert(result: &Val, ty: &Type) -> Result<CallResult, UnraisableValue> {
    match (result, ty) {
        (Val::Result(Ok(value)), Type::Result(ty)) => {
            Ok(CallResult::Success(match (value, ty.ok()) {
                (Some(value), Some(ty)) => Some(value::raise(value, &ty)?),
                _ => None,
            }))
        }
        (Val::Result(Err(failure)), Type::Result(ty)) => match (failure, ty.err()) {
            (Some(value), Some(ty)) => Ok(match value::raise(value, &ty)? {
                Value::String(message) => CallResult::Failure {
                    message,
                    details: None,
                },
                details => CallResult::Failure {
                    message: details.to_string(),
                    details: Some(details),
                },
            }),
            _ => Ok(CallResult::Failure {
                message: "the function failed without a message".into(),
                details: None,
            }),
        },
        (value, ty) => Ok(CallResult::Success(Some(value::raise(value, ty)?))),
    }
}

/// Returns a tool's result: a record as it is, any other value in an object.
fn wrap(value: Value, ty: Option<&Type>) -> Value {
    let success = match ty {
        Some(Type::Result(result)) => result.ok(),
        ty => ty.cloned(),
    };
    match success {
        Some(Type::Record(_)) => value,
        _ => json!({ "result": value }),
    }
}
