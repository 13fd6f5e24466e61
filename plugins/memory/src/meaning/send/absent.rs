//! Outside of a component there is no network to ask.

use mimir_sdk::{Error, Result};
use url::Url;

use super::{Response, Transport};

/// None.
pub(crate) struct Network;

impl Transport for Network {
    fn post(&self, _: &Url, _: &[(&str, String)], _: &[u8]) -> Result<Response> {
        Err(Error::unavailable(
            "there is no network outside of a component",
        ))
    }
}
