//! Attributes of spans, log records and resources, in the JSON form of OTLP.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// An integer.
    Integer(u64),
    /// True or false.
    Flag(bool),
}

/// Attributes with unique names, in the order of insertion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(Vec<(Cow<'static, str>, AttributeValue)>);

impl Attributes {
    /// Sets an attribute.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<AttributeValue>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets an attribute if there is a value.
    pub fn set_some(&mut self, name: &'static str, value: Option<impl Into<AttributeValue>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        let mut all = self.0.iter();
        all.find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Returns the attributes as OTLP's list of `KeyValue`.
    pub(crate) fn to_json(&self) -> Value {
        let all = self.0.iter();
        all.map(|(name, value)| key_value(name, value)).collect()
    }
}

/// Returns OTLP's `KeyValue`. Integers are strings in JSON.
pub(crate) fn key_value(name: &str, value: &AttributeValue) -> Value {
    let value = match value {
        AttributeValue::Text(text) => json!({ "stringValue": text }),
        AttributeValue::Integer(number) => json!({ "intValue": number.to_string() }),
        AttributeValue::Flag(flag) => json!({ "boolValue": flag }),
    };
    json!({ "key": name, "value": value })
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}
