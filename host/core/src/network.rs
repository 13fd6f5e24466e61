//! Network policy: host patterns, address classes, and checks of requests.
//!
//! Text is parsed once into a type ([`RequestTarget`], [`HostPattern`], [`Cidr`]), and only types are compared. So all
//! spellings of an address are equal for every rule: `127.1`, `0x7f000001` and `１２７.０.０.１`.
//!
//! Out of scope: sockets, name lookup, time. This module uses `core::net`, which cannot open sockets.

mod address;
mod cidr;
mod host;
mod metadata;
mod pattern;
mod policy;
mod ports;
mod special_addresses;
mod target;
mod verdict;

pub use address::{AddressClass, AddressScope, classify};
pub use cidr::Cidr;
pub use host::{HostParseError, NetworkHost};
pub use pattern::{HostPattern, HostPatternError};
pub use policy::{AllowedHost, NetworkMode, NetworkPolicy, NetworkRules};
pub use ports::BLOCKED_PORTS;
pub use target::{RequestTarget, UrlError, UrlOrigin, UrlScheme};
pub use verdict::{NetworkRefusal, NetworkVerdict};
