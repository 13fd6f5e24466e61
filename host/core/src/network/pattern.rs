//! Host patterns in settings and needs.

use core::net::IpAddr;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::cidr::Cidr;
use super::host::{HostParseError, NetworkHost};
use super::target::{RequestTarget, UrlScheme};

/// A host pattern, parsed once and compared as a type, not as text:
///
/// | pattern | means |
/// |---|---|
/// | `example.com` | this name, on every port, by http or https |
/// | `*.example.com` | every name below `example.com`, at any depth; **not** `example.com` itself |
/// | `example.com:8443` | this name on this port |
/// | `https://example.com` | this name by https on port 443; `https://example.com:8443` on another port |
/// | `192.0.2.1`, `[2001:db8::1]` | this address, in a URL with an address as its host |
/// | `10.0.0.0/8`, `[fd00::]/8` | every address of the range, in such a URL; `10.0.0.0/8:8080` on one port |
///
/// Names are parsed as in a URL: case, a trailing dot, full-width letters and the script do not matter
/// (`BÜCHER.example` is `xn--bcher-kva.example`), and neither does the spelling of an address (`0x7f.1` is
/// `127.0.0.1`). A pattern of addresses never matches a name that resolves to them.
///
/// ```
/// use mimir_core::network::{HostPattern, RequestTarget};
///
/// let below: HostPattern = "*.Example.com".parse()?;
/// assert!(below.matches(&RequestTarget::parse("https://api.example.com/v1")?));
/// assert!(!below.matches(&RequestTarget::parse("https://example.com/")?));
/// assert!(!below.matches(&RequestTarget::parse("https://badexample.com/")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    scheme: Option<UrlScheme>,
    hosts: HostMatcher,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostMatcher {
    /// Every host; see [`HostPattern::any`].
    Any,
    Exactly(NetworkHost),
    /// All names that end in this suffix, which begins with a dot.
    Below(Box<str>),
    Range(Cidr),
}

/// Error of a text that is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a valid host pattern: {fault}")]
pub struct HostPatternError {
    pattern: String,
    fault: HostPatternFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum HostPatternFault {
    #[error("{0}")]
    Host(#[from] HostParseError),
    #[error("the scheme must be http or https")]
    Scheme,
    #[error("a port must be a number from 1 to 65535")]
    Port,
    #[error("write an IPv6 address in brackets, as in [::1] or [::1]:8080")]
    Brackets,
    #[error("a pattern must end with the host or its port, without path, user or query")]
    Path,
    #[error("write a range as 10.0.0.0/8 or [fd00::]/8")]
    Range,
    #[error("the address has bits beyond the prefix; the range is written {0}")]
    HostBits(Cidr),
    #[error("`*` is only supported at the beginning, before a dot and a name, as in *.example.com")]
    Star,
    #[error("to allow every host, set `mode: any`; only the needs of a tool may contain `*`")]
    Everything,
}

impl HostPattern {
    /// Creates a pattern for every host, for the needs of a tool that takes arbitrary URLs. It cannot be parsed from
    /// text, because settings use `mode: any` instead.
    pub const fn any() -> Self {
        Self {
            scheme: None,
            hosts: HostMatcher::Any,
            port: None,
        }
    }

    /// Returns true for the pattern of every host.
    pub fn is_any(&self) -> bool {
        self.hosts == HostMatcher::Any
    }

    /// Returns true for a pattern of all hosts below a name without a dot, such as `*.com`.
    pub fn is_below_top_level_domain(&self) -> bool {
        matches!(&self.hosts, HostMatcher::Below(suffix) if !suffix[1..].contains('.'))
    }

    /// Returns true if the pattern names addresses instead of names. Only such patterns allow requests to private networks.
    pub fn is_address(&self) -> bool {
        match &self.hosts {
            HostMatcher::Exactly(host) => host.address().is_some(),
            HostMatcher::Range(_) => true,
            HostMatcher::Any | HostMatcher::Below(_) => false,
        }
    }

    /// Returns true for `localhost`, for names below it, and for a loopback address.
    pub fn is_this_machine(&self) -> bool {
        match &self.hosts {
            HostMatcher::Exactly(host) => host.is_this_machine(),
            HostMatcher::Below(suffix) => suffix.ends_with(".localhost"),
            HostMatcher::Any | HostMatcher::Range(_) => false,
        }
    }

    /// Returns true if the pattern matches a request and is not [`any`](Self::any).
    pub fn names(&self, target: &RequestTarget) -> bool {
        !self.is_any() && self.matches(target)
    }

    /// Returns true if the pattern matches a request.
    pub fn matches(&self, target: &RequestTarget) -> bool {
        self.scheme.is_none_or(|scheme| scheme == target.scheme())
            && self.port.is_none_or(|port| port == target.port())
            && match (&self.hosts, target.host()) {
                (HostMatcher::Any, _) => true,
                (HostMatcher::Exactly(ours), host) => ours == host,
                (HostMatcher::Below(suffix), NetworkHost::Name(name)) => name.ends_with(&**suffix),
                (HostMatcher::Range(range), NetworkHost::Ip(address)) => range.contains(*address),
                (HostMatcher::Below(_), NetworkHost::Ip(_))
                | (HostMatcher::Range(_), NetworkHost::Name(_)) => false,
            }
    }

    fn parse(text: &str) -> Result<Self, HostPatternFault> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (
                Some(UrlScheme::parse(scheme).ok_or(HostPatternFault::Scheme)?),
                rest,
            ),
            None => (None, text),
        };
        if rest.contains(['@', '?', '#', '\\']) {
            return Err(HostPatternFault::Path);
        }
        let (hosts, port) = match rest.split_once('/') {
            Some((address, tail)) => parse_range(address, tail)?,
            None => {
                let (host, port) = split_port(rest)?;
                (parse_hosts(host)?, port)
            }
        };
        // A pattern with a scheme is an origin, which has one port.
        let port = port.or(scheme.map(UrlScheme::default_port));
        Ok(Self {
            scheme,
            hosts,
            port,
        })
    }
}

