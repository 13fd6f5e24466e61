//! A user's login: preparation, start and completion.
//!
//! Out of scope: opening the login page, and receiving the callback.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Vault;
use serde::Serialize;

use super::authorization::{AuthorizationRequest, OFFLINE};
use super::bearer;
use super::callback::CallbackError;
use super::challenge::{self, BearerChallenge};
use super::endpoint::{OauthEndpoint, check_url};
use super::metadata::{self, AuthorizationServer, ProtectedResource};
use super::registration::{self, OauthClient, RegistrationKind};
use super::stored_login::{self, LoginSummary, StoredLogin};
use super::token_endpoint::TokenRequest;
use crate::client::http_transport;
use crate::client::server::ServerDeps;
use crate::client::spec::{ServerSpec, ServerTransport};

/// Details that the user sees before the login page opens.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginDetails {
    /// Name of the server.
    pub server: String,
    /// URL of the server, to which the token will be sent.
    pub url: String,
    /// Resource of the token.
    pub resource: String,
    /// The authorization server, where the user logs in, and which receives the code.
    pub issuer: String,
    /// The authorization server of the last login, if it was another one.
    pub before: Option<String>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Hosts of the login besides that of the authorization server.
    pub also: Vec<String>,
    /// The kind of mimir's registration at the authorization server.
    #[serde(skip)]
    pub registration: RegistrationKind,
}

/// A prepared login. Only metadata has been requested so far.
pub struct LoginPlan {
    facts: LoginDetails,
    issuer: AuthorizationServer,
    resource: ProtectedResource,
    target: LoginTarget,
}

/// A login that waits for the callback.
pub struct PendingLogin {
    plan: LoginPlan,
    request: AuthorizationRequest,
    client: OauthClient,
}

impl fmt::Debug for LoginPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoginPlan").field(&self.facts).finish()
    }
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingLogin").field(&self.plan).finish()
    }
}

/// The server of a login.
struct LoginTarget {
    deps: ServerDeps,
    oauth: McpOauthSettings,
    key: String,
    url: RequestTarget,
}

/// Request that tests if a server requires a login. No server answers this request for anonymous users and rejects it
/// for users who are logged in.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// Prepares a login at this server.
pub(crate) async fn plan_login(
    spec: &ServerSpec,
    deps: &ServerDeps,
) -> Result<LoginPlan, ToolError> {
    let ServerTransport::Http {
        url,
        headers,
        oauth,
    } = &spec.transport
    else {
        return Err(no_login(
            &spec.name,
            "the server is a program on this machine",
        ));
    };
    if bearer::has_authorization(headers) {
        return Err(no_login(
            &spec.name,
            "mimir uses the `Authorization` header in its settings",
        ));
    }
    let url = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let target = LoginTarget {
        deps: deps.clone(),
        oauth: oauth.clone(),
        key: spec.key(),
        url,
    };
    let challenge = target.fetch_challenge(headers, &spec.name).await?;
    let clients = &*deps.clients_of(&spec.name);
    let expected_issuer = oauth.issuer.as_deref();
    let resource =
        metadata::fetch_resource(&target.url, &challenge, expected_issuer, clients).await?;
    let issuer = metadata::fetch_issuer(&resource.issuer, &target.url, clients).await?;
    let registration = registration::choose_registration(oauth, &issuer)?;
    let before = StoredLogin::read(&*deps.logins, &spec.name, &target.url)?;
    let scopes = choose_scopes(oauth, &challenge, &resource, &issuer, before.as_ref());
    let origin = |url: &RequestTarget| url.origin().to_string();
    let issuer_origin = RequestTarget::parse(&issuer.name).map(|url| origin(&url));
    let mut also: Vec<String> = [&issuer.authorize, &issuer.token]
        .into_iter()
        .map(origin)
        .filter(|at| issuer_origin.as_ref() != Ok(at))
        .collect();
    also.dedup();
    let before = before.map(|login| login.issuer);
    let facts = LoginDetails {
        server: spec.name.clone(),
        url: target.url.to_string(),
        resource: resource.name.clone(),
        issuer: issuer.name.clone(),
        before: before.filter(|before| *before != issuer.name),
        scopes,
        also,
        registration,
    };
    Ok(LoginPlan {
        facts,
        issuer,
        resource,
        target,
    })
}

fn no_login(server: &str, why: &str) -> ToolError {
    ToolError::invalid_input(format!("cannot log in to the server `{server}`: {why}"))
}

