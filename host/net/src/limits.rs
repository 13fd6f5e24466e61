//! Limits of a request; all are on by default.

use std::time::Duration;

/// Time and size limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Time for name lookup, connection and TLS handshake together.
    pub connect: Duration,
    /// Time from the connection to the last response header.
    pub first_byte: Duration,
    /// Time between two chunks of the body.
    pub between_bytes: Duration,
    /// Time for the whole request, including redirects. Time spent waiting for an approval does not count.
    pub whole: Duration,
    /// Maximum size of the response headers, in bytes.
    pub header_bytes: u32,
    /// Maximum size of the response body in bytes, both on the wire and decompressed.
    pub body_bytes: u64,
    /// Maximum size of the request body, in bytes.
    pub upload_bytes: u64,
    /// Maximum number of redirects to follow.
    pub redirects: usize,
    /// Maximum compression ratio of a body, enforced beyond [`Self::RATIO_FROM`] bytes.
    pub ratio: u64,
}

impl RequestLimits {
    /// Maximum concurrent requests of one client. A guest could otherwise exhaust the machine's sockets.
    pub const CONCURRENT: usize = 64;
    /// Decompressed size in bytes up to which the ratio is not enforced: a page of spaces is not an attack.
    pub const RATIO_FROM: u64 = 1 << 20;
    /// Maximum number of headers of a message: the most that hyper reads without an allocation per message.
    pub const HEADERS: usize = 100;

    /// Returns the smaller value of each limit.
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

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            // Enough for a hundred round trips to the other side of the world.
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(30),
            whole: Duration::from_secs(30),
            // Servers usually send at most 8 KB; cookies may double that.
            header_bytes: 64 << 10,
            body_bytes: 10 << 20,
            upload_bytes: 10 << 20,
            redirects: 5,
            // Text compresses to a tenth, logs to a fiftieth; deflate reaches 1:1032.
            ratio: 100,
        }
    }
}
