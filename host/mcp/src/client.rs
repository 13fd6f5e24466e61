//! Other people's MCP servers as a backend: their tools, called through the same pipeline as all others.
//!
//! A server is started, or reached, when the first of its tools is called; what its tools are is known from the last
//! time. What it says of itself is a stranger's word: it is made safe to show, held to what a person has seen, and can
//! only make a decision stricter.
//!
//! Never here: a way to a server's tool past [`mimir_core::Pipeline`], a program that is not started by
//! [`mimir_core::launch::Launcher`], or a request that is not sent by [`mimir_net::Client`].

mod backend;
mod described;
mod ears;
mod flags;
mod lines;
mod link;
mod names;
mod program;
mod result;
mod server;
mod servers;
mod spec;
mod web;

pub use described::{Described, Store};
pub use server::{Clients, Deps};
pub use servers::{Found, Servers, Tried};
pub use spec::{ServerSpec, Way};