/// Returns the scopes to request: those of the settings, otherwise those that the server requires, otherwise those in
/// its metadata. Scopes that the server reported as missing are added, as is `offline_access` if supported. Unless the
/// settings contain scopes, the scopes of an earlier login at the same authorization server are added too.
fn choose_scopes(
    oauth: &McpOauthSettings,
    challenge: &BearerChallenge,
    resource: &ProtectedResource,
    issuer: &AuthorizationServer,
    before: Option<&StoredLogin>,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut add =
        |more: &[String]| challenge::add_scopes(&mut all, more.iter().map(String::as_str));
    match (&oauth.scopes, before) {
        (Some(scopes), _) => add(scopes),
        (None, Some(before)) if before.issuer == issuer.name => add(&before.requested_scopes),
        (None, _) => {}
    }
    if challenge.insufficient || oauth.scopes.is_none() {
        add(&challenge.scopes);
    }
    if oauth.scopes.is_none() && challenge.scopes.is_empty() {
        add(&resource.scopes);
    }
    let supports_refresh = issuer.scopes.iter().any(|scope| scope == OFFLINE);
    if !all.is_empty() && supports_refresh {
        challenge::add_scopes(&mut all, [OFFLINE]);
    }
    // `offline_access` has no effect if neither the authorization server supports it nor the server requires it.
    if !supports_refresh
        && !challenge.scopes.iter().any(|scope| scope == OFFLINE)
        && oauth.scopes.is_none()
    {
        all.retain(|scope| scope != OFFLINE);
    }
    all
}

impl LoginTarget {
    /// Returns the server's challenge for anonymous requests, with the scopes reported as missing since the last
    /// login.
    async fn fetch_challenge(
        &self,
        headers: &[(String, String)],
        server: &str,
    ) -> Result<BearerChallenge, ToolError> {
        let mut request_headers: HeaderMap =
            http_transport::build_headers(server, headers, &*self.deps.vault)?
                .into_iter()
                .collect();
        request_headers.insert(CONTENT_TYPE, HeaderValue::from_static(http_transport::JSON));
        request_headers.insert(
            ACCEPT,
            HeaderValue::from_static(http_transport::ACCEPTED_TYPES),
        );
        let probe = Bytes::from_static(PROBE.as_bytes());
        let endpoint = OauthEndpoint::new(self.url.clone(), &*self.deps.clients_of(server))?;
        let response = endpoint.post_for_head(request_headers, probe).await?;
        let current = match response.status() {
            StatusCode::UNAUTHORIZED => BearerChallenge::from_headers(response.headers()),
            _ => BearerChallenge::default(),
        };
        let stored = bearer::stored_challenge(&*self.deps.store, &self.key);
        let Some(stored) = stored.filter(|stored| stored.insufficient) else {
            return Ok(current);
        };
        let mut merged = current;
        challenge::add_scopes(&mut merged.scopes, stored.scopes.iter().map(String::as_str));
        merged.insufficient = true;
        merged.resource_metadata = merged.resource_metadata.or(stored.resource_metadata);
        Ok(merged)
    }
}

impl LoginPlan {
    /// Returns the details that the user has to see before the login starts.
    pub fn facts(&self) -> &LoginDetails {
        &self.facts
    }

    /// Returns the local port for the callback, if the settings name one.
    pub fn port(&self) -> Option<u16> {
        self.target.oauth.redirect_port
    }

    /// Starts the login: the callback goes to `redirect`, an address on this machine or of this server.
    pub async fn begin(self, redirect: &str) -> Result<PendingLogin, ToolError> {
        let (facts, issuer, target) = (&self.facts, &self.issuer, &self.target);
        let clients = target.deps.clients_of(&facts.server);
        let client = registration::resolve_client(
            facts.registration,
            &target.oauth,
            issuer,
            redirect,
            &facts.scopes,
            &*clients,
        );
        let client = client.await?;
        let request = AuthorizationRequest::new(
            issuer,
            &client.id,
            redirect,
            &self.resource.name,
            &facts.scopes,
        )?;
        Ok(PendingLogin {
            request,
            client,
            plan: self,
        })
    }
}

impl PendingLogin {
    /// Returns the URL of the login page.
    pub fn url(&self) -> &str {
        &self.request.url
    }

    /// Returns the state that the callback repeats.
    pub(crate) fn state(&self) -> &str {
        self.request.state()
    }

    /// Extracts the code from a callback: a URL, or its path and query.
    pub fn code(&self, callback: &str) -> Result<String, CallbackError> {
        self.request.code(callback)
    }

