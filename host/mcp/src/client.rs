//! Third-party MCP servers as a backend: their tools are called through the same pipeline as all others.
//!
//! A server is started, or connected to, on the first call of one of its tools; its tool list is cached from the last
//! time. Its descriptions are untrusted: they are made safe to show, compared with what a person has seen, and can
//! only make a decision stricter. Its resources and prompts are read by tool calls, too, and its requests to the
//! client during a call pass the input request broker of that call.
//!
//! Out of scope: any access to a server's tool that bypasses [`mimir_core::Pipeline`], programs not started by
//! [`mimir_core::launch::Launcher`], and requests not sent by [`mimir_net::Client`].

mod attentive;
mod backend;
mod begun;
mod described;
mod desk;
mod ears;
mod end;
mod errors;
mod flags;
mod hidden;
mod library;
mod lines;
mod link;
mod lookup;
mod misfit;
mod names;
mod news;
mod oauth;
mod pace;
mod program;
mod readers;
mod result;
mod runner;
mod server;
mod servers;
mod spec;
mod wanted;
mod web;

pub use described::{Can, Described, Store};
pub use desk::Gates;
pub(crate) use ears::Updated;
pub(crate) use library::Library;
pub(crate) use lookup::Place;
pub(crate) use oauth::provider;
pub use oauth::{Facts, Known, Login, Logins, Pending, Plan, Unfit, secrets};
pub use program::leave;
pub(crate) use readers::whole;
pub use runner::{NotUnderstood, PackageRequest, package_request};
pub use server::{Clients, Deps};
pub use servers::{AGAIN, Found, Servers, Tried};
pub use spec::{ServerSpec, Way};
