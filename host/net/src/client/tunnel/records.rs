//! Filter for the data in a tunnel: only TLS records pass, and the ClientHello must ask for the host of the tunnel.
//!
//! With Encrypted ClientHello, the outer name is checked and must be the host of the tunnel. Only the server with that
//! name can decrypt the inner name, and it is responsible for the hosts behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mimir_core::network::NetworkHost;

use super::hello::{ClientHello, ClientHelloBuffer, MalformedHello, asks_for};

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Size in bytes of the header of a record: type, version, length.
const HEADER_BYTES: usize = 5;

/// Maximum payload in bytes of an encrypted record in TLS 1.2 (RFC 5246 section 6.2.3).
const MAX_ENCRYPTED_PAYLOAD: usize = (1 << 14) + 2048;

/// Random number of a ServerHello that requests a second ClientHello (RFC 8446 section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Position of the random number in a ServerHello, counted from the header of the message.
const SERVER_RANDOM: std::ops::Range<usize> = 6..38;

/// Reason for closing a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TunnelViolation {
    /// The data in the tunnel is not TLS.
    Malformed(MalformedHello),
    /// The ClientHello asks for another host, or for none.
    Name(Option<String>),
}

impl From<MalformedHello> for TunnelViolation {
    fn from(why: MalformedHello) -> Self {
        Self::Malformed(why)
    }
}

/// State of the server's response to the ClientHello, shared by both filters.
#[derive(Clone)]
struct ServerHelloState(Arc<AtomicU8>);

impl ServerHelloState {
    const NONE: u8 = 0;
    /// The server requests a second ClientHello, which the client sends unencrypted.
    const RETRY: u8 = 1;
    const AGREED: u8 = 2;

    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, state: u8) {
        self.0.store(state, Ordering::Release);
    }
}

/// Creates the filters of both directions of a tunnel to `host`.
pub(super) fn record_filters(host: &NetworkHost) -> (ClientRecordFilter, ServerRecordFilter) {
    let server_hello_state = ServerHelloState(Arc::new(AtomicU8::new(ServerHelloState::NONE)));
    let client = ClientRecordFilter {
        records: RecordSplitter::default(),
        host: host.clone(),
        hello: Some(ClientHelloBuffer::default()),
        early_data: false,
        server_hello_state: server_hello_state.clone(),
    };
    let server = ServerRecordFilter {
        records: RecordSplitter::default(),
        first_message: Vec::new(),
        server_hello_state,
    };
    (client, server)
}

/// Checks the data that the client sends.
pub(super) struct ClientRecordFilter {
    records: RecordSplitter,
    host: NetworkHost,
    /// The part of the expected ClientHello received so far; `None` once it is complete.
    hello: Option<ClientHelloBuffer>,
    /// True if the ClientHello offers early data, which the client sends before the server responds.
    early_data: bool,
    server_hello_state: ServerHelloState,
}

impl ClientRecordFilter {
    /// Checks the next bytes. Unchecked bytes must not be forwarded.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<(), TunnelViolation> {
        let Self {
            records,
            host,
            hello,
            early_data,
            server_hello_state,
        } = self;
        records.check(bytes, |kind, payload| {
            match (kind, hello.is_some()) {
                (HANDSHAKE, true) => {}
                (_, true) => return Err("the connection does not begin with a ClientHello".into()),
                (HANDSHAKE, false) => match server_hello_state.get() {
                    ServerHelloState::NONE => {
                        return Err(
                            "the handshake continues before the server has responded".into()
                        );
                    }
                    ServerHelloState::RETRY => {
                        server_hello_state.set(ServerHelloState::AGREED);
                        *hello = Some(ClientHelloBuffer::default());
                    }
                    _ => {}
                },
                (APPLICATION_DATA, false)
                    if server_hello_state.get() == ServerHelloState::NONE && !*early_data =>
                {
                    return Err("the client sends data before the server has responded".into());
                }
                (_, false) => {}
            }
            if let Some(buffer) = hello
                && let Some(message) = buffer.add(payload)?
            {
                let parsed = ClientHello::parse(&message)?;
                if !asks_for(parsed.server_name.as_deref(), host) {
                    return Err(TunnelViolation::Name(parsed.server_name));
                }
                *early_data = parsed.early_data;
                *hello = None;
            }
            Ok(())
        })
    }

    /// Returns true if the expected ClientHello is complete and asks for the host of the tunnel.
    pub(super) fn has_valid_hello(&self) -> bool {
        self.hello.is_none()
    }
}

