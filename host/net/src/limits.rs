//! Limits of a request; all are on by default.

use std::time::Duration;

/// Limits for the time and size of a request; DESIGN section 7 lists the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Name lookup, connection and TLS together.
    pub connect: Duration,
    /// From the connection to the last header.
    pub first_byte: Duration,
    /// Between two chunks of the body.
    pub between_bytes: Duration,
    /// The whole request, over all redirects; time spent waiting for an approval does not count.
    pub whole: Duration,
    /// Bytes of the response headers.
    pub header_bytes: u32,
    /// Bytes of the response body, both on the wire and decompressed.
    pub body_bytes: u64,
    /// Bytes of the request body.
    pub upload_bytes: u64,
    /// Number of redirects to follow.
    pub redirects: usize,
    /// Compression ratio of a body, enforced beyond [`Self::RATIO_FROM`] bytes.
    pub ratio: u64,
}

impl RequestLimits {
    /// Concurrent requests of one client. A guest can open them faster than a machine has sockets.
    pub const CONCURRENT: usize = 64;
    /// Bytes to which any body may decompress whatever its ratio: a page of spaces is not an attack.
    pub const RATIO_FROM: u64 = 1 << 20;
    /// Headers of one message. The most that hyper reads without allocating for each.
    pub const HEADERS: usize = 100;

    /// Returns the tighter value of each limit.
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
            // Enough for a server on the other side of the world to respond a hundred times.
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