fn parse_hosts(text: &str) -> Result<HostMatcher, HostPatternFault> {
    if text == "*" {
        return Err(HostPatternFault::Everything);
    }
    let (is_wildcard, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    if name.contains('*') {
        return Err(HostPatternFault::Star);
    }
    match (is_wildcard, NetworkHost::parse(name)?) {
        (true, NetworkHost::Name(name)) => Ok(HostMatcher::Below(format!(".{name}").into())),
        (true, NetworkHost::Ip(_)) => Err(HostPatternFault::Star),
        (false, host) => Ok(HostMatcher::Exactly(host)),
    }
}

/// Splits a text into the host and the port, if any.
fn split_port(text: &str) -> Result<(&str, Option<u16>), HostPatternFault> {
    let end = if text.starts_with('[') {
        text.find(']')
            .map(|at| at + 1)
            .ok_or(HostPatternFault::Brackets)?
    } else {
        text.find(':').unwrap_or(text.len())
    };
    let (host, tail) = text.split_at(end);
    match tail.strip_prefix(':') {
        Some(more) if more.contains(':') => Err(HostPatternFault::Brackets),
        Some(port) => Ok((host, Some(parse_port(port)?))),
        None if tail.is_empty() => Ok((host, None)),
        None => Err(HostPatternFault::Brackets),
    }
}

fn parse_port(text: &str) -> Result<u16, HostPatternFault> {
    // `parse` accepts a leading `+`.
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_digits && port > 0 => Ok(port),
        _ => Err(HostPatternFault::Port),
    }
}

/// Parses a range from the two sides of its slash, with its port.
fn parse_range(address: &str, tail: &str) -> Result<(HostMatcher, Option<u16>), HostPatternFault> {
    let inner = address
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let Ok(address) = inner.unwrap_or(address).parse::<IpAddr>() else {
        return Err(
            if tail.bytes().all(|byte| byte.is_ascii_digit()) && !tail.is_empty() {
                HostPatternFault::Range
            } else {
                HostPatternFault::Path
            },
        );
    };
    let (prefix, port) = match tail.split_once(':') {
        Some((prefix, port)) => (prefix, Some(parse_port(port)?)),
        None => (tail, None),
    };
    if !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostPatternFault::Range);
    }
    let prefix = prefix.parse().map_err(|_| HostPatternFault::Range)?;
    let range = Cidr::new(address, prefix).ok_or(HostPatternFault::Range)?;
    if range.address() != address {
        return Err(HostPatternFault::HostBits(range));
    }
    Ok((HostMatcher::Range(range), port))
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        Self::parse(text).map_err(|fault| HostPatternError {
            pattern: crate::text::visible(crate::text::prefix(text, 100)),
            fault,
        })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = self.scheme {
            write!(f, "{}://", scheme.as_str())?;
        }
        match &self.hosts {
            HostMatcher::Any => f.write_str("*")?,
            HostMatcher::Exactly(host) => host.fmt(f)?,
            HostMatcher::Below(suffix) => write!(f, "*{suffix}")?,
            HostMatcher::Range(range) if range.address().is_ipv6() => {
                let text = range.to_string();
                let (address, prefix) = text.split_once('/').unwrap_or((&text, ""));
                write!(f, "[{address}]/{prefix}")?;
            }
            HostMatcher::Range(range) => range.fmt(f)?,
        }
        match self.port {
            Some(port) if self.scheme.map(UrlScheme::default_port) != Some(port) => {
                write!(f, ":{port}")
            }
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for HostPattern {
    fn schema_name() -> Cow<'static, str> {
        "HostPattern".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "example.com, *.example.com, example.com:8443, https://example.com, 192.0.2.1, [2001:db8::1] or 10.0.0.0/8",
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
