//! WIT types as JSON Schema 2020-12: the rules for JSON arguments and results.
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string` | a boolean, a string |
//! | `s8` … `u64` | an integer in the type's range; 64 bits are exact, written without fraction or exponent |
//! | `f32`, `f64` | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"`, which JSON has no numbers for |
//! | `char` | a string of exactly one character |
//! | `list<u8>`, `stream<u8>` | base64 text |
//! | `list<T>`, `list<T, N>`, `tuple<…>` | an array; of any length, of N elements, of one element for each type |
//! | `map<string, T>` | an object with a property per entry |
//! | `map<K, T>` | an array of `{"key": …, "value": …}` |
//! | `record` | an object; fields under their WIT names, `option` fields may be omitted |
//! | `option<T>` | the value, or null; a present `option` in an `option` is `{"some": …}` |
//! | `variant`, `result` | `{"tag": "case", "value": …}`; no `value` if the case has none |
//! | `enum` | its name |
//! | `flags` | an array of the names that are set |
//! | `stream<T>` | an array; T is a scalar, text or bytes |
//! | `future<T>` | the value; T as for streams, or in a result a `result<T, string>` |
//!
//! A variant is an object with a tag, not one key per case: models fill a discriminator more reliably, all cases have
//! the same form, and the error for a wrong tag can name it. Branches are in `anyOf`, which more model providers accept
//! than `oneOf`; the tags distinguish them.
//!
//! Arguments are one object with a property per parameter. A result that is not a record is wrapped in `result`. The
//! outermost `result<T, E>` is not part of the value: T is the result and E the failure of the tool. Streams and futures
//! are whole arguments or results only.

mod schema_builder;
mod type_catalogue;

pub(super) use type_catalogue::TypeCatalogue;

use serde_json::{Map, Value, json};
use wasmparser::PrimitiveValType;

/// The reason why a function cannot be a tool; the end of a sentence that begins with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unliftable {
    #[error(
        "uses a resource, which has no form in JSON; only resources with a constructor, or a static function that returns them, and methods over plain types can be called"
    )]
    Resource,
    #[error(
        "uses a stream or future inside another type, or of values other than scalars, text and bytes; expected a whole argument or result"
    )]
    Stream,
    #[error("uses an error context, which has no form in JSON")]
    ErrorContext,
    #[error("has types that are too large to describe to a model")]
    TooLarge,
    #[error("has types that are nested too deep to describe to a model")]
    TooDeep,
    #[error("has an unknown type")]
    Unknown,
}

fn primitive(ty: PrimitiveValType) -> Result<Value, Unliftable> {
    fn integer(minimum: impl Into<Value>, maximum: impl Into<Value>) -> Value {
        json!({ "type": "integer", "minimum": minimum.into(), "maximum": maximum.into() })
    }
    fn float(number: Value) -> Value {
        json!({ "anyOf": [number, { "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] }] })
    }
    Ok(match ty {
        PrimitiveValType::Bool => json!({ "type": "boolean" }),
        PrimitiveValType::S8 => integer(i8::MIN, i8::MAX),
        PrimitiveValType::U8 => integer(u8::MIN, u8::MAX),
        PrimitiveValType::S16 => integer(i16::MIN, i16::MAX),
        PrimitiveValType::U16 => integer(u16::MIN, u16::MAX),
        PrimitiveValType::S32 => integer(i32::MIN, i32::MAX),
        PrimitiveValType::U32 => integer(u32::MIN, u32::MAX),
        PrimitiveValType::S64 => integer(i64::MIN, i64::MAX),
        PrimitiveValType::U64 => integer(u64::MIN, u64::MAX),
        PrimitiveValType::F32 => float(json!({
            "type": "number", "minimum": f64::from(f32::MIN), "maximum": f64::from(f32::MAX)
        })),
        PrimitiveValType::F64 => float(json!({ "type": "number" })),
        PrimitiveValType::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        PrimitiveValType::String => json!({ "type": "string" }),
        PrimitiveValType::ErrorContext => return Err(Unliftable::ErrorContext),
    })
}

/// Returns the object passed to `json!`.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Maximum depth of a schema. JSON parsers, serde_json among them, stop at 128, and a schema is part of a list of
/// tools in a message.
const MAX_DEPTH: usize = 100;

/// Returns the text of a schema, if other parsers can read it.
pub(super) fn text(schema: &Value) -> Result<String, Unliftable> {
    if depth(schema) > MAX_DEPTH {
        Err(Unliftable::TooDeep)
    } else {
        Ok(schema.to_string())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
