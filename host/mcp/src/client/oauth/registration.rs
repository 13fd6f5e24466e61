//! The client identity of mimir at an authorization server: the client from the settings, a client metadata document,
//! or a client registered for this login.
//!
//! mimir registers a client for each login and never reuses it: if the authorization server had deleted the client, the
//! user would see only an error page. A client is never used at another authorization server. The client at the identity
//! provider of a shared mimir is used again for a while: see [`super::identity_login`].

use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::redact::Vault;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::endpoint::OauthEndpoint;
use super::metadata::AuthorizationServer;
use super::token_endpoint::invalid_value_reason;
use super::{clean_text, login_error};
use crate::client::server::HttpClientFactory;
use crate::client::spec::fill_secrets;

/// A client of one authorization server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OauthClient {
    pub(super) id: String,
    /// Secret issued at registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) method: ClientAuthMethod,
    /// True if the client secret is in the settings, in which case it is not stored with the login.
    pub(super) settings: bool,
}

/// Client authentication method at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ClientAuthMethod {
    Basic,
    Post,
    None,
}

impl ClientAuthMethod {
    const fn name(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        let methods = [Self::Basic, Self::Post, Self::None];
        methods.into_iter().find(|method| method.name() == name)
    }

    /// Returns the first method in `order` that the authorization server supports. If the server declares no methods,
    /// returns the first one.
    fn first(order: &[Self], issuer: &AuthorizationServer) -> Result<Self, ToolError> {
        let Some(methods) = &issuer.methods else {
            return Ok(order[0]);
        };
        let is_supported = |method: &&Self| methods.iter().any(|name| name == method.name());
        order.iter().find(is_supported).copied().ok_or_else(|| {
            login_error(format!(
                "the authorization server requires a client authentication method that mimir does not support ({})",
                clean_text(&methods.join(", "), &[])
            ))
        })
    }
}

/// The kind of mimir's registration at an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationKind {
    /// A client from the settings.
    Settings,
    /// A client metadata document.
    Document,
    /// A client registered for this login.
    Registered,
}

/// Chooses the kind of registration, in the order that the protocol prescribes.
pub(super) fn choose_registration(
    oauth: &McpOauthSettings,
    issuer: &AuthorizationServer,
) -> Result<RegistrationKind, ToolError> {
    if oauth.client_id.is_some() {
        Ok(RegistrationKind::Settings)
    } else if oauth.client_metadata_url.is_some() && issuer.takes_documents {
        Ok(RegistrationKind::Document)
    } else if issuer.register.is_some() {
        Ok(RegistrationKind::Registered)
    } else {
        Err(login_error(
            "the authorization server does not support dynamic client registration: register a client there, and name it in the server's \
             settings (oauth.clientId)",
        ))
    }
}

/// Returns the client for this login; registers a client with the redirect URL if needed.
pub(super) async fn resolve_client(
    registration: RegistrationKind,
    oauth: &McpOauthSettings,
    issuer: &AuthorizationServer,
    redirect: &str,
    scopes: &[String],
    clients: &HttpClientFactory,
) -> Result<OauthClient, ToolError> {
    let client_of_settings = |id: &Option<String>, method, settings| OauthClient {
        id: id.clone().unwrap_or_default(),
        secret: None,
        method,
        settings,
    };
    match registration {
        RegistrationKind::Settings => {
            let secret = oauth.client_secret.is_some();
            let order: &[ClientAuthMethod] = if secret {
                &[ClientAuthMethod::Basic, ClientAuthMethod::Post]
            } else {
                &[ClientAuthMethod::None]
            };
            // Many servers accept clients without a secret, but do not declare that.
            let method = if secret {
                ClientAuthMethod::first(order, issuer)?
            } else {
                ClientAuthMethod::None
            };
            Ok(client_of_settings(&oauth.client_id, method, secret))
        }
        RegistrationKind::Document => Ok(client_of_settings(
            &oauth.client_metadata_url,
            ClientAuthMethod::None,
            false,
        )),
        RegistrationKind::Registered => register(issuer, redirect, scopes, clients).await,
    }
}

