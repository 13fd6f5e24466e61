//! Parser for the ClientHello, the first message of a TLS client, up to the requested host (RFC 8446 section 4.1.2).

use core::net::IpAddr;

use mimir_core::network::NetworkHost;

/// Reason why a ClientHello was rejected.
pub(super) type MalformedHello = &'static str;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const EARLY_DATA: u16 = 42;
const HOST_NAME: u8 = 0;

/// Maximum size of a ClientHello in bytes. A ClientHello with post-quantum key shares and ECH is about 2,000 bytes.
const MAX_HELLO_BYTES: usize = 64 << 10;

/// Size in bytes of the header of a handshake message: type and length.
const HEADER_BYTES: usize = 4;

const CUT_SHORT: MalformedHello = "the ClientHello ends in the middle of a field";

/// Collects a ClientHello that arrives in chunks, over any number of records.
#[derive(Default)]
pub(super) struct ClientHelloBuffer(Vec<u8>);

impl ClientHelloBuffer {
    /// Adds the next bytes. Returns the message without its header once it is complete.
    pub(super) fn add(&mut self, chunk: &[u8]) -> Result<Option<Vec<u8>>, MalformedHello> {
        self.0.extend_from_slice(chunk);
        let [kind, rest @ ..] = self.0.as_slice() else {
            return Ok(None);
        };
        if *kind != CLIENT_HELLO {
            return Err("the first message is not a ClientHello");
        }
        let [a, b, c, ..] = rest else {
            return Ok(None);
        };
        let length =
            HEADER_BYTES + (usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c));
        if length > MAX_HELLO_BYTES {
            return Err("the ClientHello is longer than 64 KiB");
        }
        match self.0.len() {
            received if received < length => Ok(None),
            received if received > length => {
                Err("extra data follows its ClientHello in the same record")
            }
            _ => Ok(Some(std::mem::take(&mut self.0).split_off(HEADER_BYTES))),
        }
    }
}

/// Fields of a ClientHello that the filter of a tunnel needs.
#[derive(Debug, Default)]
pub(super) struct ClientHello {
    /// The requested host, or `None` without a server name.
    pub(super) server_name: Option<String>,
    /// True if the client offers early data (RFC 8446 section 4.2.10).
    pub(super) early_data: bool,
}

impl ClientHello {
    /// Parses a ClientHello without its header.
    pub(super) fn parse(message: &[u8]) -> Result<Self, MalformedHello> {
        let mut hello = Self::default();
        let Some(mut extensions) = extensions(message)? else {
            return Ok(hello);
        };
        while !extensions.0.is_empty() {
            let kind = extensions.number()?;
            let content = extensions.list()?;
            if kind == SERVER_NAME && hello.server_name.replace(host_name(content)?).is_some() {
                return Err("the ClientHello has two server names");
            }
            hello.early_data |= kind == EARLY_DATA;
        }
        Ok(hello)
    }
}

/// Returns the extensions of a ClientHello. TLS 1.2 allows a message without them.
fn extensions(message: &[u8]) -> Result<Option<HelloFields<'_>>, MalformedHello> {
    let mut fields = HelloFields(message);
    // The version and the random number.
    fields.take(2 + 32)?;
    let session = fields.short_list()?;
    let ciphers = fields.list()?;
    let compressions = fields.short_list()?;
    if session.len() > 32 || ciphers.is_empty() || ciphers.len() % 2 != 0 || compressions.is_empty()
    {
        return Err("a field of the ClientHello has an invalid length");
    }
    if fields.0.is_empty() {
        return Ok(None);
    }
    let extensions = HelloFields(fields.list()?);
    if !fields.0.is_empty() {
        return Err("extra data follows the extensions of the ClientHello");
    }
    Ok(Some(extensions))
}

/// Returns the host name in a `server_name` extension, which must list exactly one name (RFC 6066 section 3).
fn host_name(content: &[u8]) -> Result<String, MalformedHello> {
    let mut extension = HelloFields(content);
    let mut names = HelloFields(extension.list()?);
    let kind = names.take(1)?;
    let name = names.list()?;
    let is_single_name = kind == [HOST_NAME] && names.0.is_empty() && extension.0.is_empty();
    let text = std::str::from_utf8(name)
        .ok()
        .filter(|text| is_single_name && text.is_ascii());
    match text {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err("the ClientHello does not have exactly one valid server name"),
    }
}

/// Returns true if a ClientHello with this server name asks for `host`. Clients send no server name for an IP address
/// (RFC 6066 section 3).
pub(super) fn asks_for(name: Option<&str>, host: &NetworkHost) -> bool {
    match (name, host) {
        (Some(name), NetworkHost::Name(host)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name.eq_ignore_ascii_case(host)
        }
        (None, NetworkHost::Name(_)) => false,
        (Some(name), NetworkHost::Ip(address)) => {
            let name = name.trim_start_matches('[').trim_end_matches(']');
            name.parse::<IpAddr>()
                .is_ok_and(|name| name.to_canonical() == *address)
        }
        (None, NetworkHost::Ip(_)) => true,
    }
}

