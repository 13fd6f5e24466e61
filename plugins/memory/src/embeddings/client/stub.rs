//! Stub of the transport for builds that are not components.

use mimir_sdk::{Error, Result};
use url::Url;

use super::{Response, Transport};

/// A transport that always fails.
pub(crate) struct Network;

impl Transport for Network {
    fn post(&self, _: &Url, _: &[(&str, String)], _: &[u8]) -> Result<Response> {
        Err(Error::unavailable("network access needs a component build"))
    }
}
