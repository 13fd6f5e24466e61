//! The form of the messages between servers: kind, exchange, sender and payload.

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};

/// Length of an exchange id in bytes.
const ID_LENGTH: usize = 16;

/// The id of a request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ExchangeId([u8; ID_LENGTH]);

impl ExchangeId {
    /// Returns a random id, or `None` if the system has no random numbers.
    pub(super) fn random() -> Option<Self> {
        let mut id = [0; ID_LENGTH];
        getrandom::fill(&mut id).ok()?;
        Some(Self(id))
    }

    /// Parses the hex form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = u128::from_str_radix(text, 16).ok()?;
        (text.len() == 2 * ID_LENGTH).then(|| Self(value.to_be_bytes()))
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A part of a request, of which more follow.
    RequestPart,
    /// The last part of a request.
    RequestEnd,
    /// The request was received.
    Received,
    /// The beginning of a part of the reply, of which more follows.
    ReplyPart,
    /// The end of a part of the reply.
    ReplyPartEnd,
    /// The end of the reply.
    ReplyEnd,
    /// The request is being handled.
    Heartbeat,
    /// The sender of the request no longer waits for the reply.
    Cancel,
}

impl FrameKind {
    const ALL: [FrameKind; 8] = [
        FrameKind::RequestPart,
        FrameKind::RequestEnd,
        FrameKind::Received,
        FrameKind::ReplyPart,
        FrameKind::ReplyPartEnd,
        FrameKind::ReplyEnd,
        FrameKind::Heartbeat,
        FrameKind::Cancel,
    ];

    const fn byte(self) -> u8 {
        match self {
            FrameKind::RequestPart => 1,
            FrameKind::RequestEnd => 2,
            FrameKind::Received => 3,
            FrameKind::ReplyPart => 4,
            FrameKind::ReplyPartEnd => 5,
            FrameKind::ReplyEnd => 6,
            FrameKind::Heartbeat => 7,
            FrameKind::Cancel => 8,
        }
    }
}

/// A message between servers.
pub(super) struct PeerFrame {
    pub(super) kind: FrameKind,
    pub(super) exchange: ExchangeId,
    /// The node that has sent the frame.
    pub(super) from: String,
    pub(super) payload: Bytes,
}

impl PeerFrame {
    /// Returns the message with a frame.
    pub(super) fn encode(
        kind: FrameKind,
        exchange: ExchangeId,
        from: &str,
        payload: &[u8],
    ) -> Bytes {
        let mut bytes = BytesMut::with_capacity(2 + ID_LENGTH + from.len() + payload.len());
        bytes.put_u8(kind.byte());
        bytes.put_slice(&exchange.0);
        // Ids of nodes are short.
        bytes.put_u8(u8::try_from(from.len()).unwrap_or_default());
        bytes.put_slice(from.as_bytes());
        bytes.put_slice(payload);
        bytes.freeze()
    }

    /// Reads a message. Returns `None` if it is not valid.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let kind = *bytes.first()?;
        let kind = FrameKind::ALL
            .into_iter()
            .find(|known| known.byte() == kind)?;
        let exchange = bytes.get(1..1 + ID_LENGTH)?.try_into().ok()?;
        let length = usize::from(*bytes.get(1 + ID_LENGTH)?);
        let start = 2 + ID_LENGTH;
        let from = std::str::from_utf8(bytes.get(start..start + length)?).ok()?;
        Some(Self {
            kind,
            exchange: ExchangeId(exchange),
            from: from.to_owned(),
            payload: bytes.slice(start + length..),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_frames_are_decoded_as_encoded_and_bounded() {
        let exchange = ExchangeId::random().unwrap();
        assert_eq!(ExchangeId::parse(&exchange.to_string()), Some(exchange));
        for kind in FrameKind::ALL {
            let bytes = PeerFrame::encode(kind, exchange, "node", b"payload");
            let frame = PeerFrame::decode(&bytes).unwrap();
            assert_eq!((frame.kind, frame.exchange), (kind, exchange));
            assert_eq!(
                (frame.from.as_str(), &frame.payload[..]),
                ("node", &b"payload"[..])
            );
            for length in 0..bytes.len() - b"payload".len() {
                assert!(PeerFrame::decode(&bytes.slice(..length)).is_none());
            }
        }
        assert!(PeerFrame::decode(&Bytes::from_static(&[99; 64])).is_none());
        assert!(ExchangeId::parse("+1").is_none());
    }
}