/// Checks the data that the server sends.
pub(super) struct ServerRecordFilter {
    records: RecordSplitter,
    /// The server's first message, as far as received and needed.
    first_message: Vec<u8>,
    server_hello_state: ServerHelloState,
}

impl ServerRecordFilter {
    /// Checks the next bytes. Unchecked bytes must not be forwarded.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<(), TunnelViolation> {
        let Self {
            records,
            first_message,
            server_hello_state,
        } = self;
        records.check(bytes, |kind, payload| {
            if server_hello_state.get() != ServerHelloState::NONE {
                return Ok(());
            }
            match kind {
                HANDSHAKE => {}
                CHANGE_CIPHER_SPEC | APPLICATION_DATA => {
                    return Err("the server does not begin with a handshake".into());
                }
                _ => return Ok(()),
            }
            let missing = SERVER_RANDOM.end - first_message.len();
            first_message.extend(payload.iter().take(missing));
            const SERVER_HELLO: u8 = 2;
            match first_message.first() {
                Some(&SERVER_HELLO) => {
                    if let Some(random) = first_message.get(SERVER_RANDOM) {
                        let is_retry = random == RETRY;
                        server_hello_state.set(if is_retry {
                            ServerHelloState::RETRY
                        } else {
                            ServerHelloState::AGREED
                        });
                    }
                }
                Some(_) => server_hello_state.set(ServerHelloState::AGREED),
                None => {}
            }
            Ok(())
        })
    }
}

/// Splits a stream of bytes into TLS records, regardless of packet boundaries.
#[derive(Default)]
struct RecordSplitter {
    header: [u8; HEADER_BYTES],
    /// Number of header bytes received; 0 within a payload.
    filled: usize,
    /// Number of payload bytes still expected.
    missing: usize,
}

