//! The Model Context Protocol in both directions: mimir's tools for other agents, and third-party tools for mimir.
//!
//! A [`Server`] exposes one pipeline to any number of clients; each connection is a session of its own. A client's
//! request becomes a [`mimir_core::Call`], and its outcome is returned in the protocol's form.
//!
//! [`client`] is the other direction: third-party servers, whose tools are called through that pipeline.
//!
//! Out of scope: access to tools that bypasses [`mimir_core::Pipeline`], and output on stdout other than protocol
//! messages.

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
