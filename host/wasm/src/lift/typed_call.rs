//! Typed calls of functions that take or return bytes, without a value for each byte.
//!
//! If types are known only at run time, wasmtime represents each element as a [`Val`]: 40 bytes for a byte. It passes
//! whole vectors if types are known when mimir is compiled, so the usual signatures of functions over bytes are listed
//! here. Other functions, including those with bytes deeper inside a type, are called by values, with the same result.

use mimir_core::BoxFuture;
use serde_json::json;
use wasmtime::component::{ComponentNamedList, Func, Lift, Lower, Type, Val};
use wasmtime::{AsContextMut, StoreContextMut};

use super::call::{LiftError, LiftedOutput};
use super::plain_value::{ByteList, PlainValue};
use super::value::LoweredArgument;

/// The result of a call, or `None` if the function does not have the expected type.
type DirectResult = Result<Option<LiftedOutput>, LiftError>;

/// Returns the shape of a function: a letter for each parameter, then the result.
pub(super) fn function_shape<'t>(
    params: impl Iterator<Item = &'t Type>,
    result: Option<&Type>,
) -> Option<String> {
    let mut shape = String::new();
    for ty in params {
        shape.push(type_letter(ty)?);
    }
    shape.push('>');
    match result {
        None => {}
        Some(Type::Result(ty)) => {
            shape.push(type_letter(&ty.ok()?)?);
            shape.push('|');
            shape.push(type_letter(&ty.err()?)?);
        }
        Some(ty) => shape.push(type_letter(ty)?),
    }
    shape.contains('b').then_some(shape)
}

fn type_letter(ty: &Type) -> Option<char> {
    match ty {
        Type::List(list) if list.ty() == Type::U8 => Some('b'),
        Type::String => Some('s'),
        Type::U32 => Some('i'),
        Type::U64 => Some('l'),
        Type::Bool => Some('t'),
        _ => None,
    }
}

/// Calls a function of one of the listed shapes. Returns the arguments for any other shape.
pub(super) fn call_typed<'a, T: Send + 'static>(
    store: StoreContextMut<'a, T>,
    function: Func,
    shape: &str,
    arguments: Vec<LoweredArgument>,
    max_bytes: usize,
) -> Result<BoxFuture<'a, DirectResult>, Vec<LoweredArgument>> {
    macro_rules! shapes {
        ($($shape:literal: $params:ty => $result:ty;)+) => {
            match shape {
                $($shape => {
                    let run = call_as::<T, $params, $result>(store, function, arguments, max_bytes);
                    Ok(Box::pin(run))
                })+
                _ => Err(arguments),
            }
        };
    }
    shapes! {
        ">b": () => (ByteList,);
        ">b|s": () => (Result<ByteList, String>,);
        "s>b": (String,) => (ByteList,);
        "s>b|s": (String,) => (Result<ByteList, String>,);
        "i>b": (u32,) => (ByteList,);
        "i>b|s": (u32,) => (Result<ByteList, String>,);
        "l>b": (u64,) => (ByteList,);
        "l>b|s": (u64,) => (Result<ByteList, String>,);
        "b>": (ByteList,) => ();
        "b>b": (ByteList,) => (ByteList,);
        "b>s": (ByteList,) => (String,);
        "b>i": (ByteList,) => (u32,);
        "b>l": (ByteList,) => (u64,);
        "b>t": (ByteList,) => (bool,);
        "b>b|s": (ByteList,) => (Result<ByteList, String>,);
        "b>s|s": (ByteList,) => (Result<String, String>,);
        "bb>b": (ByteList, ByteList) => (ByteList,);
        "bb>t": (ByteList, ByteList) => (bool,);
        "bb>b|s": (ByteList, ByteList) => (Result<ByteList, String>,);
        "bs>b": (ByteList, String) => (ByteList,);
        "bs>b|s": (ByteList, String) => (Result<ByteList, String>,);
        "sb>": (String, ByteList) => ();
        "sb>b": (String, ByteList) => (ByteList,);
        "sb>b|s": (String, ByteList) => (Result<ByteList, String>,);
    }
}

async fn call_as<T: Send + 'static, P, R>(
    mut store: StoreContextMut<'_, T>,
    function: Func,
    arguments: Vec<LoweredArgument>,
    max_bytes: usize,
) -> DirectResult
where
    P: TypedArguments + ComponentNamedList + Lower + Send + Sync + 'static,
    R: TypedResult + ComponentNamedList + Lift + Send + Sync + 'static,
{
    let Ok(typed) = function.typed::<P, R>(&store) else {
        return Ok(None);
    };
    let Some(params) = P::from_arguments(arguments.into_iter()) else {
        return Ok(None);
    };
    let called = typed.call_async(store.as_context_mut(), params).await;
    let result = called.map_err(LiftError::Trap)?;
    if result.json_size() > max_bytes {
        return Err(LiftError::TooLarge);
    }
    Ok(Some(result.output()))
}

/// An argument in the form of the typed call.
trait TypedArgument: Sized {
    fn from_argument(argument: LoweredArgument) -> Option<Self>;
}

macro_rules! typed_arguments {
    ($($ty:ty, $argument:pat => $value:expr;)+) => {$(
        impl TypedArgument for $ty {
            fn from_argument(argument: LoweredArgument) -> Option<Self> {
                match argument {
                    $argument => Some($value),
                    _ => None,
                }
            }
        }
    )+};
}

typed_arguments! {
    ByteList, LoweredArgument::Bytes(bytes) => bytes;
    String, LoweredArgument::Value(Val::String(text)) => text;
    u32, LoweredArgument::Value(Val::U32(number)) => number;
    u64, LoweredArgument::Value(Val::U64(number)) => number;
}

/// All arguments of a call.
trait TypedArguments: Sized {
    fn from_arguments(arguments: std::vec::IntoIter<LoweredArgument>) -> Option<Self>;
}

impl TypedArguments for () {
    fn from_arguments(_: std::vec::IntoIter<LoweredArgument>) -> Option<Self> {
        Some(())
    }
}

impl<A: TypedArgument> TypedArguments for (A,) {
    fn from_arguments(mut arguments: std::vec::IntoIter<LoweredArgument>) -> Option<Self> {
        Some((A::from_argument(arguments.next()?)?,))
    }
}

impl<A: TypedArgument, B: TypedArgument> TypedArguments for (A, B) {
    fn from_arguments(mut arguments: std::vec::IntoIter<LoweredArgument>) -> Option<Self> {
        Some((
            A::from_argument(arguments.next()?)?,
            B::from_argument(arguments.next()?)?,
        ))
    }
}

/// The result of a call.
trait TypedResult {
    /// Returns its approximate size in bytes as JSON.
    fn json_size(&self) -> usize;
    fn output(self) -> LiftedOutput;
}

impl TypedResult for () {
    fn json_size(&self) -> usize {
        0
    }
    fn output(self) -> LiftedOutput {
        LiftedOutput::Ok(None)
    }
}

impl<R: PlainValue> TypedResult for (R,) {
    fn json_size(&self) -> usize {
        self.0.size()
    }
    fn output(self) -> LiftedOutput {
        LiftedOutput::Ok(Some(json!({ "result": self.0.raise() })))
    }
}

impl<R: PlainValue> TypedResult for (Result<R, String>,) {
    fn json_size(&self) -> usize {
        match &self.0 {
            Ok(value) => value.size(),
            Err(message) => message.len(),
        }
    }
    fn output(self) -> LiftedOutput {
        match self.0 {
            Ok(value) => (value,).output(),
            Err(message) => LiftedOutput::Failure {
                message,
                details: None,
            },
        }
    }
}
