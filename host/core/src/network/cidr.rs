//! Address ranges.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

/// A range of addresses: a network address with a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Creates the range of this prefix length that contains `address`. `None` if the prefix is longer than the
    /// address.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let (address, prefix) = match address {
            IpAddr::V4(v4) if prefix <= 32 => (IpAddr::V4(masked4(v4, prefix)), prefix),
            IpAddr::V6(v6) if prefix <= 128 => (IpAddr::V6(masked6(v6, prefix)), prefix),
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self { address, prefix })
    }

    /// Creates an IPv4 range for the tables. `octets` must have no bits beyond the prefix.
    pub(super) const fn v4(octets: [u8; 4], prefix: u8) -> Self {
        let [a, b, c, d] = octets;
        Self {
            address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            prefix,
        }
    }

    /// Creates an IPv6 range for the tables. `segments` must have no bits beyond the prefix.
    pub(super) const fn v6(segments: [u16; 8], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = segments;
        Self {
            address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
            prefix,
        }
    }

    /// Returns the first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns true if `address` is in the range. An address of the other family is not.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(v4)) => masked4(v4, self.prefix) == ours,
            (IpAddr::V6(ours), IpAddr::V6(v6)) => masked6(v6, self.prefix) == ours,
            _ => false,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn masked4(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let host = 32 - u32::from(prefix);
    Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(host).unwrap_or(0))
}

fn masked6(address: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let host = 128 - u32::from(prefix);
    Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(host).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidr_contains_its_edges_and_no_neighbours() {
        for (net, prefix, inside, outside) in [
            (
                "10.0.0.0",
                8,
                vec!["10.0.0.0", "10.255.255.255"],
                vec!["9.255.255.255", "11.0.0.0", "::1"],
            ),
            (
                "172.16.0.0",
                12,
                vec!["172.16.0.0", "172.31.255.255"],
                vec!["172.15.255.255", "172.32.0.0"],
            ),
            ("0.0.0.0", 0, vec!["255.255.255.255"], vec!["::"]),
            ("1.2.3.4", 32, vec!["1.2.3.4"], vec!["1.2.3.5"]),
            (
                "fc00::",
                7,
                vec!["fc00::", "fdff:ffff::1"],
                vec!["fbff::", "fe00::", "10.0.0.1"],
            ),
            ("::", 0, vec!["ffff::"], vec!["0.0.0.0"]),
            ("::1", 128, vec!["::1"], vec!["::2"]),
        ] {
            let net = Cidr::new(net.parse().unwrap(), prefix).unwrap();
            for address in inside {
                assert!(net.contains(address.parse().unwrap()), "{address} in {net}");
            }
            for address in outside {
                assert!(
                    !net.contains(address.parse().unwrap()),
                    "{address} in {net}"
                );
            }
        }
        assert_eq!(Cidr::new("1.2.3.4".parse().unwrap(), 33), None);
        assert_eq!(Cidr::new("::".parse().unwrap(), 129), None);
    }
}
