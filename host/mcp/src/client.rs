//! Other people's MCP servers as a backend: their tools, called through the same pipeline as all others.
//!
//! A server is started, or reached, when the first of its tools is called; what its tools are is known from the last
//! time. What it says of itself is a stranger's word: it is made safe to show, held to what a person has seen, and can
//! only make a decision stricter. What it has beside tools is read by calls, too, and what it wants of the client in the
//! middle of one goes over the call's desk.
//!
//! Never here: a way to a server's tool past [`mimir_core::Pipeline`], a program that is not started by
//! [`mimir_core::launch::Launcher`], or a request that is not sent by [`mimir_net::Client`].

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
