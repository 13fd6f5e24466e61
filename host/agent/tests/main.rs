//! The agent loop against a scripted model on loopback, in all three protocols.
#![expect(
    clippy::unwrap_used,
    reason = "a test that goes wrong ends where it goes wrong"
)]

mod bounds;
mod calls;
mod faults;
mod kit;
mod load;
mod workers;
