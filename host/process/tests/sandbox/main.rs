//! The sandboxes, with programs that behave and programs that do not.
#![cfg(target_os = "linux")]

mod bare;
mod escape;
mod kit;
mod ordinary;
