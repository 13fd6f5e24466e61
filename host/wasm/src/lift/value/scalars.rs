//! Scalar values.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mimir_core::text;
use serde_json::Value;

use super::{INFINITY, NAN, NEGATIVE_INFINITY, ValueError, ValuePath};

/// Accepts base64 with and without padding: models forget it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Above this, a float cannot represent all integers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Maximum length of an argument's text in a message, in characters.
pub(super) const MAX_SHOWN_CHARS: usize = 60;

/// Parses an integer exactly. `3.0` and `3e2` count as integers as far as floats are exact.
pub(super) fn integer<T: TryFrom<i128> + IntegerRange>(
    json: &Value,
    path: &ValuePath,
) -> Result<T, ValueError> {
    let range = || format!("an integer from {} to {}", T::MIN_VALUE, T::MAX_VALUE);
    let Value::Number(number) = json else {
        return Err(type_mismatch(json, &range(), path));
    };
    let exact = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(signed), _, _) => i128::from(signed),
        (None, Some(unsigned), _) => i128::from(unsigned),
        // The cast is exact: the value is an integer and small.
        (None, None, Some(float)) if float.fract() == 0.0 && float.abs() <= MAX_EXACT => {
            float as i128
        }
        _ => {
            return Err(path.error(format!(
                "must be {}, written without fraction or exponent, and is {number}",
                range()
            )));
        }
    };
    T::try_from(exact).map_err(|_| path.error(format!("must be {}, and is {number}", range())))
}

/// The range of an integer type, for messages.
pub(super) trait IntegerRange {
    const MIN_VALUE: i128;
    const MAX_VALUE: i128;
}

macro_rules! integer_ranges {
    ($($ty:ty)*) => {$(
        impl IntegerRange for $ty {
            const MIN_VALUE: i128 = <$ty>::MIN as i128;
            const MAX_VALUE: i128 = <$ty>::MAX as i128;
        }
    )*};
}

integer_ranges!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Parses a double, or its name if JSON has no number for it.
pub(super) fn float64(json: &Value, path: &ValuePath) -> Result<f64, ValueError> {
    match json {
        Value::Number(number) => number
            .as_f64()
            .ok_or_else(|| path.error("is too large for a number")),
        Value::String(text) if text == NAN => Ok(f64::NAN),
        Value::String(text) if text == INFINITY => Ok(f64::INFINITY),
        Value::String(text) if text == NEGATIVE_INFINITY => Ok(f64::NEG_INFINITY),
        other => Err(type_mismatch(
            other,
            "a number, or `NaN`, `Infinity` or `-Infinity`",
            path,
        )),
    }
}

/// Parses a float: the one nearest to the number.
pub(super) fn float32(json: &Value, path: &ValuePath) -> Result<f32, ValueError> {
    let wide = float64(json, path)?;
    if wide.is_finite() && wide.abs() > f64::from(f32::MAX) {
        return Err(path.error(format!(
            "must be between {:e} and {:e}, and is {json}",
            f32::MIN,
            f32::MAX
        )));
    }
    Ok(wide as f32)
}

/// Parses exactly one character.
pub(super) fn character(json: &Value, path: &ValuePath) -> Result<char, ValueError> {
    let text = string(json, path)?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(path.error(format!(
            "must be exactly one character, and has {}",
            text.chars().count()
        ))),
    }
}

/// Decodes base64.
pub(super) fn bytes(json: &Value, path: &ValuePath) -> Result<Vec<u8>, ValueError> {
    let text = json
        .as_str()
        .ok_or_else(|| type_mismatch(json, "bytes as base64 text", path))?;
    BASE64
        .decode(text)
        .map_err(|error| path.error(format!("must be bytes as base64 text: {error}")))
}

/// Parses text.
pub(super) fn string<'j>(json: &'j Value, path: &ValuePath) -> Result<&'j str, ValueError> {
    json.as_str()
        .ok_or_else(|| type_mismatch(json, "a string", path))
}

/// Returns the error for a value of another JSON type than expected.
pub(super) fn type_mismatch(json: &Value, expected: &str, path: &ValuePath) -> ValueError {
    let actual = match json {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!(
            "the string `{}`",
            text::visible(text::prefix(text, MAX_SHOWN_CHARS))
        ),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    path.error(format!("must be {expected}, and is {actual}"))
}
