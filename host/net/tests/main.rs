//! Tests against real servers on loopback, one for each attack and each kind of invalid input. They contact nothing
//! outside loopback; a test resolver answers for every name. `host_client.rs` runs them with the client of the host's
//! own requests.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

use mimir_net::HttpClient as Client;

mod addresses;
mod authorizer;
mod exchange;
mod keys;
mod kit;
mod limits;
mod load;
mod redirects;
mod requests;
mod revoked;
mod secrets;
mod tls;
