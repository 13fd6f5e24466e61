//! Host implementations of the contract's own imports, one interface per file.

mod commands;
pub(crate) mod config;
mod log;
mod model;
mod progress;
mod storage;
mod tools;