/// Response to a registration as JSON.
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Error response as JSON.
#[derive(Deserialize)]
struct RegistrationRefusal {
    error: Option<String>,
    error_description: Option<String>,
}

async fn register(
    issuer: &AuthorizationServer,
    redirect: &str,
    scopes: &[String],
    clients: &HttpClientFactory,
) -> Result<OauthClient, ToolError> {
    let url = issuer.register.clone().ok_or_else(|| {
        ToolError::internal("the authorization server has no registration endpoint")
    })?;
    let method = match &issuer.methods {
        // A server without declared methods issues secrets, but usually accepts clients without one.
        None => ClientAuthMethod::None,
        Some(_) => ClientAuthMethod::first(
            &[
                ClientAuthMethod::None,
                ClientAuthMethod::Basic,
                ClientAuthMethod::Post,
            ],
            issuer,
        )?,
    };
    // A redirect to this machine is that of a native application; OpenID Connect Registration section 2.
    let application = match redirect.starts_with("https:") {
        true => "web",
        false => "native",
    };
    let mut metadata = json!({
        "client_name": "mimir",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.name(),
        "application_type": application,
    });
    if !scopes.is_empty() {
        metadata["scope"] = scopes.join(" ").into();
    }
    let answer = OauthEndpoint::new(url, clients)?
        .post_json(&metadata)
        .await?;
    if !answer.status.is_success() {
        let why = answer.parse_json::<RegistrationRefusal>().map(|refusal| {
            let parts = [refusal.error, refusal.error_description];
            parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
        });
        return Err(login_error(format!(
            "the authorization server refused to register a client for mimir (HTTP {}: {}): register one there, and name it in the \
             server's settings (oauth.clientId)",
            answer.status.as_u16(),
            clean_text(&why.unwrap_or_default(), &[])
        )));
    }
    let response = answer.parse_json::<RegistrationResponse>();
    let response = response.filter(|response| !response.client_id.is_empty());
    let response = response.ok_or_else(|| {
        login_error("the authorization server registered a client, but did not return its id")
    })?;
    let secret = response.client_secret.filter(|secret| !secret.is_empty());
    if let Some(why) = secret.as_deref().and_then(invalid_value_reason) {
        return Err(login_error(format!(
            "the authorization server issued a client secret that is not usable: {why}"
        )));
    }
    let declared_method = response.token_endpoint_auth_method.as_deref();
    let method = match (
        declared_method.and_then(ClientAuthMethod::from_name),
        &secret,
    ) {
        (Some(ClientAuthMethod::Basic | ClientAuthMethod::Post) | None, None) => {
            ClientAuthMethod::None
        }
        (Some(method), _) => method,
        (None, Some(_)) => ClientAuthMethod::first(
            &[
                ClientAuthMethod::Basic,
                ClientAuthMethod::Post,
                ClientAuthMethod::None,
            ],
            issuer,
        )?,
    };
    Ok(OauthClient {
        id: response.client_id,
        secret: secret.filter(|_| method != ClientAuthMethod::None),
        method,
        settings: false,
    })
}

impl OauthClient {
    /// Returns the client's secret, if it has one.
    pub(super) fn secret(
        &self,
        oauth: &McpOauthSettings,
        vault: &dyn Vault,
    ) -> Result<Option<String>, ToolError> {
        if !self.settings {
            return Ok(self.secret.clone());
        }
        let named = oauth.client_secret.as_deref();
        // The secret in the settings belongs to the client in the settings, which may have changed since the login.
        let named = named.filter(|_| oauth.client_id.as_deref() == Some(self.id.as_str()));
        named.map(|secret| fill_secrets(secret, vault)).transpose()
    }
}
