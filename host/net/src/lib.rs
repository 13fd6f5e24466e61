//! The network client: every request of mimir to a network goes through [`Client`], and nothing else here opens a
//! socket.
//!
//! A request passes these steps in order: URL, scheme and method; port and host by the policy; the authorizer
//! ([`Authorize`]); one lookup of the name ([`Resolver`]); a check of *every* address returned; a connection to a
//! checked address, with the name kept for TLS and `Host`; secrets in place of their placeholders ([`Swap`]).
//! [`Client::fetch`] takes each redirect through the same steps.
//!
//! [`Proxy`] offers the same client to foreign programs over HTTP.
//!
//! [`mimir_core::network`] decides which targets are allowed; this crate makes sure that nothing else is reached: not
//! by an address in the URL, a second lookup, a redirect, a proxy set in the environment (ignored), or a connection
//! opened under a policy that is no longer in force ([`Guard`]).
//!
//! Out of scope: per-tool permissions, approval prompts, secret storage, cookies, caches, and HTML.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use mimir_core::network::{HostPattern, NetworkPolicy, Rules};
//! use mimir_net::{Client, Guard, Limits, PolicyAlone, Roots};
//!
//! let rules = Rules { allowed: vec!["*.example.com".parse::<HostPattern>()?.into()], ..Rules::default() };
//! let guard = Arc::new(Guard::new(NetworkPolicy::new(rules)));
//! let client = Client::new(guard, Arc::new(PolicyAlone), Roots::default(), Limits::default(), None);
//!
//! let request = http::Request::get("http://169.254.169.254/latest/meta-data").body(bytes::Bytes::new())?;
//! let error = client.fetch(request).await.unwrap_err();
//! assert_eq!((error.kind(), error.code().as_str()), ("blocked", "POLICY_DENIED"));
//! # Ok(())
//! # }
//! ```

mod authorize;
mod body;
mod client;
mod connector;
mod decode;
mod dial;
mod error;
mod failure;
mod fetch;
mod guard;
pub mod headers;
mod hold;
mod limits;
mod proxy;
mod redirect;
mod resolver;
mod secrets;
mod stream;
mod tls;
mod upload;
mod uri;

pub use authorize::{Ask, Authorize, Permit, PolicyAlone};
pub use body::Body;
pub use client::Client;
pub use connector::Servers;
pub use decode::unpack;
pub use error::{Error, Stage};
pub use fetch::Fetched;
pub use guard::Guard;
pub use limits::Limits;
pub use proxy::{Proxy, Refused};
pub use resolver::{Resolver, System};
pub use secrets::Swap;
pub use tls::Roots;
pub use upload::BoxError;
pub use uri::uri;
