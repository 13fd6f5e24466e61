//! Typed calls of functions that take or return bytes, without a value for each byte.
//!
//! wasmtime represents values of types known only at run time as one [`Val`] per element: 40 bytes for a byte. It
//! passes whole vectors if the types are known when mimir is compiled, so the usual signatures of functions over bytes
//! are listed here. Any other function, or one with bytes deeper inside a type, is called by values, with the same
//! result.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::BoxFuture;
use serde_json::{Value, json};
use wasmtime::component::{ComponentNamedList, Func, Lift, Lower, Type, Val};
use wasmtime::{AsContextMut, StoreContextMut};

use super::call::{LiftError, LiftedOutput};
use super::value::Argument;

type Bytes = Vec<u8>;

/// The result of a call, or `None` if the function does not have the expected type.
type Called = Result<Option<LiftedOutput>, LiftError>;

/// Returns the shape of a function: a letter for each parameter, then the result.
pub(super) fn shape<'t>(
    params: impl Iterator<Item = &'t Type>,
    result: Option<&Type>,
) -> Option<String> {
    let mut shape = String::new();
    for ty in params {
        shape.push(letter(ty)?);
    }
    shape.push('>');
    match result {
        None => {}
        Some(Type::Result(ty)) => {
            shape.push(letter(&ty.ok()?)?);
            shape.push('|');
            shape.push(letter(&ty.err()?)?);
        }
        Some(ty) => shape.push(letter(ty)?),
    }
    shape.contains('b').then_some(shape)
}

fn letter(ty: &Type) -> Option<char> {
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
pub(super) fn call<'a, T: Send + 'static>(
    store: StoreContextMut<'a, T>,
    function: Func,
    shape: &str,
    arguments: Vec<Argument>,
    most: usize,
) -> Result<BoxFuture<'a, Called>, Vec<Argument>> {
    macro_rules! shapes {
        ($($shape:literal: $given:ty => $taken:ty;)+) => {
            match shape {
                $($shape => {
                    let run = typed::<T, $given, $taken>(store, function, arguments, most);
                    Ok(Box::pin(run))
                })+
                _ => Err(arguments),
            }
        };
    }
    shapes! {
        ">b": () => (Bytes,);
        ">b|s": () => (Result<Bytes, String>,);
        "s>b": (String,) => (Bytes,);
        "s>b|s": (String,) => (Result<Bytes, String>,);
        "i>b": (u32,) => (Bytes,);
        "i>b|s": (u32,) => (Result<Bytes, String>,);
        "l>b": (u64,) => (Bytes,);
        "l>b|s": (u64,) => (Result<Bytes, String>,);
        "b>": (Bytes,) => ();
        "b>b": (Bytes,) => (Bytes,);
        "b>s": (Bytes,) => (String,);
        "b>i": (Bytes,) => (u32,);
        "b>l": (Bytes,) => (u64,);
        "b>t": (Bytes,) => (bool,);
        "b>b|s": (Bytes,) => (Result<Bytes, String>,);
        "b>s|s": (Bytes,) => (Result<String, String>,);
        "bb>b": (Bytes, Bytes) => (Bytes,);
        "bb>t": (Bytes, Bytes) => (bool,);
        "bb>b|s": (Bytes, Bytes) => (Result<Bytes, String>,);
        "bs>b": (Bytes, String) => (Bytes,);
        "bs>b|s": (Bytes, String) => (Result<Bytes, String>,);
        "sb>": (String, Bytes) => ();
        "sb>b": (String, Bytes) => (Bytes,);
        "sb>b|s": (String, Bytes) => (Result<Bytes, String>,);
    }
}

async fn typed<T: Send + 'static, P, R>(
    mut store: StoreContextMut<'_, T>,
    function: Func,
    arguments: Vec<Argument>,
    most: usize,
) -> Called
where
    P: Given + ComponentNamedList + Lower + Send + Sync + 'static,
    R: Taken + ComponentNamedList + Lift + Send + Sync + 'static,
{
    let Ok(typed) = function.typed::<P, R>(&store) else {
        return Ok(None);
    };
    let Some(params) = P::of(arguments.into_iter()) else {
        return Ok(None);
    };
    let called = typed.call_async(store.as_context_mut(), params).await;
    let result = called.map_err(LiftError::Trap)?;
    if result.weight() > most {
        return Err(LiftError::TooLarge);
    }
    Ok(Some(result.output()))
}

/// An argument in the form of the typed call.
trait One: Sized {
    fn of(argument: Argument) -> Option<Self>;
}

macro_rules! one {
    ($($ty:ty, $argument:pat => $value:expr;)+) => {$(
        impl One for $ty {
            fn of(argument: Argument) -> Option<Self> {
                match argument {
                    $argument => Some($value),
                    _ => None,
                }
            }
        }
    )+};
}

one! {
    Bytes, Argument::Bytes(bytes) => bytes;
    String, Argument::Value(Val::String(text)) => text;
    u32, Argument::Value(Val::U32(number)) => number;
    u64, Argument::Value(Val::U64(number)) => number;
}

/// All arguments of a call.
trait Given: Sized {
    fn of(arguments: std::vec::IntoIter<Argument>) -> Option<Self>;
}

impl Given for () {
    fn of(_: std::vec::IntoIter<Argument>) -> Option<Self> {
        Some(())
    }
}

impl<A: One> Given for (A,) {
    fn of(mut arguments: std::vec::IntoIter<Argument>) -> Option<Self> {
        Some((A::of(arguments.next()?)?,))
    }
}

impl<A: One, B: One> Given for (A, B) {
    fn of(mut arguments: std::vec::IntoIter<Argument>) -> Option<Self> {
        Some((A::of(arguments.next()?)?, B::of(arguments.next()?)?))
    }
}

/// A result that has a form in JSON.
trait Raise {
    /// Returns its approximate size in bytes as JSON.
    fn size(&self) -> usize;
    fn raise(self) -> Value;
}

impl Raise for Bytes {
    fn size(&self) -> usize {
        self.len().div_ceil(3).saturating_mul(4)
    }
    fn raise(self) -> Value {
        STANDARD.encode(self).into()
    }
}

impl Raise for String {
    fn size(&self) -> usize {
        self.len()
    }
    fn raise(self) -> Value {
        self.into()
    }
}

macro_rules! scalars {
    ($($ty:ty)+) => {$(
        impl Raise for $ty {
            fn size(&self) -> usize {
                0
            }
            fn raise(self) -> Value {
                self.into()
            }
        }
    )+};
}

scalars!(u32 u64 bool);

/// The result of a call.
trait Taken {
    fn weight(&self) -> usize;
    fn output(self) -> LiftedOutput;
}

impl Taken for () {
    fn weight(&self) -> usize {
        0
    }
    fn output(self) -> LiftedOutput {
        LiftedOutput::Ok(None)
    }
}

impl<R: Raise> Taken for (R,) {
    fn weight(&self) -> usize {
        self.0.size()
    }
    fn output(self) -> LiftedOutput {
        LiftedOutput::Ok(Some(json!({ "result": self.0.raise() })))
    }
}

impl<R: Raise> Taken for (Result<R, String>,) {
    fn weight(&self) -> usize {
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
