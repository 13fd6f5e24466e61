//! Attacks on the console over HTTP, on real listeners on loopback addresses.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot run has failed"
)]

mod attacks;
mod busy;
mod client;
mod console;
mod logins;
mod roles;
mod streams;
