//! Process-level support of `mimir serve`.

mod figures;
mod listener;
mod streams;
mod token;

pub use figures::figures;
pub use listener::listen;
pub use streams::Streams;
pub use token::{Token, token};