impl RecordSplitter {
    /// Checks the next bytes, and calls `payload` with each payload chunk and the type of its record.
    fn check(
        &mut self,
        mut bytes: &[u8],
        mut payload: impl FnMut(u8, &[u8]) -> Result<(), TunnelViolation>,
    ) -> Result<(), TunnelViolation> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.missing > 0 {
                let (chunk, more) = bytes.split_at(self.missing.min(bytes.len()));
                self.missing -= chunk.len();
                payload(self.header[0], chunk)?;
                bytes = more;
                continue;
            }
            if let Some(slot) = self.header.get_mut(self.filled) {
                *slot = *first;
            }
            self.filled += 1;
            bytes = rest;
            self.check_header()?;
        }
        Ok(())
    }

    /// Checks the header bytes received so far, so that at most one invalid byte is accepted.
    fn check_header(&mut self) -> Result<(), TunnelViolation> {
        let [kind, major, minor, high, low] = self.header;
        let is_valid = match self.filled {
            1 => (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&kind),
            2 => major == 3,
            3 => minor <= 4,
            _ => true,
        };
        if !is_valid {
            return Err("the data is not a TLS record".into());
        }
        if self.filled == HEADER_BYTES {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > MAX_ENCRYPTED_PAYLOAD || (length == 0 && kind != APPLICATION_DATA) {
                return Err("the length of a TLS record is not valid".into());
            }
            (self.filled, self.missing) = (0, length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hello::tests::{hello, hello_with, hello_with_early_data};
    use super::*;

    fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind, 3, 1][..], &length, payload].concat()
    }

    fn server_hello(random: [u8; 32]) -> Vec<u8> {
        record(HANDSHAKE, &[&[2, 0, 0, 34, 3, 3][..], &random].concat())
    }

    fn filters() -> (ClientRecordFilter, ServerRecordFilter) {
        record_filters(&NetworkHost::parse("a.test").unwrap())
    }

    #[test]
    fn hello_is_read_across_packets_and_records() {
        let message = hello("a.test");
        for size in [1, 2, 3, 7, 50, message.len()] {
            let records: Vec<u8> = message
                .chunks(size)
                .flat_map(|part| record(HANDSHAKE, part))
                .collect();
            for packet in [1, 4, 1000] {
                let (mut client, _) = filters();
                for chunk in records.chunks(packet) {
                    client.check(chunk).unwrap();
                }
                assert!(client.has_valid_hello(), "{size} {packet}");
            }
            let (mut client, _) = filters();
            client.check(&records[..records.len() - 1]).unwrap();
            assert!(!client.has_valid_hello());
        }
    }

    #[test]
    fn hello_with_another_name_or_none_is_rejected() {
        for (message, name) in [
            (hello("evil.test"), Some("evil.test".to_owned())),
            (hello_with(&[0, 43, 0, 0]), None),
        ] {
            let (mut client, _) = filters();
            let violation = client.check(&record(HANDSHAKE, &message)).unwrap_err();
            assert_eq!(violation, TunnelViolation::Name(name));
        }
    }

    #[test]
    fn tunnel_rejects_non_tls_data_after_the_hello() {
        let with_hello = || {
            let (mut client, server) = filters();
            client.check(&record(HANDSHAKE, &hello("a.test"))).unwrap();
            (client, server)
        };
        for raw in [
            &b"GET / HTTP/1.1\r\n"[..],
            &[22, 2],
            &[23, 3, 9],
            &[24, 3, 3, 0, 1],
            &[23, 3, 3, 0xff, 0xff],
            &[22, 3, 3, 0, 0],
        ] {
            let (mut client, mut server) = with_hello();
            assert!(client.check(raw).is_err(), "{raw:?}");
            assert!(server.check(raw).is_err(), "{raw:?}");
        }
        let (mut client, mut server) = with_hello();
        client.check(&record(CHANGE_CIPHER_SPEC, &[1])).unwrap();
        server.check(&server_hello([5; 32])).unwrap();
        client.check(&record(APPLICATION_DATA, &[9; 100])).unwrap();
        server
            .check(&record(APPLICATION_DATA, &vec![0; MAX_ENCRYPTED_PAYLOAD]))
            .unwrap();
        client.check(&record(HANDSHAKE, &[16, 0, 0, 1, 7])).unwrap();
    }

    #[test]
    fn data_before_the_server_response_needs_early_data() {
        for (message, passes) in [
            (hello("a.test"), false),
            (hello_with_early_data("a.test"), true),
        ] {
            let (mut client, _) = filters();
            client.check(&record(HANDSHAKE, &message)).unwrap();
            let sent = client.check(&record(APPLICATION_DATA, &[9; 100]));
            assert_eq!(sent.is_ok(), passes, "{sent:?}");
        }
    }

    #[test]
    fn hello_retry_is_checked_like_the_first() {
        let with_hello = || {
            let (mut client, server) = filters();
            client.check(&record(HANDSHAKE, &hello("a.test"))).unwrap();
            (client, server)
        };
        let (mut client, _) = with_hello();
        assert!(
            client.check(&record(HANDSHAKE, &hello("a.test"))).is_err(),
            "accepted a second ClientHello that was not requested"
        );
        for (name, good) in [("a.test", true), ("evil.test", false)] {
            let (mut client, mut server) = with_hello();
            for chunk in server_hello(RETRY).chunks(9) {
                server.check(chunk).unwrap();
            }
            client.check(&record(CHANGE_CIPHER_SPEC, &[1])).unwrap();
            let second: Vec<u8> = hello(name)
                .chunks(5)
                .flat_map(|part| record(HANDSHAKE, part))
                .collect();
            assert_eq!(client.check(&second).is_ok(), good, "{name}");
        }
    }

    #[test]
    fn server_data_begins_with_the_handshake() {
        for first in [APPLICATION_DATA, CHANGE_CIPHER_SPEC] {
            let (_, mut server) = filters();
            assert!(server.check(&record(first, &[1])).is_err());
        }
        let (_, mut server) = filters();
        server.check(&record(21, &[2, 40])).unwrap();
    }
}
