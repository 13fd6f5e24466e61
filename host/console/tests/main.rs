//! Attacks on the console over HTTP, on real listeners on loopback addresses.

mod attacks;
mod client;
mod console;
mod roles;
mod streams;
