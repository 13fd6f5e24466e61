//! One request and its answer.

use std::time::Duration;

use mimir_sdk::Result;
use url::Url;

#[cfg(not(target_os = "wasi"))]
mod absent;
#[cfg(target_os = "wasi")]
mod wasi;

#[cfg(not(target_os = "wasi"))]
pub(crate) use absent::Network;
#[cfg(target_os = "wasi")]
pub(crate) use wasi::Network;

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) url: Url,
    /// As they are sent, but for those that the host sets.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The longest wait for the beginning, and for each next part, of the answer.
    #[cfg_attr(
        not(target_os = "wasi"),
        expect(dead_code, reason = "outside of a component nothing is sent")
    )]
    pub(crate) timeout: Option<Duration>,
}

/// What comes back, whatever its status.
#[derive(Debug, Clone, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// With names in lower case, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
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
    /// Sends one and waits for all of the answer. Redirects are answers.
    fn send(&self, request: &Request) -> Result<Response>;
}
