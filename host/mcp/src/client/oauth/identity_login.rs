//! A login in a browser at the identity provider of a shared mimir, which shows who uses the browser.
//!
//! mimir is a client of the provider here, and requests an access token for itself, as MCP clients do. The token is only
//! verified and then discarded.
//!
//! Out of scope: the verification of the token.

use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Vault;

use super::authorization::AuthorizationRequest;
use super::callback::CallbackError;
use super::endpoint::OauthEndpoint;
use super::registration::{self, OauthClient};
use super::token_endpoint::TokenRequest;
use super::{login_error, metadata};
use crate::client::server::HttpClientFactory;

/// The identity provider, and the token to request there.
pub(crate) struct IdentityLogin {
    /// Issuer identifier of the provider.
    pub(crate) issuer: String,
    /// Resource of the token: this server.
    pub(crate) resource: String,
    /// Scopes of the token.
    pub(crate) scopes: Vec<String>,
    /// Client that is registered at the provider, with its secret as `${NAME}`.
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    /// Creates the HTTP clients for requests to the provider.
    pub(crate) clients: Arc<HttpClientFactory>,
    /// Contains the client's secret.
    pub(crate) vault: Arc<dyn Vault>,
}

/// A login that waits for the callback.
pub(crate) struct PendingIdentity {
    request: AuthorizationRequest,
    client: OauthClient,
    oauth: McpOauthSettings,
    token: OauthEndpoint,
}

impl IdentityLogin {
    /// Starts a login, whose callback goes to `redirect`.
    pub(crate) async fn begin(&self, redirect: &str) -> Result<PendingIdentity, ToolError> {
        let oauth = McpOauthSettings {
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            ..McpOauthSettings::default()
        };
        let clients = &*self.clients;
        let own_url = RequestTarget::parse(&self.issuer).map_err(mimir_net::Error::from)?;
        // The operator has named the provider, so that its URLs are compared with its own, and not with those of a
        // server.
        let issuer = metadata::fetch_issuer(&self.issuer, &own_url, clients).await?;
        let registration = registration::choose_registration(&oauth, &issuer).map_err(|_| {
            login_error(
                "mimir is not registered at the identity provider: the operator registers a client there, and names it with `mimir serve --client-id`",
            )
        })?;
        let client = registration::resolve_client(
            registration,
            &oauth,
            &issuer,
            redirect,
            &self.scopes,
            clients,
        )
        .await?;
        let request =
            AuthorizationRequest::new(&issuer, &client.id, redirect, &self.resource, &self.scopes)?;
        let token = OauthEndpoint::new(issuer.token, clients)?;
        Ok(PendingIdentity {
            request,
            client,
            oauth,
            token,
        })
    }

    /// Exchanges the code in a callback for an access token.
    pub(crate) async fn token(
        &self,
        pending: PendingIdentity,
        callback: &str,
    ) -> Result<String, ToolError> {
        let PendingIdentity {
            request,
            client,
            oauth,
            token,
        } = pending;
        let code = request.code(callback).map_err(CallbackError::into_error)?;
        let secret = client.secret(&oauth, &*self.vault)?;
        let exchange = TokenRequest {
            endpoint: &token,
            client: &client,
            secret: secret.as_deref(),
            resource: &self.resource,
        };
        let granted = exchange
            .redeem_code(&code, &request.verifier, &request.redirect)
            .await?;
        Ok(granted.access)
    }
}

impl PendingIdentity {
    /// Returns the URL of the provider's login page.
    pub(crate) fn url(&self) -> &str {
        &self.request.url
    }

    /// Returns the state that the callback repeats.
    pub(crate) fn state(&self) -> &str {
        self.request.state()
    }
}
