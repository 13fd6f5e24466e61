//! Who mimir is to an authorization server: the client of the settings, a document, or one that is registered for this
//! login.
//!
//! A registration is made anew at each login and not used by a later one: one that the authorization server has
//! forgotten would leave a person before a page that only says no. None is used at another authorization server.

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
    /// What was given out with the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) method: Method,
    /// Whether the secret is the one that the settings name, which is not kept a second time.
    pub(super) settings: bool,
}

/// How a client says who it is at the token endpoint.
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

    /// The first of these that the authorization server takes. Whoever says nothing takes the first of all; RFC 8414
    /// section 2.
    fn first(order: &[Self], issuer: &Issuer) -> Result<Self, ToolError> {
        let Some(methods) = &issuer.methods else {
            return Ok(order[0]);
        };
        let takes = |method: &&Self| methods.iter().any(|name| name == method.name());
        order.iter().find(takes).copied().ok_or_else(|| {
            refused(format!(
                "the authorization server wants clients to prove who they are in another way than by a secret ({})",
                words(&methods.join(", "), &[])
            ))
        })
    }
}

/// How mimir is known to an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The settings have a client.
    Settings,
    /// A document describes the client.
    Document,
    /// A client is registered for this login.
    Registered,
}

/// Which of the ways is taken, in the order of the protocol.
pub(super) fn known(oauth: &McpOauth, issuer: &Issuer) -> Result<Known, ToolError> {
    if oauth.client_id.is_some() {
        Ok(Known::Settings)
    } else if oauth.client_metadata_url.is_some() && issuer.takes_documents {
        Ok(Known::Document)
    } else if issuer.register.is_some() {
        Ok(Known::Registered)
    } else {
        Err(refused(
            "the authorization server registers no clients by itself: register one there, and name it in the server's \
             settings (oauth.clientId)",
        ))
    }
}

/// The client of this login, for this redirect.
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
            // Many do not say that they take clients without a secret, and do.
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

/// What a registration is answered with.
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// What a refusal says.
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
    let place = issuer
        .register
        .clone()
        .ok_or_else(|| ToolError::new(Code::Internal, "there is no place to register"))?;
    let wanted = match &issuer.methods {
        // Whoever says nothing gives out secrets, and takes clients without one as a rule.
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
            "the authorization server registers no client for mimir (HTTP {}: {}); register one there, and name it in the \
             server's settings (oauth.clientId)",
            answer.status.as_u16(),
            words(&why.unwrap_or_default(), &[])
        )));
    }
    let given = answer.read::<Registered>();
    let given = given.filter(|given| !given.client_id.is_empty());
    let given = given.ok_or_else(|| {
        refused("the authorization server says that it has registered a client, and not which")
    })?;
    let secret = given.client_secret.filter(|secret| !secret.is_empty());
    if let Some(why) = secret.as_deref().and_then(unfit) {
        return Err(refused(format!(
            "the authorization server gives out a secret that cannot be used: {why}"
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
    /// Its secret, if it has one.
    pub(super) fn secret(
        &self,
        oauth: &McpOauth,
        vault: &dyn Vault,
    ) -> Result<Option<String>, ToolError> {
        if !self.settings {
            return Ok(self.secret.clone());
        }
        let named = oauth.client_secret.as_deref();
        // It was another client that logged in.
        let named = named.filter(|_| oauth.client_id.as_deref() == Some(self.id.as_str()));
        named.map(|secret| fill(secret, vault)).transpose()
    }
}