/// Reader over the unread rest of a message.
struct HelloFields<'a>(&'a [u8]);

impl<'a> HelloFields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], MalformedHello> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(field)
    }

    fn number(&mut self) -> Result<u16, MalformedHello> {
        let bytes = self.take(2)?.try_into().map_err(|_| CUT_SHORT)?;
        Ok(u16::from_be_bytes(bytes))
    }

    /// Reads the bytes after a two-byte length.
    fn list(&mut self) -> Result<&'a [u8], MalformedHello> {
        let count = self.number()?;
        self.take(count.into())
    }

    /// Reads the bytes after a one-byte length.
    fn short_list(&mut self) -> Result<&'a [u8], MalformedHello> {
        let count = self.take(1)?.first().copied().unwrap_or_default();
        self.take(count.into())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds a `server_name` extension with these names.
    fn names(names: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| [&[HOST_NAME], &*prefixed(name)].concat())
            .collect();
        [&[0, 0], &*prefixed(&prefixed(&list))].concat()
    }

    fn prefixed(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    /// Builds a ClientHello with a header and these extensions.
    pub(in super::super) fn hello_with(extensions: &[u8]) -> Vec<u8> {
        let fixed: [&[u8]; 5] = [&[3, 3], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0]];
        let body = [&*fixed.concat(), &prefixed(extensions)].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    /// Builds a ClientHello with a header that asks for this host.
    pub(in super::super) fn hello(host: &str) -> Vec<u8> {
        hello_with(&names(&[host.as_bytes()]))
    }

    /// Builds a ClientHello that offers early data.
    pub(in super::super) fn hello_with_early_data(host: &str) -> Vec<u8> {
        hello_with(&[&*names(&[host.as_bytes()]), &[0, 42, 0, 0]].concat())
    }

    fn name_in(message: &[u8]) -> Result<Option<String>, MalformedHello> {
        let whole = ClientHelloBuffer::default().add(message)?;
        Ok(ClientHello::parse(&whole.ok_or("it is not complete")?)?.server_name)
    }

    #[test]
    fn server_name_is_read_at_any_position() {
        assert_eq!(
            name_in(&hello("a.test")).unwrap().as_deref(),
            Some("a.test")
        );
        let name = names(&[b"b.test"]);
        let others: [&[u8]; 3] = [&[0, 43, 0, 3, 2, 3, 4], &name, &[0xfe, 0x0d, 0, 1, 0]];
        let others = others.concat();
        assert_eq!(
            name_in(&hello_with(&others)).unwrap().as_deref(),
            Some("b.test")
        );
        assert_eq!(name_in(&hello_with(&[0, 43, 0, 0])).unwrap(), None);
    }

    #[test]
    fn server_name_ambiguous_or_malformed_is_refused() {
        let twice = [names(&[b"a.test"]), names(&[b"b.test"])].concat();
        for bad in [
            hello_with(&twice),
            hello_with(&names(&[b"a.test", b"b.test"])),
            hello_with(&names(&[])),
            hello_with(&names(&[b""])),
            hello_with(&names(&[b"a\xff"])),
            hello_with(&[0, 0, 0, 9, 1]),
            [&*hello("a.test"), b"more"].concat(),
            vec![2, 0, 0, 0],
            vec![1, 0, 0, 5, 0, 0, 1, 0, 0],
            vec![1, 1, 0, 0],
        ] {
            assert!(name_in(&bad).is_err(), "{bad:?}");
        }
        let whole = hello("a.test");
        for end in 4..whole.len() {
            // Consistent in its length, but its fields announce more.
            let mut cut = whole[..end].to_vec();
            let length = u32::try_from(end - 4).unwrap().to_be_bytes();
            cut[1..4].copy_from_slice(&length[1..]);
            let read = name_in(&cut);
            assert!(read.is_err() || read.unwrap().is_none(), "{end}");
        }
    }

    #[test]
    fn server_name_must_be_the_host_of_the_tunnel() {
        let host = |text: &str| NetworkHost::parse(text).unwrap();
        for (name, to, expected) in [
            (Some("a.test"), "a.test", true),
            (Some("A.Test."), "a.test", true),
            (Some("b.test"), "a.test", false),
            (Some("a.test.evil"), "a.test", false),
            (None, "a.test", false),
            (None, "192.0.2.1", true),
            (Some("192.0.2.1"), "192.0.2.1", true),
            (Some("a.test"), "192.0.2.1", false),
            (Some("2001:db8::1"), "[2001:db8::1]", true),
        ] {
            assert_eq!(asks_for(name, &host(to)), expected, "{name:?} {to}");
        }
    }
}
