//! Token counts of texts, by the tokenizer o200k, and a cache of known counts.
//!
//! Creating the tokenizer takes a third of a second, so it is created for the first count that is not in the cache.
//! The key of a count is a [`Key`], a hash of all inputs of the text: a lookup does not even need the text itself.
//!
//! Out of scope: files, tools, output.

mod book;
mod count;

pub use book::{Book, Key};
pub use count::count;
