//! Conversion of values into JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::{Type, Val};

use super::{INFINITY, KEY, NAN, NEGATIVE_INFINITY, SOME, TAG, VALUE};

/// A value whose type has no form in JSON, or that does not match its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lift) struct UnraisableValue;

/// Converts one value of the type `ty`.
pub(in crate::lift) fn raise(value: &Val, ty: &Type) -> Result<Value, UnraisableValue> {
    Ok(match (value, ty) {
        (Val::Bool(value), Type::Bool) => json!(value),
        (Val::S8(value), Type::S8) => json!(value),
        (Val::U8(value), Type::U8) => json!(value),
        (Val::S16(value), Type::S16) => json!(value),
        (Val::U16(value), Type::U16) => json!(value),
        (Val::S32(value), Type::S32) => json!(value),
        (Val::U32(value), Type::U32) => json!(value),
        (Val::S64(value), Type::S64) => json!(value),
        (Val::U64(value), Type::U64) => json!(value),
        (Val::Float32(value), Type::Float32) => float(shortest_double(*value)),
        (Val::Float64(value), Type::Float64) => float(*value),
        (Val::Char(value), Type::Char) => json!(value),
        (Val::String(text), Type::String) | (Val::Enum(text), Type::Enum(_)) => json!(text),
        (Val::List(items), Type::List(list)) => match list.ty() {
            Type::U8 => bytes(items)?,
            ty => elements(items.iter().map(|item| (item, ty.clone())))?,
        },
        (Val::FixedLengthList(items), Type::FixedLengthList(list)) => {
            let ty = list.ty();
            elements(items.iter().map(|item| (item, ty.clone())))?
        }
        (Val::Tuple(items), Type::Tuple(tuple)) => elements(items.iter().zip(tuple.types()))?,
        (Val::Record(fields), Type::Record(record)) => {
            let fields = fields.iter().zip(record.fields());
            let fields =
                fields.map(|((name, value), field)| Ok((name.clone(), raise(value, &field.ty)?)));
            Value::Object(fields.collect::<Result<_, _>>()?)
        }
        (Val::Variant(tag, payload), Type::Variant(variant)) => {
            let case = variant
                .cases()
                .find(|case| case.name == tag)
                .ok_or(UnraisableValue)?;
            tagged(tag, payload.as_deref(), case.ty.as_ref())?
        }
        (Val::Result(Ok(payload)), Type::Result(ty)) => {
            tagged("ok", payload.as_deref(), ty.ok().as_ref())?
        }
        (Val::Result(Err(payload)), Type::Result(ty)) => {
            tagged("err", payload.as_deref(), ty.err().as_ref())?
        }
        (Val::Option(None), Type::Option(_)) => Value::Null,
        (Val::Option(Some(value)), Type::Option(option)) => match option.ty() {
            ty @ Type::Option(_) => json!({ SOME: raise(value, &ty)? }),
            ty => raise(value, &ty)?,
        },
        (Val::Map(pairs), Type::Map(map)) => entries(pairs, &map.key(), &map.value())?,
        (Val::Flags(names), Type::Flags(_)) => json!(names),
        _ => return Err(UnraisableValue),
    })
}

fn elements<'v>(items: impl Iterator<Item = (&'v Val, Type)>) -> Result<Value, UnraisableValue> {
    let items = items.map(|(item, ty)| raise(item, &ty));
    Ok(Value::Array(items.collect::<Result<_, _>>()?))
}

/// Converts a map: an object if the keys are text, otherwise an array of entries.
fn entries(pairs: &[(Val, Val)], key: &Type, value: &Type) -> Result<Value, UnraisableValue> {
    if *key == Type::String {
        let pairs = pairs.iter().map(|(name, item)| match name {
            Val::String(name) => Ok((name.clone(), raise(item, value)?)),
            _ => Err(UnraisableValue),
        });
        return Ok(Value::Object(pairs.collect::<Result<_, _>>()?));
    }
    let pairs = pairs
        .iter()
        .map(|(name, item)| Ok(json!({ KEY: raise(name, key)?, VALUE: raise(item, value)? })));
    Ok(Value::Array(pairs.collect::<Result<_, _>>()?))
}

/// Converts bytes.
pub(in crate::lift) fn base64(bytes: impl AsRef<[u8]>) -> Value {
    STANDARD.encode(bytes).into()
}

fn bytes(items: &[Val]) -> Result<Value, UnraisableValue> {
    let bytes = items.iter().map(|item| match item {
        Val::U8(byte) => Ok(*byte),
        _ => Err(UnraisableValue),
    });
    let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
    Ok(base64(bytes))
}

fn tagged(tag: &str, payload: Option<&Val>, ty: Option<&Type>) -> Result<Value, UnraisableValue> {
    let mut object = Map::new();
    object.insert(TAG.into(), tag.into());
    match (payload, ty) {
        (Some(value), Some(ty)) => {
            object.insert(VALUE.into(), raise(value, ty)?);
        }
        (None, None) => {}
        _ => return Err(UnraisableValue),
    }
    Ok(Value::Object(object))
}

fn float(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => NAN.into(),
        None if value > 0.0 => INFINITY.into(),
        None => NEGATIVE_INFINITY.into(),
    }
}

/// Returns the double with the shortest text for this float: 0.1 instead of 0.10000000149011612. The largest float is
/// returned unchanged; its short text is a little larger, and out of range.
fn shortest_double(value: f32) -> f64 {
    let max = f64::from(f32::MAX);
    match value.to_string().parse::<f64>() {
        Ok(short) if (short as f32).to_bits() == value.to_bits() && short.abs() <= max => short,
        _ => f64::from(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raise_keeps_floats_short_and_exact() {
        assert_eq!(float(shortest_double(0.1)), json!(0.1));
        assert_eq!(shortest_double(f32::MAX), f64::from(f32::MAX));
        let mut bits = 1_u32;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            if value.is_finite() {
                assert_eq!(
                    (shortest_double(value) as f32).to_bits(),
                    value.to_bits(),
                    "{value:e}"
                );
            }
        }
        assert_eq!(float(f64::NAN), json!("NaN"));
        assert_eq!(float(f64::INFINITY), json!("Infinity"));
        assert_eq!(
            float(shortest_double(f32::NEG_INFINITY)),
            json!("-Infinity")
        );
        assert_eq!(float(shortest_double(-0.0)).to_string(), "-0.0");
    }
}
