//! Tests against real servers on loopback, one for each attack and each kind of invalid input. They contact nothing
//! outside loopback; a test resolver answers for every name.

#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

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
