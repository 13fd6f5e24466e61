//! What a server needs of the process it is.

mod streams;
mod token;

pub use streams::Streams;
pub use token::{Token, token};
