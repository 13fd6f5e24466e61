//! How many tokens a text is to a model, by the tokenizer o200k, and a book of the counts that are known.
//!
//! The tokenizer takes a third of a second to be made, so it is made when the first count is not in the book. A count
//! stands in the book under a [`Key`], a hash of all that the text follows from: whoever knows a key need not even
//! write the text out.
//!
//! Never here: files, tools, what is printed.

mod book;
mod count;

pub use book::{Book, Key};
pub use count::count;
