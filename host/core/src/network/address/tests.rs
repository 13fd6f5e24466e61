use super::*;

use AddressScope::{Local, Never, Public};

fn class(text: &str) -> AddressClass {
    classify(text.parse().unwrap_or_else(|e| panic!("{text}: {e}")))
}

/// Covers both ends of every range and the addresses next to it.
#[test]
fn address_known_vectors_are_classified() {
    for (scope, addresses) in [
        (
            Public,
            "1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
             169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.1.255 192.0.3.0 192.31.195.255 \
             192.31.197.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 192.175.47.255 192.175.49.0 \
             198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 \
             168.63.129.15 2001:200:: 2001:4860:4860::8888 2606:4700:4700::1111 2003:: 2620:4f:7fff:: 2620:4f:8001:: \
             2a00:1450:4001::1 3ffd:ffff:: 3fff:1000:: ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2400:cb00::5efe:8.8.8.8",
        ),
        (
            Local,
            "10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0 127.0.0.1 127.255.255.255 169.254.0.0 \
             169.254.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255 ::1 \
             fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80:: febf:ffff::1 fec0:: feff:ffff::1 \
             64:ff9b:1:: 64:ff9b:1::10.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::127.0.0.1 \
             64:ff9b::10.1.2.3 64:ff9b::192.168.0.1 2400:cb00::5efe:10.0.0.1 2400:cb00::200:5efe:127.0.0.1 \
             64:ff9b:1:7f00:0:100::",
        ),
        (
            Never,
            "0.0.0.0 0.255.255.255 192.0.0.0 192.0.0.9 192.0.0.170 192.0.0.255 192.0.2.0 192.0.2.255 192.31.196.1 \
             192.52.193.1 192.88.99.1 192.175.48.1 198.51.100.1 203.0.113.255 224.0.0.0 239.255.255.255 240.0.0.0 \
             255.255.255.254 255.255.255.255 :: ::2 ::8.8.8.8 ::127.0.0.1 ::ffff:0:8.8.8.8 ::ffff:0:10.0.0.1 \
             ::ffff:0.0.0.0 ::ffff:224.0.0.1 64:ff9b::0.0.0.0 64:ff9b::255.255.255.255 64:ff9b:2:: 100:: \
             100::ffff:ffff:ffff:ffff 100:0:0:1:: 100:0:0:2:: 200:: 400:: 1fff:ffff:: 2001:: 2001::1 2001:0:1::1 \
             2001:1::1 2001:2::1 2001:3::1 2001:4:112::1 2001:10::1 2001:1f:ffff:: 2001:20::1 2001:30::1 2001:1ff:ffff::1 \
             2001:db8:: 2001:db8:ffff:ffff:: 2002:: 2002:808:808::1 2002:7f00:1::1 2002:ffff:ffff:: \
             2620:4f:8000::1 3ffe::1 3fff:: 3fff:fff:: 4000:: 5f00::1 8000:: fbff:ffff:: fe00:: ff00:: ff02::1 \
             64:ff9b:1:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ),
    ] {
        for address in addresses.split_whitespace() {
            assert_eq!(
                class(address).scope,
                scope,
                "{address}: {:?}",
                class(address)
            );
        }
    }
}

#[test]
fn address_metadata_is_found_in_every_wrapped_form() {
    for address in "169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.0.23 169.254.42.42 \
        168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42 \
        fe80::a9fe:a9fe fe80:0:0:7::a9fe:a9fe ::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254 \
        64:ff9b::169.254.169.254 64:ff9b::168.63.129.16 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1:a9:fe:a9fe:: 64:ff9b:1:0:a9:fea9:fe00:0 \
        64:ff9b:1::169.254.169.254 \
        2002:a9fe:a9fe:: 2002:a83f:8110::1 2001:0:a9fe:a9fe:: 2001:0:808:808::5601:5601 2400:cb00::5efe:169.254.169.254"
        .split_whitespace()
    {
        assert!(class(address).metadata.is_some(), "{address}");
    }
    for address in [
        "169.254.1.1",
        "168.63.129.17",
        "100.100.100.201",
        "fd00:ec3::254",
        "8.8.8.8",
    ] {
        assert_eq!(class(address).metadata, None, "{address}");
    }
}

/// Compares many addresses with the classification of the standard library.
#[test]
fn address_special_in_std_is_never_public() {
    // A fixed step through the whole address space: coprime to 2^32.
    const STEP: u32 = 2_654_435_761;
    for turn in 0..200_000_u32 {
        let v4 = Ipv4Addr::from_bits(turn.wrapping_mul(STEP));
        let special = v4.is_private()
            || v4.is_loopback()
            || v4.is_link_local()
            || v4.is_broadcast()
            || v4.is_documentation()
            || v4.is_multicast()
            || v4.is_unspecified();
        let plain = classify_v4(v4);
        assert!(!special || plain.scope > Public, "{v4}");
        // A wrapped address is at least as strict.
        let [a, b, c, d] = v4.octets().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        for wrapped in [
            v4.to_ipv6_mapped(),
            v4.to_ipv6_compatible(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, high, c, d << 8, 0, 0),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, 0x808, 0x808, 0, 0, !high, !low),
            Ipv6Addr::new(0x2400, 0xcb00, 0, 0, 0, 0x5efe, high, low),
        ] {
            if a == 0 && wrapped.segments()[2] == 1 {
                // In a local NAT64 prefix, a leading zero marks an unused position, not an address.
                continue;
            }
            let class = classify(wrapped.into());
            assert!(class.scope >= plain.scope, "{wrapped} of {v4}");
            assert_eq!(
                class.metadata.is_some(),
                plain.metadata.is_some(),
                "{wrapped} of {v4}"
            );
        }
    }
}

#[test]
fn address_table_ranges_are_all_reachable() {
    for entry in V4.iter().chain(V6) {
        let class = classify(entry.range.address());
        let is_own = (class.name, class.source) == (entry.name, entry.source);
        // Some ranges begin with a smaller listed one, or with an address that they wrap.
        let is_stricter = class.scope >= entry.scope;
        assert!(
            is_own || is_stricter,
            "{} is classified as {class:?}",
            entry.range
        );
        assert!(entry.source.starts_with("RFC "), "{}", entry.range);
    }
}
