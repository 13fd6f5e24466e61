//! Token counts of texts, by the tokenizer o200k, and a cache of known counts.
//!
//! Creating the tokenizer takes a third of a second, so it is created for the first count that is not in the cache. The
//! key of a count is a [`TokenCountKey`], a hash of all inputs of the text, so a lookup does not need the text itself.
//!
//! Out of scope: files, tools, output.

mod count;
mod count_cache;

pub use count::count;
pub use count_cache::{TokenCountCache, TokenCountKey};