    /// Exchanges the code for a token, and stores the login.
    pub async fn finish(self, code: &str) -> Result<LoginSummary, ToolError> {
        let LoginPlan {
            facts,
            issuer,
            resource,
            target,
        } = self.plan;
        let LoginTarget { deps, url, .. } = &target;
        let clients = deps.clients_of(&facts.server);
        let token = OauthEndpoint::new(issuer.token.clone(), &*clients)?;
        let secret = self.client.secret(&target.oauth, &*deps.vault)?;
        let request = TokenRequest {
            endpoint: &token,
            client: &self.client,
            secret: secret.as_deref(),
            resource: &resource.name,
        };
        let granted = request
            .redeem_code(code, &self.request.verifier, &self.request.redirect)
            .await?;
        let login = StoredLogin {
            server: facts.server.clone(),
            url: url.to_string(),
            resource: resource.name.clone(),
            issuer: issuer.name.clone(),
            token_endpoint: token.target().to_string(),
            revocation_endpoint: issuer.revoke.as_ref().map(RequestTarget::to_string),
            client: self.client.clone(),
            access: granted.access,
            refresh: granted.refresh,
            expires_at: granted.expires_at,
            granted_scopes: granted.scopes.unwrap_or_else(|| facts.scopes.clone()),
            requested_scopes: facts.scopes.clone(),
        };
        let lock = lock_renewal(deps, &facts.server, url).await?;
        let before = StoredLogin::read(&*deps.logins, &facts.server, url)?;
        login.write(&*deps.logins, url)?;
        drop(lock);
        bearer::forget_challenge(&*deps.store, &target.key);
        // The previous login is revoked if possible. With the same client, that might revoke the new login, too.
        if let Some(before) = before
            && before.client.id != login.client.id
        {
            let _ = revoke(&before, &target.oauth, url, deps).await;
        }
        Ok(LoginSummary::from_stored(&login))
    }
}

/// Waits until no other process or task renews the login at this server.
pub(super) async fn lock_renewal(
    deps: &ServerDeps,
    server: &str,
    url: &RequestTarget,
) -> Result<Box<dyn Send>, ToolError> {
    let (logins, key) = (
        Arc::clone(&deps.logins),
        stored_login::login_key(server, url),
    );
    let lock = tokio::task::spawn_blocking(move || logins.lock(&key)).await;
    lock.map_err(ToolError::internal)?
}

/// Revokes a login at its authorization server, if possible. Returns true if the login was revoked.
async fn revoke(
    login: &StoredLogin,
    oauth: &McpOauthSettings,
    url: &RequestTarget,
    deps: &ServerDeps,
) -> Result<bool, ToolError> {
    let Some(endpoint) = &login.revocation_endpoint else {
        return Ok(false);
    };
    let endpoint = OauthEndpoint::new(
        check_url(endpoint, "revocation endpoint", url)?,
        &*deps.clients_of(&login.server),
    )?;
    let secret = login.client.secret(oauth, &*deps.vault as &dyn Vault)?;
    let request = TokenRequest {
        endpoint: &endpoint,
        client: &login.client,
        secret: secret.as_deref(),
        resource: &login.resource,
    };
    // Revoking the refresh token also revokes its access tokens, but some servers can revoke only one of the two kinds.
    let mut revoked = false;
    if let Some(refresh) = &login.refresh {
        revoked = request.revoke(refresh, "refresh_token").await?;
    }
    Ok(request.revoke(&login.access, "access_token").await? || revoked)
}

/// Removes the login at a server: revokes it at the authorization server if possible, and deletes the stored login.
/// Returns true if the login was revoked, and `None` if there was no login.
pub(crate) async fn forget_login(
    spec: &ServerSpec,
    deps: &ServerDeps,
) -> Result<Option<bool>, ToolError> {
    let ServerTransport::Http { url, oauth, .. } = &spec.transport else {
        return Ok(None);
    };
    let url = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let lock = lock_renewal(deps, &spec.name, &url).await?;
    let login = StoredLogin::read(&*deps.logins, &spec.name, &url)?;
    deps.logins.remove(&super::login_key(&spec.name, &url))?;
    drop(lock);
    // Also removes the stored challenge, because it may be impossible to satisfy.
    bearer::forget_challenge(&*deps.store, &spec.key());
    let Some(login) = login else {
        return Ok(None);
    };
    let revoked = revoke(&login, oauth, &url, deps).await;
    Ok(Some(revoked.unwrap_or(false)))
}

/// Returns the login at a server, if there is one.
pub(crate) fn login_summary(
    spec: &ServerSpec,
    deps: &ServerDeps,
) -> Result<Option<LoginSummary>, ToolError> {
    let ServerTransport::Http { url, .. } = &spec.transport else {
        return Ok(None);
    };
    let url = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let login = StoredLogin::read(&*deps.logins, &spec.name, &url)?;
    Ok(login.as_ref().map(LoginSummary::from_stored))
}
