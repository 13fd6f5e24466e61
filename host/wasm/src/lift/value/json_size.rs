//! Estimate of a value's size as JSON, before conversion.

use wasmtime::component::Val;

/// Minimum size of a value: a digit and a separator.
const MIN_VALUE_SIZE: usize = 2;

/// Returns the approximate size of the value as JSON in bytes, never more than the real one.
pub(in crate::lift) fn json_size(value: &Val) -> usize {
    let items_size = |values: &[Val]| sum(values.iter().map(json_size));
    let inner = |value: &Option<Box<Val>>| value.as_deref().map_or(0, json_size);
    let own = match value {
        Val::String(text) | Val::Enum(text) => text.len(),
        // Bytes become base64.
        Val::List(items) if matches!(items.first(), Some(Val::U8(_))) => {
            return MIN_VALUE_SIZE + items.len().div_ceil(3).saturating_mul(4);
        }
        Val::List(items) | Val::FixedLengthList(items) | Val::Tuple(items) => items_size(items),
        Val::Record(fields) => sum(fields
            .iter()
            .map(|(name, value)| name.len() + json_size(value))),
        Val::Map(pairs) => sum(pairs
            .iter()
            .map(|(key, value)| json_size(key).saturating_add(json_size(value)))),
        Val::Variant(tag, payload) => tag.len() + inner(payload),
        Val::Result(Ok(payload) | Err(payload)) => inner(payload),
        Val::Option(payload) => inner(payload),
        Val::Flags(names) => sum(names.iter().map(String::len)),
        _ => 0,
    };
    own.saturating_add(MIN_VALUE_SIZE)
}

fn sum(weights: impl Iterator<Item = usize>) -> usize {
    weights.fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_size_counts_bytes_as_base64() {
        let bytes = |count| Val::List(vec![Val::U8(0); count]);
        assert_eq!(json_size(&bytes(3_000)), 4_002);
        let text = Val::String("x".repeat(100));
        assert_eq!(json_size(&text), 102);
        let deep = Val::Record(vec![
            ("a".to_owned(), Val::Option(Some(Box::new(text.clone())))),
            ("b".to_owned(), Val::Result(Err(Some(Box::new(text))))),
        ]);
        assert!(
            (204..230).contains(&json_size(&deep)),
            "{}",
            json_size(&deep)
        );
        assert_eq!(json_size(&Val::List(vec![Val::Bool(true); 10])), 22);
    }
}
