//! Fetches the keys of an identity provider, with the restrictions that apply to an authorization server in a login.
//!
//! Out of scope: the use of the keys.

use mimir_core::ToolError;
use mimir_core::network::Target;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::endpoint::{self, Endpoint, judge};
use super::{metadata, refused};
use crate::client::server::Clients;

/// The parts of a provider's metadata that lead to its keys.
#[derive(Deserialize)]
struct Described {
    issuer: String,
    jwks_uri: String,
}

/// Returns the key set of a provider that a person has configured.
pub(crate) async fn keys<T: DeserializeOwned>(
    issuer: &str,
    clients: &Clients,
) -> Result<T, ToolError> {
    let place = Target::parse(issuer).map_err(mimir_net::Error::from)?;
    let found: Option<Described> = endpoint::first(metadata::places(&place)?, clients).await?;
    let found = found.ok_or_else(|| refused("it has no metadata"))?;
    if found.issuer != issuer {
        let spelt = metadata::shown(&found.issuer);
        return Err(refused(format!(
            "issuer mismatch: its metadata names {spelt}, and `--issuer` must have the same spelling"
        )));
    }
    let keys = judge(&found.jwks_uri, "key set URL", &place)?;
    let keys = Endpoint::new(keys, clients)?.document().await?;
    keys.ok_or_else(|| refused("its key set URL returns no keys"))
}
