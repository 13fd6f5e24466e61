//! Hosts of URLs and settings: normalized names and addresses.

use core::net::IpAddr;
use std::fmt;

/// A host: a name in lower-case ASCII without a trailing dot, or an address. Equal hosts are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkHost {
    /// A name, as it is sent to a resolver.
    Name(Box<str>),
    /// An address; an IPv4-mapped IPv6 address (`::ffff:a.b.c.d`) is stored as its IPv4 address.
    Ip(IpAddr),
}

/// Reason why a text is not a valid host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostParseError {
    /// Neither a name by the rules of internationalised names nor an address.
    #[error("it is neither a name nor an address")]
    Invalid,
    /// A label between two dots is empty or too long, or the whole name is too long.
    #[error("a name must consist of labels of 1 to 63 characters, at most 253 characters in total")]
    Length,
}

/// Maximum length of a name without the trailing dot (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 253;
/// Maximum length of a label (RFC 1035 section 2.3.4).
const LABEL_MAX: usize = 63;

impl NetworkHost {
    /// Parses a host in any spelling that a browser accepts: IPv4 with decimal, octal, hexadecimal or missing parts,
    /// IPv6 in brackets, names in any case and script, percent-encoded.
    pub fn parse(text: &str) -> Result<Self, HostParseError> {
        match url::Host::parse(text).map_err(|_| HostParseError::Invalid)? {
            url::Host::Domain(name) => Self::name(&name),
            url::Host::Ipv4(address) => Ok(Self::ip(address.into())),
            url::Host::Ipv6(address) => Ok(Self::ip(address.into())),
        }
    }

    /// Converts the host of a parsed URL.
    pub(super) fn from_url_host(host: &url::Host<&str>) -> Result<Self, HostParseError> {
        match host {
            url::Host::Domain(name) => Self::name(name),
            url::Host::Ipv4(address) => Ok(Self::ip((*address).into())),
            url::Host::Ipv6(address) => Ok(Self::ip((*address).into())),
        }
    }

    fn ip(address: IpAddr) -> Self {
        Self::Ip(address.to_canonical())
    }

    fn name(name: &str) -> Result<Self, HostParseError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let fits = |label: &str| (1..=LABEL_MAX).contains(&label.len());
        if name.len() > NAME_MAX || !name.split('.').all(fits) {
            return Err(HostParseError::Length);
        }
        // URL hosts allow characters that DNS names and HTTP clients do not.
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !name.bytes().all(|byte| byte == b'.' || is_name_byte(byte)) {
            return Err(HostParseError::Invalid);
        }
        Ok(Self::Name(name.into()))
    }

    /// Returns true for `localhost` and names below it, which RFC 6761 reserves for loopback.
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
            Self::Ip(_) => false,
        }
    }

    /// Returns true for `localhost` and loopback addresses, which can only be this machine.
    pub fn is_this_machine(&self) -> bool {
        match self {
            Self::Ip(address) => address.to_canonical().is_loopback(),
            Self::Name(_) => self.is_localhost(),
        }
    }

    /// Returns the address; `None` for a name.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Ip(address) => Some(*address),
        }
    }
}

impl fmt::Display for NetworkHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_parse_normalizes_every_spelling() {
        for (text, host) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("0177.0x0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("%31%32%37.0.0.1", "127.0.0.1"),
            ("１２７.０.０.１", "127.0.0.1"),
            ("１２７。０。０。１", "127.0.0.1"),
            ("127｡0．0。1", "127.0.0.1"),
            ("①②⑦.⓪.⓪.①", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("0xa9fea9fe", "169.254.169.254"),
            ("0251.0376.0251.0376", "169.254.169.254"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("[0:0:0:0:0:FFFF:7F00:0001]", "127.0.0.1"),
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("ｅｘａｍｐｌｅ。com", "example.com"),
            ("LOCALHOST.", "localhost"),
            ("ⓛocalhost", "localhost"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("faß.example", "xn--fa-hia.example"),
            ("exa\u{ad}mple.com", "example.com"),
        ] {
            assert_eq!(
                NetworkHost::parse(text).map(|h| h.to_string()).as_deref(),
                Ok(host),
                "{text}"
            );
        }
        let long = "a.".repeat(127) + "com";
        let label = "a".repeat(64) + ".com";
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "a@b",
            "a/b",
            "a\\b",
            "256.1.1.1",
            "1.2.3.4.5",
            "0x1ffffffff",
            "[::1",
            "[::1%25eth0]",
            "a\r\nb",
            "a%00b",
            "xn--a",
            "example.com..",
            &long,
            &label,
        ] {
            assert!(NetworkHost::parse(text).is_err(), "{text}");
        }
    }
}
