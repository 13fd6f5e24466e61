//! One call of a lifted function.

use serde_json::{Value, json};
use wasmtime::AsContextMut;
use wasmtime::component::{ComponentExportIndex, Func, Instance, Type, Val};

use super::value::{self, Argument, Formless, ValueError};
use super::{LiftedTool, direct};

/// What a function gave.
#[derive(Debug, Clone, PartialEq)]
pub enum LiftedOutput {
    /// It worked: an object that matches the output schema, or nothing for a function without a result.
    Ok(Option<Value>),
    /// It returned the error of its `result`.
    Failure {
        /// The error: text as it is, anything else as JSON.
        message: String,
        /// The error as JSON, unless the message is all of it.
        details: Option<Value>,
    },
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum LiftError {
    /// The arguments do not fit the function. Nothing ran.
    #[error("the arguments do not fit: {0}")]
    Arguments(#[from] ValueError),
    /// The component does not have the function, or not with types that JSON can hold.
    #[error("the component has no function `{0}` with the types that were described")]
    Missing(String),
    /// The result is larger than it may be.
    #[error("the result is too large")]
    TooLarge,
    /// The function trapped, or a limit of the store stopped it; as wasmtime has it.
    #[error("{0}")]
    Trap(wasmtime::Error),
}

/// Calls the function of `tool`, which stands at `index` (of
/// [`ExportPath::resolve`](super::ExportPath::resolve)), with `arguments`, an object with a property per
/// parameter.
///
/// How many values a result may have is for the store to say: its hostcall fuel (`Store::set_hostcall_fuel`)
/// bounds them, and more than that ends in a trap. Values that come to more than `most` bytes of JSON, which
/// is what the caller gets, are not made into any.
pub async fn call(
    mut store: impl AsContextMut<Data: Send>,
    instance: &Instance,
    tool: &LiftedTool,
    index: &ComponentExportIndex,
    arguments: &Value,
    most: usize,
) -> Result<LiftedOutput, LiftError> {
    let missing = || LiftError::Missing(tool.export.to_string());
    let function = instance.get_func(&mut store, index).ok_or_else(missing)?;
    let ty = function.ty(&store);
    let params: Vec<(&str, Type)> = ty.params().collect();
    let mut arguments = value::arguments(arguments, &params)?;
    let types: Vec<Type> = ty.results().collect();
    let given = params.iter().map(|(_, ty)| ty);
    if let Some(shape) = direct::shape(given, types.first()) {
        match direct::call(store.as_context_mut(), function, &shape, arguments, most) {
            Ok(called) => return called.await?.ok_or_else(missing),
            Err(back) => arguments = back,
        }
    }
    by_values(store, function, &types, arguments, most)
        .await?
        .ok_or_else(missing)
}

/// The way of any function: every part of an argument or result is a value by itself.
pub(super) async fn by_values(
    mut store: impl AsContextMut<Data: Send>,
    function: Func,
    types: &[Type],
    arguments: Vec<Argument>,
    most: usize,
) -> Result<Option<LiftedOutput>, LiftError> {
    let params: Vec<Val> = arguments.into_iter().map(Val::from).collect();
    let mut results = vec![Val::Bool(false); types.len()];
    function
        .call_async(&mut store, &params, &mut results)
        .await
        .map_err(LiftError::Trap)?;
    match (results.as_slice(), types) {
        ([], []) => Ok(Some(LiftedOutput::Ok(None))),
        ([result], _) if value::weight(result) > most => Err(LiftError::TooLarge),
        ([result], [ty]) => Ok(output(result, ty).ok()),
        _ => Ok(None),
    }
}

/// The outermost `result` tells success from failure; everything else is success.
fn output(result: &Val, ty: &Type) -> Result<LiftedOutput, Formless> {
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
                message: "the function failed and does not say why".into(),
                details: None,
            }),
        },
        (value, ty) => success(value, ty),
    }
}

fn success(value: &Val, ty: &Type) -> Result<LiftedOutput, Formless> {
    let json = value::raise(value, ty)?;
    Ok(LiftedOutput::Ok(Some(match ty {
        Type::Record(_) => json,
        _ => json!({ "result": json }),
    })))
}
