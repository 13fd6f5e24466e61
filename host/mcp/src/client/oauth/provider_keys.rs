//! Fetching of an identity provider's keys, with the same restrictions as for an authorization server in a login.
//!
//! Out of scope: the use of the keys.

use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::endpoint::{self, OauthEndpoint, check_url};
use super::{login_error, metadata};
use crate::client::server::HttpClientFactory;

/// The parts of a provider's metadata that are needed to fetch its keys.
#[derive(Deserialize)]
struct ProviderMetadata {
    issuer: String,
    jwks_uri: String,
}

/// Fetches the key set of a configured provider.
pub(crate) async fn fetch_keys<T: DeserializeOwned>(
    issuer: &str,
    clients: &HttpClientFactory,
) -> Result<T, ToolError> {
    let issuer_url = RequestTarget::parse(issuer).map_err(mimir_net::Error::from)?;
    let metadata_document: Option<ProviderMetadata> =
        endpoint::fetch_first_document(metadata::metadata_urls(&issuer_url)?, clients).await?;
    let metadata_document =
        metadata_document.ok_or_else(|| login_error("the provider has no metadata"))?;
    if metadata_document.issuer != issuer {
        let named_issuer = metadata::quoted(&metadata_document.issuer);
        return Err(login_error(format!(
            "issuer mismatch: the provider's metadata names {named_issuer}, and `--issuer` must have the same spelling"
        )));
    }
    let keys = check_url(&metadata_document.jwks_uri, "key set URL", &issuer_url)?;
    let keys = OauthEndpoint::new(keys, clients)?.fetch_document().await?;
    keys.ok_or_else(|| login_error("the provider's key set URL returns no keys"))
}
