//! A request and its response.

use std::time::Duration;

use mimir_sdk::{Error, Result};
use url::Url;

use crate::exchange::of_kind;

#[cfg(not(target_os = "wasi"))]
mod absent;
#[cfg(target_os = "wasi")]
mod wasi;

#[cfg(not(target_os = "wasi"))]
pub(crate) use absent::Network;
#[cfg(target_os = "wasi")]
pub(crate) use wasi::Network;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: Url,
    /// The headers, without those that the host sets.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) timeout: Option<Timeout>,
}

/// The time limit for all of a request, redirects included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout {
    /// The requested limit.
    pub(crate) whole: Duration,
    /// The remaining time.
    pub(crate) left: Duration,
}

impl Timeout {
    pub(crate) fn of(seconds: u64) -> Self {
        let whole = Duration::from_secs(seconds);
        Self { whole, left: whole }
    }

    /// The remaining time for the next hop.
    pub(crate) fn after(self, spent: Duration) -> Result<Self> {
        let left = self.left.saturating_sub(spent);
        match left.is_zero() {
            true => Err(self.over()),
            false => Ok(Self { left, ..self }),
        }
    }

    /// Error for a timeout.
    pub(crate) fn over(self) -> Error {
        let message = format_args!(
            "the whole answer took longer than the {} s of `timeout`; give it more",
            self.whole.as_secs()
        );
        of_kind("timeout-whole", Error::timeout(message))
    }
}

/// A response of any status.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// With names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Elapsed time, without the time that a person took to approve.
    pub(crate) spent: Duration,
}

impl Response {
    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}

/// Sends requests.
pub(crate) trait Transport {
    /// Sends a request and reads the whole response. Redirects are not followed.
    fn send(&self, request: &Request) -> Result<Response>;
}
