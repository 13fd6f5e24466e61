//! Conversion of values between JSON and wasmtime, by the rules of [`schema`](super::schema).
//!
//! Both directions use the types of the loaded component, so a wrong cached description does no harm: a value that does
//! not match is refused with its path.

mod json_size;
mod lower;
mod raise;
mod scalars;

pub(super) use json_size::json_size;
pub(super) use lower::{LoweredArgument, byte_values, lower_arguments};
pub(super) use raise::{UnraisableValue, base64, raise};

use std::fmt::Write as _;

/// Error for JSON that does not match the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "/" } else { path })]
pub struct ValueError {
    /// The path as a JSON pointer; empty for the root.
    pub path: String,
    /// The fault, as a sentence for the model that wrote the value.
    pub message: String,
}

impl ValueError {
    /// Returns the error of a value that is part of another one, at `place`.
    pub(super) fn below(mut self, place: &str) -> Self {
        self.path = format!("/{place}{}", self.path);
        self
    }
}

/// A path in a JSON document, stored as a pointer.
#[derive(Default)]
struct ValuePath(String);

impl ValuePath {
    /// Runs `f` one step deeper.
    fn within<T>(&mut self, step: impl std::fmt::Display, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.0.len();
        let step = step.to_string().replace('~', "~0").replace('/', "~1");
        let _ = write!(self.0, "/{step}");
        let result = f(self);
        self.0.truncate(outer);
        result
    }

    fn error(&self, message: impl Into<String>) -> ValueError {
        ValueError {
            path: self.0.clone(),
            message: message.into(),
        }
    }
}

/// The spellings of floats for which JSON has no numbers.
const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const NEGATIVE_INFINITY: &str = "-Infinity";

/// The keys of variants and of options in options.
const TAG: &str = "tag";
const VALUE: &str = "value";
const SOME: &str = "some";

/// The keys of an entry in a map whose keys are not text.
const KEY: &str = "key";
