//! Cloud metadata services, which provide the credentials of a machine.

use core::net::{IpAddr, Ipv6Addr};

use super::cidr::Cidr;
use super::host::NetworkHost;

/// Address ranges with the names of their services.
const ADDRESSES: &[(Cidr, &str)] = &[
    // AWS, Google, Azure, Oracle, DigitalOcean, OpenStack and most others (169.254.169.254), and further ones of AWS.
    (
        Cidr::v4([169, 254, 169, 0], 24),
        "the metadata service of most clouds",
    ),
    // AWS: ECS tasks (.2) and EKS pod identity (.23).
    (
        Cidr::v4([169, 254, 170, 0], 24),
        "the credentials of AWS containers",
    ),
    (
        Cidr::v4([169, 254, 0, 23], 32),
        "the metadata service of Tencent Cloud",
    ),
    (
        Cidr::v4([169, 254, 42, 42], 32),
        "the metadata service of Scaleway",
    ),
    (Cidr::v4([168, 63, 129, 16], 32), "the WireServer of Azure"),
    (
        Cidr::v4([100, 100, 100, 200], 32),
        "the metadata service of Alibaba Cloud",
    ),
    (
        Cidr::v4([192, 0, 0, 192], 32),
        "the metadata service of Oracle Cloud classic",
    ),
    (
        Cidr::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
        "the metadata service of AWS",
    ),
    (
        Cidr::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
        "the metadata service of Google Cloud",
    ),
    (
        Cidr::v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128),
        "the metadata service of Scaleway",
    ),
    (
        Cidr::v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
        "the metadata service of OpenStack",
    ),
];

/// Host names with the names of their services. Some resolve to a public address, some only inside a cloud.
const NAMES: &[(&str, &str)] = &[
    ("metadata", "the metadata service of Google Cloud"),
    (
        "metadata.google.internal",
        "the metadata service of Google Cloud",
    ),
    ("metadata.goog", "the metadata service of Google Cloud"),
    ("instance-data", "the metadata service of AWS"),
    ("instance-data.ec2.internal", "the metadata service of AWS"),
    ("metadata.azure.internal", "the metadata service of Azure"),
    ("metadata.azure.com", "the metadata service of Azure"),
    (
        "metadata.tencentyun.com",
        "the metadata service of Tencent Cloud",
    ),
    (
        "metadata.platformequinix.com",
        "the metadata service of Equinix Metal",
    ),
    (
        "metadata.packet.net",
        "the metadata service of Equinix Metal",
    ),
    (
        "api.metadata.cloud.ibm.com",
        "the metadata service of IBM Cloud",
    ),
    ("rancher-metadata", "the metadata service of Rancher"),
];

/// Returns the name of the metadata service at an address.
pub(super) fn service_at(address: IpAddr) -> Option<&'static str> {
    ADDRESSES
        .iter()
        .find(|(range, _)| range.contains(address))
        .map(|(_, service)| *service)
}

/// Returns the name of the metadata service with this host name.
pub(super) fn service_named(host: &NetworkHost) -> Option<&'static str> {
    let NetworkHost::Name(name) = host else {
        return None;
    };
    NAMES
        .iter()
        .find(|(known, _)| **known == **name)
        .map(|(_, service)| *service)
}

/// Clears the bits of a `fe80::/10` address that are zero by the RFC. They may contain a zone.
pub(super) fn without_zone(address: Ipv6Addr) -> Ipv6Addr {
    let [first, .., e, f, g, h] = address.segments();
    if address.is_unicast_link_local() {
        Ipv6Addr::new(first & 0xffc0, 0, 0, 0, e, f, g, h)
    } else {
        address
    }
}
