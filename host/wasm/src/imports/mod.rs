//! The host's side of the contract's own imports, an interface a file.

mod absent;
mod log;
mod progress;
mod tools;
