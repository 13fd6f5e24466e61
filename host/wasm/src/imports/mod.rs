//! Host implementations of the contract's own imports, and of those of foreign worlds, one interface per file.

mod commands;
pub(crate) mod config;
pub(crate) mod keyvalue;
mod log;
pub(crate) mod logging;
mod model;
pub(crate) mod near_agent;
mod progress;
mod storage;
mod tools;
