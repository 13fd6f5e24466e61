//! The tests of `main.rs` with [`mimir_net::HostClient`], and tests of what only reqwest does.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use mimir_net::HostClient as Client;

mod addresses;
mod authorizer;
mod exchange;
mod keys;
mod kit;
mod limits;
mod load;
mod redirects;
mod requests;
mod reqwest_defaults;
mod revoked;
mod tls;
