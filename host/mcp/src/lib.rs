//! The Model Context Protocol, both ways: mimir's tools for other people's agents, and other people's tools for mimir.
//!
//! A [`Server`] puts one pipeline before any number of clients; each connection is a session of its own. What a
//! client asks for becomes a [`mimir_core::Call`], and what comes of it the client reads in the protocol's words.
//!
//! [`client`] is the other way round: other people's servers, whose tools are called through that pipeline.
//!
//! Never here: a way to a tool that is not [`mimir_core::Pipeline`], or a word on stdout that is not the protocol's.

mod ask;
mod catalogue;
pub mod client;
mod discovery;
mod http;
mod lines;
mod logs;
mod marks;
mod metrics;
mod progress;
mod result;
mod server;
mod transport;
mod work;

pub use ask::token;
pub use catalogue::{TOOL_META, definition};
pub use http::{Http, HttpOptions, IdentityOptions};
pub use metrics::{Figure, FigureKind, Figures, Label};
pub use result::OUTCOME_META;
pub use server::{Asking, OnRefusal, Server};
pub use transport::ServeError;
