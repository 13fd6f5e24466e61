//! The keys of an identity provider, found and asked for as a login asks its authorization server.
//!
//! Never here: what is signed with them.

use mimir_core::ToolError;
use mimir_core::network::Target;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::endpoint::{self, Endpoint, judge};
use super::{metadata, refused};
use crate::client::server::Clients;

/// What a provider says of itself, as far as its keys go.
#[derive(Deserialize)]
struct Described {
    issuer: String,
    jwks_uri: String,
}

/// The document with the keys of a provider, which a person has named.
pub(crate) async fn keys<T: DeserializeOwned>(
    issuer: &str,
    clients: &Clients,
) -> Result<T, ToolError> {
    let place = Target::parse(issuer).map_err(mimir_net::Error::from)?;
    let found: Option<Described> = endpoint::first(metadata::places(&place)?, clients).await?;
    let found = found.ok_or_else(|| refused("it does not say how it is asked"))?;
    if found.issuer != issuer {
        let spelt = metadata::shown(&found.issuer);
        return Err(refused(format!(
            "what lies there says that it is {spelt}, which has to be the spelling of `--issuer`"
        )));
    }
    let keys = judge(&found.jwks_uri, "place of the keys", &place)?;
    let keys = Endpoint::new(keys, clients)?.document().await?;
    keys.ok_or_else(|| refused("there are no keys where it says that they are"))
}
