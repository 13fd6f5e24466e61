//! What a server needs of the process it is.

mod streams;

pub use streams::Streams;
