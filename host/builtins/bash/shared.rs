//! Bytes or text that copies share, and that can be sliced without a copy.
//!
//! It is compiled as a module of bashkit (`../build/bash.rs`), replacing the `Vec<u8>` and the `String` in its
//! streams: those are copied completely for each command of a loop that reads a file, which makes `while read` over
//! some thousand lines quadratic. This module is independent of shells.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A type that can be sliced from a byte on.
pub(crate) trait Whole: Clone + Default {
    type Part: ?Sized + ToOwned<Owned = Self> + PartialEq + fmt::Debug;

    /// Returns the rest from `start` on, which is at most the length.
    fn from_byte(&self, start: usize) -> &Self::Part;
}

impl Whole for Vec<u8> {
    type Part = [u8];

    fn from_byte(&self, start: usize) -> &[u8] {
        self.get(start..).unwrap_or_default()
    }
}

impl Whole for String {
    type Part = str;

    fn from_byte(&self, start: usize) -> &str {
        self.get(start..).unwrap_or_default()
    }
}

/// A shared value, from a byte on.
#[derive(Clone)]
pub(crate) struct Shared<T> {
    // An `Arc` cannot be created in a constant, before the program runs.
    whole: Option<Arc<T>>,
    start: usize,
}

impl<T: Whole> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self {
            whole: None,
            start: 0,
        }
    }

    /// Returns it without its first bytes. For text, `bytes` has to be at the start of a character.
    pub(crate) fn without_first(&self, bytes: usize) -> Self {
        Self {
            whole: self.whole.clone(),
            start: self.start + bytes,
        }
    }

    /// Returns the owned value: copied if it is shared.
    pub(crate) fn into_whole(self) -> T {
        match self.whole {
            Some(whole) if self.start == 0 => {
                Arc::try_unwrap(whole).unwrap_or_else(|whole| T::clone(&whole))
            }
            Some(whole) => whole.from_byte(self.start).to_owned(),
            None => T::default(),
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut T)) {
        let mut whole = std::mem::replace(self, Self::new()).into_whole();
        change(&mut whole);
        *self = whole.into();
    }
}

impl Shared<Vec<u8>> {
    pub(crate) fn extend_from_slice(&mut self, more: &[u8]) {
        self.change(|bytes| bytes.extend_from_slice(more));
    }
}

impl Shared<String> {
    pub(crate) fn push_str(&mut self, more: &str) {
        self.change(|text| text.push_str(more));
    }
}

impl<T> From<T> for Shared<T> {
    fn from(whole: T) -> Self {
        Self {
            whole: Some(Arc::new(whole)),
            start: 0,
        }
    }
}

impl<T: Whole> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Whole> Deref for Shared<T>
where
    for<'a> &'a T::Part: Default,
{
    type Target = T::Part;

    fn deref(&self) -> &T::Part {
        match &self.whole {
            Some(whole) => whole.from_byte(self.start),
            None => <&T::Part>::default(),
        }
    }
}

impl<T: Whole> PartialEq for Shared<T>
where
    for<'a> &'a T::Part: Default,
{
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.whole, &other.whole) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        // Two slices of one value from the same start need no comparison.
        same && self.start == other.start || **self == **other
    }
}

impl<T: Whole> Eq for Shared<T> where for<'a> &'a T::Part: Default {}

impl PartialEq<&[u8]> for Shared<Vec<u8>> {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl PartialEq<Shared<Vec<u8>>> for &[u8] {
    fn eq(&self, other: &Shared<Vec<u8>>) -> bool {
        **self == **other
    }
}

impl<T: Whole> fmt::Debug for Shared<T>
where
    for<'a> &'a T::Part: Default,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
