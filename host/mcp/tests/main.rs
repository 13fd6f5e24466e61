//! The server over a pipe in memory, before a pipeline whose tools do what a test says.
#![expect(
    clippy::unwrap_used,
    reason = "a test that goes wrong ends where it goes wrong"
)]

mod asking;
mod behind;
mod calls;
mod clients;
mod discovery;
mod faults;
mod identity;
mod kit;
mod lists;
mod logins;
mod marks;
mod modern;
mod results;
mod web;
