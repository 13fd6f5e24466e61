//! Classification of addresses, including IPv4 addresses embedded in IPv6 addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cidr::Cidr;
use super::metadata;
use super::special_addresses::{AddressRange, GLOBAL_V6, NAT64, UNALLOCATED, V4, V6};

/// The scope of an address, the least strict first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressScope {
    /// A host of the internet.
    Public,
    /// This machine or a private network. Blocked by `blockPrivateIPs`.
    Local,
    /// Not the address of a host, blocked under any setting: multicast, reserved, documentation, tunnels.
    Never,
}

/// The classification of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressClass {
    /// The scope.
    pub scope: AddressScope,
    /// The name of the address range in the registry.
    pub name: &'static str,
    /// The document that defines the address range.
    pub source: &'static str,
    /// The name of the metadata service at this address, if any. Blocked by `blockMetadataEndpoints`.
    pub metadata: Option<&'static str>,
    /// The embedded IPv4 address, if any.
    pub wraps: Option<Ipv4Addr>,
}

/// The class of addresses that are in none of the tables.
const PUBLIC: AddressClass = AddressClass {
    scope: AddressScope::Public,
    name: "public",
    source: "IANA",
    metadata: None,
    wraps: None,
};

/// Classifies an address and the IPv4 addresses embedded in it. The result has the strictest scope of them all, and the
/// metadata service at any of them.
///
/// ```
/// use mimir_core::network::{AddressScope, classify};
///
/// let nat64 = classify("64:ff9b::a9fe:a9fe".parse()?);
/// assert_eq!(nat64.scope, AddressScope::Local);
/// assert!(nat64.metadata.is_some());
/// assert_eq!(classify("8.8.8.8".parse()?).scope, AddressScope::Public);
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    let range = V4.iter().find(|entry| entry.range.contains(address.into()));
    AddressClass {
        metadata: metadata::service_at(address.into()),
        ..range.map_or(PUBLIC, AddressClass::from_range)
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let range = V6.iter().find(|entry| entry.range.contains(address.into()));
    let unallocated = || {
        let known = GLOBAL_V6.contains(address.into()) || NAT64.contains(address.into());
        (!known).then_some(&UNALLOCATED)
    };
    let mut class = AddressClass {
        metadata: metadata::service_at(metadata::without_zone(address).into()),
        ..range
            .or_else(unallocated)
            .map_or(PUBLIC, AddressClass::from_range)
    };
    for wrapped in wrapped_addresses(address).into_iter().flatten() {
        let inner = classify_v4(wrapped);
        class.metadata = class.metadata.or(inner.metadata);
        if inner.scope > class.scope {
            (class.scope, class.name, class.source) = (inner.scope, inner.name, inner.source);
        }
        class.wraps = class.wraps.or(Some(wrapped));
    }
    class
}

impl AddressClass {
    fn from_range(range: &AddressRange) -> Self {
        Self {
            scope: range.scope,
            name: range.name,
            source: range.source,
            ..PUBLIC
        }
    }
}

const COMPATIBLE: Cidr = Cidr::v6([0; 8], 96);
const TRANSLATED: Cidr = Cidr::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96);
const NAT64_LOCAL: Cidr = Cidr::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);
const SIX_TO_FOUR: Cidr = Cidr::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
const TEREDO: Cidr = Cidr::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);

/// Returns the IPv4 addresses embedded in an IPv6 address, to which a tunnel or translator could forward packets. Some
/// forms have two.
fn wrapped_addresses(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let octets = address.octets();
    let v4_at = |from: usize| {
        let part = octets.get(from..from + 4)?;
        <[u8; 4]>::try_from(part).ok().map(Ipv4Addr::from)
    };
    let is_in = |range: Cidr| range.contains(address.into());
    if is_in(COMPATIBLE) {
        // `::` and `::1` are not IPv4 addresses.
        return only((address.to_bits() > 1).then(|| v4_at(12)).flatten());
    }
    if is_in(TRANSLATED) || is_in(NAT64) {
        return only(v4_at(12));
    }
    if is_in(NAT64_LOCAL) {
        // RFC 6052 section 2.2: the network chooses the prefix within this range. With /48 and /56, the IPv4 address
        // skips octet 8; with /64, it follows octet 8; with /96, it is at the end.
        let [_, _, _, _, _, _, a, b, _, c, d, e, f, ..] = octets;
        let [under_48, under_56, under_64] =
            [[a, b, c, d], [b, c, d, e], [c, d, e, f]].map(|octets| Some(octets.into()));
        // Positions that are not in use are zero or begin with zeros.
        let candidates = [under_48, under_56, under_64, v4_at(12)];
        return candidates
            .map(|inner: Option<Ipv4Addr>| inner.filter(|it| it.octets().first() != Some(&0)));
    }
    if is_in(SIX_TO_FOUR) {
        return only(v4_at(2));
    }
    if is_in(TEREDO) {
        // RFC 4380 section 4: the address of the server, and that of the client with all bits inverted.
        let client = v4_at(12).map(|client| Ipv4Addr::from_bits(!client.to_bits()));
        return [v4_at(4), client, None, None];
    }
    // RFC 5214 section 6.1: ISATAP, under any prefix.
    match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => only(v4_at(12)),
        _ => [None; 4],
    }
}

/// Returns the result of [`wrapped_addresses`] for a single address.
fn only(address: Option<Ipv4Addr>) -> [Option<Ipv4Addr>; 4] {
    [address, None, None, None]
}

#[cfg(test)]
mod tests;
