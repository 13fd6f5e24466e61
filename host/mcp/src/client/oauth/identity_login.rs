//! A login in a browser at the identity provider of a shared mimir, which shows who uses the browser.
//!
//! mimir is a client of the provider here, and requests an access token for itself, as MCP clients do. The token is only
//! verified and then discarded.
//!
//! Out of scope: the verification of the token.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Vault;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::authorization::AuthorizationRequest;
use super::callback::CallbackError;
use super::endpoint::OauthEndpoint;
use super::registration::{self, OauthClient, RegistrationKind};
use super::token_endpoint::{TokenError, TokenRequest};
use super::{login_error, metadata};
use crate::client::server::HttpClientFactory;
use crate::client::spec::fill_secrets;
use crate::http::IdentityOptions;

/// Time for which a registered client is used again. If the provider has deleted it, users see an error page there, until
/// mimir registers another one.
const REGISTRATION_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// A client that mimir has registered, with the URL of its callback.
struct RegisteredClient {
    client: OauthClient,
    redirect: String,
    since: Instant,
}

/// The client that is registered at the identity provider for the logins of all users, if there is one. A user can open
/// many links, so that a client for each login would fill the provider's list of clients.
#[derive(Default)]
struct SharedRegistration(Mutex<Option<RegisteredClient>>);

/// The identity provider, and the token to request there.
pub(crate) struct IdentityLogin {
    /// Issuer identifier of the provider.
    issuer: String,
    /// Resource of the token: this server.
    resource: String,
    /// Scopes of the token.
    scopes: Vec<String>,
    /// Client that is registered at the provider, with its secret as `${NAME}`.
    client_id: Option<String>,
    client_secret: Option<String>,
    /// Creates the HTTP clients for requests to the provider.
    clients: Arc<HttpClientFactory>,
    /// Contains the client's secret.
    vault: Arc<dyn Vault>,
    /// The registered client.
    registration: SharedRegistration,
}

/// A login that waits for the callback.
pub(crate) struct PendingIdentity {
    request: AuthorizationRequest,
    client: OauthClient,
    oauth: McpOauthSettings,
    token: OauthEndpoint,
}

impl IdentityLogin {
    /// Creates the login of these settings, without contacting the provider. Fails if the secret of the client is not
    /// stored.
    pub(crate) fn new(options: &IdentityOptions, vault: Arc<dyn Vault>) -> Result<Self, ToolError> {
        let login = Self {
            issuer: options.issuer.clone(),
            resource: options.resource.clone(),
            scopes: options.scopes.clone(),
            client_id: options.client_id.clone(),
            client_secret: options.client_secret.clone(),
            clients: Arc::clone(&options.clients),
            vault,
            registration: SharedRegistration::default(),
        };
        login.check()?;
        Ok(login)
    }

    /// Starts a login, whose callback goes to `redirect`.
    pub(crate) async fn begin(&self, redirect: &str) -> Result<PendingIdentity, ToolError> {
        let oauth = self.oauth();
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
        let resolve = || {
            let scopes = &self.scopes;
            registration::resolve_client(registration, &oauth, &issuer, redirect, scopes, clients)
        };
        let client = match registration {
            RegistrationKind::Registered => {
                // Held during the registration, so that logins at the same time share one.
                let mut registered = self.registration.0.lock().await;
                let known = registered.as_ref().filter(|known| {
                    known.redirect == redirect && known.since.elapsed() < REGISTRATION_LIFETIME
                });
                match known {
                    Some(known) => known.client.clone(),
                    None => {
                        let client = resolve().await?;
                        *registered = Some(RegisteredClient {
                            client: client.clone(),
                            redirect: redirect.to_owned(),
                            since: Instant::now(),
                        });
                        client
                    }
                }
            }
            RegistrationKind::Settings | RegistrationKind::Document => resolve().await?,
        };
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
            .await;
        if matches!(granted, Err(TokenError::Failed(_))) {
            // The provider may have deleted the client. A code that is not valid says nothing about it.
            *self.registration.0.lock().await = None;
        }
        Ok(granted?.access)
    }

    /// Fails if the secret of the client is not stored.
    fn check(&self) -> Result<(), ToolError> {
        let Some(secret) = &self.client_secret else {
            return Ok(());
        };
        fill_secrets(secret, &*self.vault).map(drop).map_err(|error| {
            let message = format!("the client secret of the identity provider (--client-secret) cannot be used: {}", error.message.replacen("the server needs", "it needs", 1));
            ToolError { message, ..error }
        })
    }

    fn oauth(&self) -> McpOauthSettings {
        McpOauthSettings {
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.clone(),
            ..McpOauthSettings::default()
        }
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
