//! The client identity of mimir at an authorization server: the client of the settings, a client metadata document, or
//! a client registered for this login.
//!
//! A registration is made for each login and never reused: if the authorization server had forgotten it, the person
//! would end up on a page that only shows an error. A client is never used at another authorization server.

use mimir_core::config::McpOauth;
use mimir_core::redact::Vault;
use mimir_core::{Code, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::endpoint::Endpoint;
use super::exchange::unfit;
use super::metadata::Issuer;
use super::{refused, words};
use crate::client::server::Clients;
use crate::client::spec::fill;

/// A client of one authorization server.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    /// Secret issued at registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) method: Method,
    /// True if the secret is the one in the settings, which is not stored a second time.
    pub(super) settings: bool,
}

/// Client authentication method at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Method {
    Basic,
    Post,
    None,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let all = [Self::Basic, Self::Post, Self::None];
        all.into_iter().find(|method| method.name() == name)
    }

    /// Returns the first of these methods that the authorization server supports. Without metadata, the first one is
    /// used; RFC 8414 section 2.
    fn first(order: &[Self], issuer: &Issuer) -> Result<Self, ToolError> {
        let Some(methods) = &issuer.methods else {
            return Ok(order[0]);
        };
        let takes = |method: &&Self| methods.iter().any(|name| name == method.name());
        order.iter().find(takes).copied().ok_or_else(|| {
            refused(format!(
                "the authorization server requires a client authentication method that is not supported ({})",
                words(&methods.join(", "), &[])
            ))
        })
    }
}

/// The way in which mimir is registered at an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A client from the settings.
    Settings,
    /// A client metadata document.
    Document,
    /// A client registered for this login.
    Registered,
}

/// Chooses the way of registration, in the order that the protocol prescribes.
pub(super) fn known(oauth: &McpOauth, issuer: &Issuer) -> Result<Known, ToolError> {
    if oauth.client_id.is_some() {
        Ok(Known::Settings)
    } else if oauth.client_metadata_url.is_some() && issuer.takes_documents {
        Ok(Known::Document)
    } else if issuer.register.is_some() {
        Ok(Known::Registered)
    } else {
        Err(refused(
            "the authorization server does not support dynamic client registration: register a client there, and name it in the server's \
             settings (oauth.clientId)",
        ))
    }
}

/// Returns the client for this login and redirect URL.
pub(super) async fn client(
    known: Known,
    oauth: &McpOauth,
    issuer: &Issuer,
    redirect: &str,
    scopes: &[String],
    clients: &Clients,
) -> Result<Client, ToolError> {
    let named = |id: &Option<String>, method, settings| Client {
        id: id.clone().unwrap_or_default(),
        secret: None,
        method,
        settings,
    };
    match known {
        Known::Settings => {
            let secret = oauth.client_secret.is_some();
            let order: &[Method] = match secret {
                true => &[Method::Basic, Method::Post],
                false => &[Method::None],
            };
            // Many servers accept clients without a secret, but do not declare it.
            let method = match secret {
                true => Method::first(order, issuer)?,
                false => Method::None,
            };
            Ok(named(&oauth.client_id, method, secret))
        }
        Known::Document => Ok(named(&oauth.client_metadata_url, Method::None, false)),
        Known::Registered => register(issuer, redirect, scopes, clients).await,
    }
}

/// Response to a registration as JSON.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Error response as JSON.
#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
    error_description: Option<String>,
}

async fn register(
    issuer: &Issuer,
    redirect: &str,
    scopes: &[String],
    clients: &Clients,
) -> Result<Client, ToolError> {
    let place = issuer.register.clone().ok_or_else(|| {
        ToolError::new(
            Code::Internal,
            "the authorization server has no registration endpoint",
        )
    })?;
    let wanted = match &issuer.methods {
        // A server without declared methods issues secrets, but usually accepts clients without one.
        None => Method::None,
        Some(_) => Method::first(&[Method::None, Method::Basic, Method::Post], issuer)?,
    };
    let mut about = json!({
        "client_name": "mimir",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.name(),
        "application_type": "native",
    });
    if !scopes.is_empty() {
        about["scope"] = scopes.join(" ").into();
    }
    let answer = Endpoint::new(place, clients)?.json(&about).await?;
    if !answer.status.is_success() {
        let why = answer.read::<Refusal>().map(|refusal| {
            let all = [refusal.error, refusal.error_description];
            all.into_iter().flatten().collect::<Vec<_>>().join(": ")
        });
        return Err(refused(format!(
            "the authorization server refused to register a client for mimir (HTTP {}: {}): register one there, and name it in the \
             server's settings (oauth.clientId)",
            answer.status.as_u16(),
            words(&why.unwrap_or_default(), &[])
        )));
    }
    let given = answer.read::<Registered>();
    let given = given.filter(|given| !given.client_id.is_empty());
    let given = given.ok_or_else(|| {
        refused("the authorization server registered a client, but did not return its id")
    })?;
    let secret = given.client_secret.filter(|secret| !secret.is_empty());
    if let Some(why) = secret.as_deref().and_then(unfit) {
        return Err(refused(format!(
            "the authorization server issued a client secret that is not usable: {why}"
        )));
    }
    let said = given.token_endpoint_auth_method.as_deref();
    let method = match (said.and_then(Method::named), &secret) {
        (Some(Method::Basic | Method::Post) | None, None) => Method::None,
        (Some(method), _) => method,
        (None, Some(_)) => Method::first(&[Method::Basic, Method::Post, Method::None], issuer)?,
    };
    Ok(Client {
        id: given.client_id,
        secret: secret.filter(|_| method != Method::None),
        method,
        settings: false,
    })
}

impl Client {
    /// Returns the client's secret, if it has one.
    pub(super) fn secret(
        &self,
        oauth: &McpOauth,
        vault: &dyn Vault,
    ) -> Result<Option<String>, ToolError> {
        if !self.settings {
            return Ok(self.secret.clone());
        }
        let named = oauth.client_secret.as_deref();
        // The settings name another client than the one that logged in.
        let named = named.filter(|_| oauth.client_id.as_deref() == Some(self.id.as_str()));
        named.map(|secret| fill(secret, vault)).transpose()
    }
}
