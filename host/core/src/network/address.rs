//! The class of an address, including every IPv4 address wrapped in an IPv6 address.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::cidr::Cidr;
use super::metadata;
use super::special_addresses::{AddressRange, GLOBAL_V6, NAT64, UNALLOCATED, V4, V6};

/// The scope of an address, in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressScope {
    /// A host of the internet.
    Public,
    /// This machine or a private network. `blockPrivateIPs` covers these.
    Local,
    /// Not a host, or never reachable under any setting: multicast, reserved, documentation, tunnels.
    Never,
}

/// The classification of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressClass {
    /// The scope.
    pub reach: AddressScope,
    /// The name in the registry.
    pub name: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// The owner of the metadata service at this address. `blockMetadataEndpoints` covers these.
    pub metadata: Option<&'static str>,
    /// The IPv4 address that it wraps.
    pub wraps: Option<Ipv4Addr>,
}

/// The class of an address in none of the tables.
const PUBLIC: AddressClass = AddressClass {
    reach: AddressScope::Public,
    name: "public",
    source: "IANA",
    metadata: None,
    wraps: None,
};

/// Classifies an address. Of an address and those that it wraps, the strictest class counts, and a metadata service
/// behind any of them counts.
///
/// ```
/// use mimir_core::network::{AddressScope, classify};
///
/// let nat64 = classify("64:ff9b::a9fe:a9fe".parse()?);
/// assert_eq!(nat64.reach, AddressScope::Local);
/// assert!(nat64.metadata.is_some());
/// assert_eq!(classify("8.8.8.8".parse()?).reach, AddressScope::Public);
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(v4) => class4(v4),
        IpAddr::V6(v6) => class6(v6),
    }
}

fn class4(address: Ipv4Addr) -> AddressClass {
    let line = V4.iter().find(|line| line.range.contains(address.into()));
    AddressClass {
        metadata: metadata::address(address.into()),
        ..line.map_or(PUBLIC, AddressClass::of)
    }
}

fn class6(address: Ipv6Addr) -> AddressClass {
    let line = V6.iter().find(|line| line.range.contains(address.into()));
    let unallocated = || {
        let known = GLOBAL_V6.contains(address.into()) || NAT64.contains(address.into());
        (!known).then_some(&UNALLOCATED)
    };
    let mut class = AddressClass {
        metadata: metadata::address(metadata::without_zone(address).into()),
        ..line.or_else(unallocated).map_or(PUBLIC, AddressClass::of)
    };
    for inner in wrapped(address).into_iter().flatten() {
        let inside = class4(inner);
        class.metadata = class.metadata.or(inside.metadata);
        if inside.reach > class.reach {
            (class.reach, class.name, class.source) = (inside.reach, inside.name, inside.source);
        }
        class.wraps = class.wraps.or(Some(inner));
    }
    class
}

impl AddressClass {
    fn of(line: &AddressRange) -> Self {
        Self {
            reach: line.reach,
            name: line.name,
            source: line.source,
            ..PUBLIC
        }
    }
}

const COMPATIBLE: Cidr = Cidr::v6([0; 8], 96);
const TRANSLATED: Cidr = Cidr::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96);
const NAT64_LOCAL: Cidr = Cidr::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48);
const SIX_TO_FOUR: Cidr = Cidr::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);
const TEREDO: Cidr = Cidr::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32);

/// The IPv4 addresses to which packets could be unwrapped; some forms carry two.
fn wrapped(address: Ipv6Addr) -> [Option<Ipv4Addr>; 4] {
    let octets = address.octets();
    let at = |from: usize| {
        let part = octets.get(from..from + 4)?;
        <[u8; 4]>::try_from(part).ok().map(Ipv4Addr::from)
    };
    let is = |range: Cidr| range.contains(address.into());
    if is(COMPATIBLE) {
        // `::` and `::1` are not IPv4 addresses.
        return one((address.to_bits() > 1).then(|| at(12)).flatten());
    }
    if is(TRANSLATED) || is(NAT64) {
        return one(at(12));
    }
    if is(NAT64_LOCAL) {
        // RFC 6052 section 2.2: the network chooses the prefix within this range. Under /48 and /56 the address skips
        // octet 8, under /64 it follows it, under /96 it is at the end.
        let [_, _, _, _, _, _, a, b, _, c, d, e, f, ..] = octets;
        let places = [[a, b, c, d], [b, c, d, e], [c, d, e, f]].map(|it| Some(it.into()));
        let [under_48, under_56, under_64] = places;
        // Positions that are not in use are zero or begin with zeros.
        let all = [under_48, under_56, under_64, at(12)];
        return all
            .map(|inner: Option<Ipv4Addr>| inner.filter(|it| it.octets().first() != Some(&0)));
    }
    if is(SIX_TO_FOUR) {
        return one(at(2));
    }
    if is(TEREDO) {
        // RFC 4380 section 4: the server, and the client with all bits inverted.
        let client = at(12).map(|client| Ipv4Addr::from_bits(!client.to_bits()));
        return [at(4), client, None, None];
    }
    // RFC 5214 section 6.1: ISATAP, under any prefix.
    match address.segments() {
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => one(at(12)),
        _ => [None; 4],
    }
}

fn one(address: Option<Ipv4Addr>) -> [Option<Ipv4Addr>; 4] {
    [address, None, None, None]
}

#[cfg(test)]
mod tests;
