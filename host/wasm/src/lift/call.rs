//! One call of a lifted function.

use serde_json::{Value, json};
use wasmtime::AsContextMut;
use wasmtime::component::{ComponentExportIndex, Func, Instance, Type, Val};

use super::value::{self, LoweredArgument, UnraisableValue, ValueError};
use super::{LiftedTool, typed_call};

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

/// Calls the function of `tool` at `index` (from [`ExportPath::resolve`](super::ExportPath::resolve)) with
/// `arguments`, an object with a property per parameter.
///
/// The store's hostcall fuel (`Store::set_hostcall_fuel`) limits the number of values in a result; more values cause a
/// trap. A result that would take more than `max_bytes` bytes as JSON fails with [`LiftError::TooLarge`].
pub async fn call(
    mut store: impl AsContextMut<Data: Send>,
    instance: &Instance,
    tool: &LiftedTool,
    index: &ComponentExportIndex,
    arguments: &Value,
    max_bytes: usize,
) -> Result<LiftedOutput, LiftError> {
    let missing = || LiftError::Missing(tool.export.to_string());
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

/// Calls a function of any type. Every part of an argument or result is a separate [`Val`].
pub(super) async fn call_by_values(
    mut store: impl AsContextMut<Data: Send>,
    function: Func,
    types: &[Type],
    arguments: Vec<LoweredArgument>,
    max_bytes: usize,
) -> Result<Option<LiftedOutput>, LiftError> {
    let params: Vec<Val> = arguments.into_iter().map(Val::from).collect();
    let mut results = vec![Val::Bool(false); types.len()];
    function
        .call_async(&mut store, &params, &mut results)
        .await
        .map_err(LiftError::Trap)?;
    match (results.as_slice(), types) {
        ([], []) => Ok(Some(LiftedOutput::Ok(None))),
        ([result], _) if value::json_size(result) > max_bytes => Err(LiftError::TooLarge),
        ([result], [ty]) => Ok(output(result, ty).ok()),
        _ => Ok(None),
    }
}

/// Converts the result. The outermost `result` distinguishes success from failure; any other type is success.
fn output(result: &Val, ty: &Type) -> Result<LiftedOutput, UnraisableValue> {
    match (result, ty) {
        (Val::Result(Ok(value)), Type::Result(ty)) => match (value, ty.ok()) {
            (Some(value), Some(ty)) => success(value, &ty),
            _ => Ok(LiftedOutput::Ok(None)),
        },
        (Val::Result(Err(failure)), Type::Result(ty)) => match (failure, ty.err()) {
            (Some(value), Some(ty)) => Ok(match value::raise(value, &ty)? {
                Value::String(message) => LiftedOutput::Failure {
                    message,
                    details: None,
                },
                details => LiftedOutput::Failure {
                    message: details.to_string(),
                    details: Some(details),
                },
            }),
            _ => Ok(LiftedOutput::Failure {
                message: "the function failed without a message".into(),
                details: None,
            }),
        },
        (value, ty) => success(value, ty),
    }
}

fn success(value: &Val, ty: &Type) -> Result<LiftedOutput, UnraisableValue> {
    let json = value::raise(value, ty)?;
    Ok(LiftedOutput::Ok(Some(match ty {
        Type::Record(_) => json,
        _ => json!({ "result": json }),
    })))
}
