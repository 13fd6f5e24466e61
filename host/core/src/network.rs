//! Network targets: host patterns, classes of addresses, and the policy that checks a request.
//!
//! A text is parsed once into a type ([`Target`], [`HostPattern`], [`Cidr`]), and only types are compared: `127.1`,
//! `0x7f000001` and `１２７.０.０.１` are one address before any rule sees them.
//!
//! Out of scope: sockets, name lookup, time. `core::net` has addresses and nothing that opens a socket.

mod address;
mod cidr;
mod host;
mod metadata;
mod pattern;
mod policy;
mod ports;
mod table;
mod target;
mod verdict;

pub use address::{Class, Reach, classify};
pub use cidr::Cidr;
pub use host::{Host, HostError};
pub use pattern::{HostPattern, PatternError};
pub use policy::{Entry, Mode, NetworkPolicy, Rules};
pub use ports::BLOCKED_PORTS;
pub use target::{Origin, Scheme, Target, UrlError};
pub use verdict::{Refusal, Verdict};
