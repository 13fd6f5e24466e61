//! HTTP requests and responses.

use std::time::Duration;

use mimir_sdk::{Error, Result};
use url::Url;

use crate::exchange::with_kind;

#[cfg(not(target_os = "wasi"))]
mod stub;
#[cfg(target_os = "wasi")]
mod wasi;

#[cfg(not(target_os = "wasi"))]
pub(crate) use stub::Network;
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

/// The time limit for a request including its redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout {
    /// The requested limit.
    pub(crate) limit: Duration,
    /// The remaining time.
    pub(crate) remaining: Duration,
}

impl Timeout {
    pub(crate) fn from_secs(seconds: u64) -> Self {
        let limit = Duration::from_secs(seconds);
        Self {
            limit,
            remaining: limit,
        }
    }

    /// Returns the time limit for the next redirect. Fails if no time is left.
    pub(crate) fn after(self, elapsed: Duration) -> Result<Self> {
        let remaining = self.remaining.saturating_sub(elapsed);
        if remaining.is_zero() {
            Err(self.timeout_error())
        } else {
            Ok(Self { remaining, ..self })
        }
    }

    /// Returns the error for a timeout.
    pub(crate) fn timeout_error(self) -> Error {
        let message = format_args!(
            "the whole response took longer than the `timeout` of {} s; increase it",
            self.limit.as_secs()
        );
        with_kind("timeout-whole", Error::timeout(message))
    }
}

/// A response of any status.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Headers in the order of the response, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Elapsed time, without the time that a person took to approve.
    pub(crate) elapsed: Duration,
}

impl Response {
    /// Returns the first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let header = headers.find(|(known, _)| known == name)?;
        Some(&header.1)
    }
}

/// Sends requests.
pub(crate) trait Transport {
    /// Sends a request and reads the whole response. Redirects are not followed.
    fn send(&self, request: &Request) -> Result<Response>;
}
