//! Values of types that are known when mimir is compiled: scalars, text and bytes.
//!
//! wasmtime passes them to typed functions, streams and futures without a [`Val`] for each part.

use serde_json::Value;
use wasmtime::component::{ComponentType, Lift, Lower, Type, Val};

use super::value;

/// Bytes as one value.
pub(super) type ByteList = Vec<u8>;

/// A scalar, text, or bytes.
pub(super) trait PlainValue:
    ComponentType + Lift + Lower + Send + Sync + Unpin + 'static
{
    /// Returns its approximate size as JSON, in bytes.
    fn size(&self) -> usize;
    /// Converts it to JSON.
    fn raise(self) -> Value;
    /// Converts a value of this type. `None` for a value of another type.
    fn from_value(value: Val) -> Option<Self>;
}

impl PlainValue for ByteList {
    fn size(&self) -> usize {
        self.len().div_ceil(3).saturating_mul(4)
    }
    fn raise(self) -> Value {
        value::base64(self)
    }
    fn from_value(value: Val) -> Option<Self> {
        let Val::List(items) = value else {
            return None;
        };
        let bytes = items.into_iter().map(|item| match item {
            Val::U8(byte) => Some(byte),
            _ => None,
        });
        bytes.collect()
    }
}

macro_rules! plain_values {
    ($($ty:ty, $case:ident, $size:expr;)+) => {$(
        impl PlainValue for $ty {
            fn size(&self) -> usize {
                let size: fn(&Self) -> usize = $size;
                size(self)
            }
            fn raise(self) -> Value {
                // A value of its own type always has a form in JSON.
                value::raise(&Val::$case(self), &Type::$case).unwrap_or_default()
            }
            fn from_value(value: Val) -> Option<Self> {
                match value {
                    Val::$case(value) => Some(value),
                    _ => None,
                }
            }
        }
    )+};
}

/// Counted size of a number in bytes: more than its text, because each one takes a whole value in memory.
const NUMBER_SIZE: usize = 16;

plain_values! {
    bool, Bool, |_| NUMBER_SIZE;
    i8, S8, |_| NUMBER_SIZE;
    u8, U8, |_| NUMBER_SIZE;
    i16, S16, |_| NUMBER_SIZE;
    u16, U16, |_| NUMBER_SIZE;
    i32, S32, |_| NUMBER_SIZE;
    u32, U32, |_| NUMBER_SIZE;
    i64, S64, |_| NUMBER_SIZE;
    u64, U64, |_| NUMBER_SIZE;
    f32, Float32, |_| NUMBER_SIZE;
    f64, Float64, |_| NUMBER_SIZE;
    char, Char, |_| NUMBER_SIZE;
    String, String, |text| text.len() + NUMBER_SIZE;
}

/// Calls a function that is generic over one [`PlainValue`] with the Rust type of a component type, or evaluates to
/// `$otherwise` if there is none.
macro_rules! with_plain_type {
    ($ty:expr, $function:ident($($argument:expr),*), $otherwise:expr) => {
        match $ty {
            Type::Bool => $function::<bool>($($argument),*),
            Type::S8 => $function::<i8>($($argument),*),
            Type::U8 => $function::<u8>($($argument),*),
            Type::S16 => $function::<i16>($($argument),*),
            Type::U16 => $function::<u16>($($argument),*),
            Type::S32 => $function::<i32>($($argument),*),
            Type::U32 => $function::<u32>($($argument),*),
            Type::S64 => $function::<i64>($($argument),*),
            Type::U64 => $function::<u64>($($argument),*),
            Type::Float32 => $function::<f32>($($argument),*),
            Type::Float64 => $function::<f64>($($argument),*),
            Type::Char => $function::<char>($($argument),*),
            Type::String => $function::<String>($($argument),*),
            Type::List(list) if list.ty() == Type::U8 => $function::<ByteList>($($argument),*),
            _ => $otherwise,
        }
    };
}
pub(super) use with_plain_type;
