//! What a server needs of the process it is.

mod listener;
mod streams;
mod token;

pub use listener::listen;
pub use streams::Streams;
pub use token::{Token, token};
