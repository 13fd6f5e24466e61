//! Stub of the transport for builds that are not components.

use mimir_sdk::{Error, Result};

use super::{Request, Response, Transport};

/// A transport that always fails.
pub(crate) struct Network;

impl Transport for Network {
    fn send(&self, _: &Request) -> Result<Response> {
        Err(Error::unavailable("network access needs a component build"))
    }
}
