//! The bounds of a request; every one is on by default.

use std::time::Duration;

/// How long a request may take and how much it may carry; DESIGN section 7 gives the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Name, connection and TLS together.
    pub connect: Duration,
    /// From the connection to the last header.
    pub first_byte: Duration,
    /// Between two parts of the body.
    pub between_bytes: Duration,
    /// All of it, over all redirects; the time that a person takes to answer does not count.
    pub whole: Duration,
    /// Bytes of the answer's headers.
    pub header_bytes: u32,
    /// Bytes of the answer's body, on the wire and unpacked.
    pub body_bytes: u64,
    /// Bytes of the request's body.
    pub upload_bytes: u64,
    /// How many redirects are followed.
    pub redirects: usize,
    /// How many times its size a packed body may unpack to, beyond [`Self::RATIO_FROM`].
    pub ratio: u64,
}

impl Limits {
    /// Requests of one client at a time. A guest opens them faster than a machine has sockets.
    pub const CONCURRENT: usize = 64;
    /// Bytes that a body may unpack to whatever its size: a page of spaces is no attack.
    pub const RATIO_FROM: u64 = 1 << 20;
    /// Headers of one message. The most that hyper reads without allocating for each.
    pub const HEADERS: usize = 100;

    /// Of each bound the tighter one.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            connect: self.connect.min(other.connect),
            first_byte: self.first_byte.min(other.first_byte),
            between_bytes: self.between_bytes.min(other.between_bytes),
            whole: self.whole.min(other.whole),
            header_bytes: self.header_bytes.min(other.header_bytes),
            body_bytes: self.body_bytes.min(other.body_bytes),
            upload_bytes: self.upload_bytes.min(other.upload_bytes),
            redirects: self.redirects.min(other.redirects),
            ratio: self.ratio.min(other.ratio),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A server on the other side of the world has answered a hundred times by then.
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(30),
            whole: Duration::from_secs(30),
            // Servers send 8 KB at most as a rule; cookies may double that.
            header_bytes: 64 << 10,
            body_bytes: 10 << 20,
            upload_bytes: 10 << 20,
            redirects: 5,
            // Text packs to a tenth, logs to a fiftieth; deflate goes to 1:1032.
            ratio: 100,
        }
    }
}
