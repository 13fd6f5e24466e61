//! The host's side of the contract's own imports, an interface a file.

mod commands;
pub(crate) mod config;
mod log;
mod model;
mod progress;
mod storage;
mod tools;
