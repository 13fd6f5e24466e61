//! Tables of special-purpose addresses, with their sources.
//!
//! Based on the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), with multicast, withdrawn ranges,
//! and unallocated space. Entries marked as globally reachable are included if they are anycast services of the nearest
//! network, which do not host web services.

use super::address::AddressScope::{self, Local, Never};
use super::cidr::Cidr;

/// An entry of a registry.
#[derive(Debug)]
pub(super) struct AddressRange {
    pub(super) range: Cidr,
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    pub(super) scope: AddressScope,
}

const fn v4(
    octets: [u8; 4],
    prefix: u8,
    scope: AddressScope,
    name: &'static str,
    source: &'static str,
) -> AddressRange {
    AddressRange {
        range: Cidr::v4(octets, prefix),
        name,
        source,
        scope,
    }
}

const fn v6(
    segments: [u16; 8],
    prefix: u8,
    scope: AddressScope,
    name: &'static str,
    source: &'static str,
) -> AddressRange {
    AddressRange {
        range: Cidr::v6(segments, prefix),
        name,
        source,
        scope,
    }
}

/// IPv4 ranges. Of overlapping ranges, the smaller one comes first.
pub(super) const V4: &[AddressRange] = &[
    v4([0, 0, 0, 0], 8, Never, "this network", "RFC 791"),
    v4([10, 0, 0, 0], 8, Local, "private", "RFC 1918"),
    v4(
        [100, 64, 0, 0],
        10,
        Local,
        "shared by a carrier (CGNAT)",
        "RFC 6598",
    ),
    v4([127, 0, 0, 0], 8, Local, "loopback", "RFC 1122"),
    v4([169, 254, 0, 0], 16, Local, "link-local", "RFC 3927"),
    v4([172, 16, 0, 0], 12, Local, "private", "RFC 1918"),
    v4(
        [192, 0, 0, 0],
        24,
        Never,
        "protocol assignments",
        "RFC 6890",
    ),
    v4([192, 0, 2, 0], 24, Never, "documentation", "RFC 5737"),
    v4([192, 31, 196, 0], 24, Never, "AS112", "RFC 7535"),
    v4(
        [192, 52, 193, 0],
        24,
        Never,
        "multicast tunnelling (AMT)",
        "RFC 7450",
    ),
    v4([192, 88, 99, 0], 24, Never, "6to4 relay", "RFC 7526"),
    v4([192, 168, 0, 0], 16, Local, "private", "RFC 1918"),
    v4([192, 175, 48, 0], 24, Never, "AS112", "RFC 7534"),
    v4([198, 18, 0, 0], 15, Local, "benchmarking", "RFC 2544"),
    v4([198, 51, 100, 0], 24, Never, "documentation", "RFC 5737"),
    v4([203, 0, 113, 0], 24, Never, "documentation", "RFC 5737"),
    v4([224, 0, 0, 0], 4, Never, "multicast", "RFC 5771"),
    v4([255, 255, 255, 255], 32, Never, "broadcast", "RFC 8190"),
    v4([240, 0, 0, 0], 4, Never, "reserved", "RFC 1112"),
];

/// IPv6 ranges. Of overlapping ranges, the smaller one comes first.
pub(super) const V6: &[AddressRange] = &[
    v6(
        [0, 0, 0, 0, 0, 0, 0, 0],
        128,
        Never,
        "unspecified",
        "RFC 4291",
    ),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Local, "loopback", "RFC 4291"),
    v6(
        [0, 0, 0, 0, 0, 0, 0, 0],
        96,
        Never,
        "IPv4-compatible",
        "RFC 4291",
    ),
    v6(
        [0, 0, 0, 0, 0xffff, 0, 0, 0],
        96,
        Never,
        "IPv4-translated",
        "RFC 2765",
    ),
    v6(
        [0x64, 0xff9b, 1, 0, 0, 0, 0, 0],
        48,
        Local,
        "local NAT64",
        "RFC 8215",
    ),
    v6(
        [0x100, 0, 0, 0, 0, 0, 0, 0],
        64,
        Never,
        "discarded",
        "RFC 6666",
    ),
    v6(
        [0x100, 0, 0, 1, 0, 0, 0, 0],
        64,
        Never,
        "dummy prefix",
        "RFC 9780",
    ),
    v6(
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        32,
        Never,
        "Teredo",
        "RFC 4380",
    ),
    v6(
        [0x2001, 1, 0, 0, 0, 0, 0, 0],
        32,
        Never,
        "anycast services (PCP, TURN, DNS-SD)",
        "RFC 7723",
    ),
    v6(
        [0x2001, 2, 0, 0, 0, 0, 0, 0],
        48,
        Never,
        "benchmarking",
        "RFC 5180",
    ),
    v6(
        [0x2001, 3, 0, 0, 0, 0, 0, 0],
        32,
        Never,
        "multicast tunnelling (AMT)",
        "RFC 7450",
    ),
    v6(
        [0x2001, 4, 0x112, 0, 0, 0, 0, 0],
        48,
        Never,
        "AS112",
        "RFC 7535",
    ),
    v6(
        [0x2001, 0x10, 0, 0, 0, 0, 0, 0],
        28,
        Never,
        "ORCHID",
        "RFC 4843",
    ),
    v6(
        [0x2001, 0x20, 0, 0, 0, 0, 0, 0],
        28,
        Never,
        "ORCHIDv2",
        "RFC 7343",
    ),
    v6(
        [0x2001, 0x30, 0, 0, 0, 0, 0, 0],
        28,
        Never,
        "drone identifiers",
        "RFC 9374",
    ),
    v6(
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        Never,
        "protocol assignments",
        "RFC 2928",
    ),
    v6(
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],
        32,
        Never,
        "documentation",
        "RFC 3849",
    ),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Never, "6to4", "RFC 3056"),
    v6(
        [0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0],
        48,
        Never,
        "AS112",
        "RFC 7534",
    ),
    v6(
        [0x3ffe, 0, 0, 0, 0, 0, 0, 0],
        16,
        Never,
        "6bone",
        "RFC 3701",
    ),
    v6(
        [0x3fff, 0, 0, 0, 0, 0, 0, 0],
        20,
        Never,
        "documentation",
        "RFC 9637",
    ),
    v6(
        [0x5f00, 0, 0, 0, 0, 0, 0, 0],
        16,
        Never,
        "segment routing",
        "RFC 9602",
    ),
    v6(
        [0xfc00, 0, 0, 0, 0, 0, 0, 0],
        7,
        Local,
        "unique local",
        "RFC 4193",
    ),
    v6(
        [0xfe80, 0, 0, 0, 0, 0, 0, 0],
        10,
        Local,
        "link-local",
        "RFC 4291",
    ),
    v6(
        [0xfec0, 0, 0, 0, 0, 0, 0, 0],
        10,
        Local,
        "site-local",
        "RFC 3879",
    ),
    v6(
        [0xff00, 0, 0, 0, 0, 0, 0, 0],
        8,
        Never,
        "multicast",
        "RFC 4291",
    ),
];

/// The range that IANA has allocated for global unicast. Addresses that are neither in the tables nor in this range are
/// unallocated.
pub(super) const GLOBAL_V6: Cidr = Cidr::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// The entry for unallocated addresses.
pub(super) const UNALLOCATED: AddressRange = v6(
    [0, 0, 0, 0, 0, 0, 0, 0],
    0,
    Never,
    "unallocated",
    "RFC 4291",
);

/// NAT64: addresses of IPv4 hosts in IPv6-only networks. They are classified as the embedded IPv4 address.
pub(super) const NAT64: Cidr = Cidr::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
