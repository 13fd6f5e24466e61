//! Outside of a component there is no network to ask.

use mimir_sdk::{Error, Result};

use super::{Request, Response, Transport};

/// None.
pub(crate) struct Network;

impl Transport for Network {
    fn send(&self, _: &Request) -> Result<Response> {
        Err(Error::unavailable(
            "there is no network outside of a component",
        ))
    }
}
