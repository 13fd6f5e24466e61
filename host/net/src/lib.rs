//! The HTTP clients of mimir: every outbound request goes through [`HttpClient`] or [`HostClient`], and no other code
//! opens a socket.
//!
//! Each request passes these steps in order: URL, scheme and method are checked; the policy checks host and port; the
//! [`RequestAuthorizer`] is called; the [`Resolver`] looks up the name once; *every* returned address is checked; the
//! client connects to a checked address and uses the name for TLS and `Host`; [`SecretSwap`] replaces placeholders by
//! secrets. [`HttpClient::fetch`] takes each redirect through the same steps.
//!
//! [`HostClient`] sends the host's own requests over reqwest: to registries, authorization servers, the keys of identity
//! providers, model providers, MCP servers, and the URL of `mimir tools add`. [`HttpClient`] sends those of guests and
//! programs over hyper, because reqwest cannot be given their guarantees:
//!
//! - wasi:http, scripts, `web_fetch` and their secret placeholders: the limits for the head of a response must hold while
//!   it arrives, and reqwest has no setting for them.
//! - servers of a session: their connections begin in another network namespace, and reqwest opens its own sockets.
//! - [`Proxy`], which offers the client to foreign programs: its tunnels are TCP streams, which reqwest does not have.
//!
//! [`mimir_core::network`] decides which targets are allowed; this crate makes sure that no other target is reached:
//! not through an address in the URL, a second lookup, a redirect, a proxy set in the environment (ignored), or a
//! connection opened under an outdated policy ([`PolicyGuard`]).
//!
//! Out of scope: per-tool permissions, approval prompts, secret storage, cookies, caches, and HTML.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use mimir_core::network::{HostPattern, NetworkPolicy, NetworkRules};
//! use mimir_net::{HttpClient, PolicyGuard, RequestLimits, PolicyOnly, TlsRoots};
//!
//! let rules = NetworkRules { allowed: vec!["*.example.com".parse::<HostPattern>()?.into()], ..NetworkRules::default() };
//! let guard = Arc::new(PolicyGuard::new(NetworkPolicy::new(rules)));
//! let client = HttpClient::new(guard, Arc::new(PolicyOnly), TlsRoots::default(), RequestLimits::default(), None);
//!
//! let request = http::Request::get("http://169.254.169.254/latest/meta-data").body(bytes::Bytes::new())?;
//! let error = client.fetch(request).await.unwrap_err();
//! assert_eq!((error.kind(), error.code().as_str()), ("blocked", "POLICY_DENIED"));
//! # Ok(())
//! # }
//! ```

mod authorize;
mod authorized_request;
mod body;
mod client;
mod connector;
mod console_guard;
mod decode;
mod dial;
mod error;
mod fetch;
pub mod headers;
mod host_client;
mod hyper_errors;
mod limits;
mod policy_guard;
mod proxy;
mod redirect;
mod resolver;
mod secret_swap;
mod stream;
mod tls;
mod upload;
mod uri;

pub use authorize::{OutboundRequest, PolicyOnly, RequestAuthorizer, RequestPermit};
pub use body::ResponseBody;
pub use client::HttpClient;
pub use connector::SessionServerDialer;
pub use console_guard::{ConsoleAddresses, set_console_addresses};
pub use decode::unpack;
pub use error::{Error, OversizedPart, RequestStage};
pub use fetch::FetchedResponse;
pub use host_client::HostClient;
pub use limits::RequestLimits;
pub use policy_guard::PolicyGuard;
pub use proxy::{Proxy, ProxyRefusalHandler};
pub use resolver::{Resolver, SystemResolver};
pub use secret_swap::SecretSwap;
pub use tls::TlsRoots;
pub use upload::BoxError;
pub use uri::uri;
