//! A person's login: preparation, start and completion.
//!
//! Out of scope: opening the page, and receiving the callback.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use mimir_core::ToolError;
use mimir_core::config::McpOauthSettings;
use mimir_core::network::RequestTarget;
use mimir_core::redact::Vault;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::callback::{CallbackError, ExpectedCallback};
use super::challenge::{self, BearerChallenge};
use super::endpoint::{OauthEndpoint, check_url};
use super::metadata::{self, AuthorizationServer, ProtectedResource};
use super::registration::{self, OauthClient, RegistrationKind};
use super::stored_login::{self, LoginSummary, StoredLogin};
use super::token_endpoint::TokenRequest;
use super::{bearer, login_error};
use crate::client::http_transport;
use crate::client::server::ServerDeps;
use crate::client::spec::{ServerSpec, ServerTransport};

/// Details that a person sees before the login page opens.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginDetails {
    /// Name of the server.
    pub server: String,
    /// Address of the server, to which the token will be sent.
    pub url: String,
    /// Resource of the token.
    pub resource: String,
    /// The authorization server, with which the person logs in, and which receives the code.
    pub issuer: String,
    /// The authorization server of the last login, if it was another one.
    pub before: Option<String>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Hosts of the login besides that of the authorization server.
    pub also: Vec<String>,
    /// The way in which mimir is registered there.
    #[serde(skip)]
    pub known: RegistrationKind,
}

/// A prepared login. Only metadata has been requested so far.
pub struct LoginPlan {
    facts: LoginDetails,
    issuer: AuthorizationServer,
    resource: ProtectedResource,
    target: LoginTarget,
}

/// A login that waits for its callback.
pub struct PendingLogin {
    plan: LoginPlan,
    url: String,
    redirect: String,
    expected: ExpectedCallback,
    verifier: String,
    client: OauthClient,
}

impl fmt::Debug for LoginPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(&self.facts).finish()
    }
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.plan).finish()
    }
}

/// The server of a login.
struct LoginTarget {
    deps: ServerDeps,
    oauth: McpOauthSettings,
    key: String,
    url: RequestTarget,
}

/// Request that tests if a server requires a login: one that it never answers for everyone and rejects for users who
/// are logged in.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// Query parameters of the authorization URL that mimir sets.
const RESERVED_PARAMS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
];

/// Scope that requests a refresh token; OpenID Connect Core section 11.
const OFFLINE: &str = "offline_access";

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
        return Err(no_login(&spec.name, "it is a program on this machine"));
    };
    if bearer::has_authorization(headers) {
        return Err(no_login(
            &spec.name,
            "its settings have an `Authorization` header, which is used instead",
        ));
    }
    let url = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let place = LoginTarget {
        deps: deps.clone(),
        oauth: oauth.clone(),
        key: spec.key(),
        url,
    };
    let asked = place.challenge(headers, &spec.name).await?;
    let clients = &*deps.client;
    let wanted = oauth.issuer.as_deref();
    let resource = metadata::fetch_resource(&place.url, &asked, wanted, clients).await?;
    let issuer = metadata::fetch_issuer(&resource.issuer, &place.url, clients).await?;
    let known = registration::choose_registration(oauth, &issuer)?;
    let before = StoredLogin::read(&*deps.logins, &spec.name, &place.url)?;
    let scopes = scopes(oauth, &asked, &resource, &issuer, before.as_ref());
    let origin = |url: &RequestTarget| url.origin().to_string();
    let own = RequestTarget::parse(&issuer.name).map(|url| origin(&url));
    let mut also: Vec<String> = [&issuer.authorize, &issuer.token]
        .into_iter()
        .map(origin)
        .filter(|at| own.as_ref() != Ok(at))
        .collect();
    also.dedup();
    let before = before.map(|kept| kept.issuer);
    let facts = LoginDetails {
        server: spec.name.clone(),
        url: place.url.to_string(),
        resource: resource.name.clone(),
        issuer: issuer.name.clone(),
        before: before.filter(|before| *before != issuer.name),
        scopes,
        also,
        known,
    };
    Ok(LoginPlan {
        facts,
        issuer,
        resource,
        target: place,
    })
}

fn no_login(server: &str, why: &str) -> ToolError {
    ToolError::invalid_input(format!(
        "the server `{server}` cannot be logged in to: {why}"
    ))
}

/// Returns the scopes to request: those of the settings, otherwise those that the server requires, otherwise those of
/// its metadata. Scopes that it reported as missing are added, and those requested before remain.
fn scopes(
    oauth: &McpOauthSettings,
    asked: &BearerChallenge,
    resource: &ProtectedResource,
    issuer: &AuthorizationServer,
    before: Option<&StoredLogin>,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut put =
        |more: &[String]| challenge::add_scopes(&mut all, more.iter().map(String::as_str));
    match (&oauth.scopes, before) {
        (Some(scopes), _) => put(scopes),
        (None, Some(before)) if before.issuer == issuer.name => put(&before.asked),
        (None, _) => {}
    }
    if asked.insufficient || oauth.scopes.is_none() {
        put(&asked.scopes);
    }
    if oauth.scopes.is_none() && asked.scopes.is_empty() {
        put(&resource.scopes);
    }
    let lasts = issuer.scopes.iter().any(|scope| scope == OFFLINE);
    if !all.is_empty() && lasts {
        challenge::add_scopes(&mut all, [OFFLINE]);
    }
    // The scope is useless if neither the authorization server knows it nor the server requires it.
    if !lasts && !asked.scopes.iter().any(|scope| scope == OFFLINE) && oauth.scopes.is_none() {
        all.retain(|scope| scope != OFFLINE);
    }
    all
}

impl LoginTarget {
    /// Returns the server's challenge for anonymous requests, with the scopes reported as missing since the last
    /// login.
    async fn challenge(
        &self,
        headers: &[(String, String)],
        server: &str,
    ) -> Result<BearerChallenge, ToolError> {
        let mut sent: HeaderMap = http_transport::headers(server, headers, &*self.deps.vault)?
            .into_iter()
            .collect();
        sent.insert(CONTENT_TYPE, HeaderValue::from_static(http_transport::JSON));
        sent.insert(ACCEPT, HeaderValue::from_static(http_transport::ANSWERS));
        let probe = Bytes::from_static(PROBE.as_bytes());
        let place = OauthEndpoint::new(self.url.clone(), &*self.deps.client)?;
        let answer = place.sent(sent, probe).await?;
        let now = match answer.status() {
            StatusCode::UNAUTHORIZED => BearerChallenge::from_headers(answer.headers()),
            _ => BearerChallenge::default(),
        };
        let kept = bearer::stored_challenge(&*self.deps.store, &self.key);
        let Some(kept) = kept.filter(|kept| kept.insufficient) else {
            return Ok(now);
        };
        let mut all = now;
        challenge::add_scopes(&mut all.scopes, kept.scopes.iter().map(String::as_str));
        all.insufficient = true;
        all.resource_metadata = all.resource_metadata.or(kept.resource_metadata);
        Ok(all)
    }
}

impl LoginPlan {
    /// Returns the details that a person has to see first.
    pub fn facts(&self) -> &LoginDetails {
        &self.facts
    }

    /// Returns the local port of the callback, if the settings name one.
    pub fn port(&self) -> Option<u16> {
        self.target.oauth.redirect_port
    }

    /// Starts the login: the callback goes to `redirect`, an address on this machine.
    pub async fn begin(self, redirect: &str) -> Result<PendingLogin, ToolError> {
        let (facts, issuer, place) = (&self.facts, &self.issuer, &self.target);
        let client = registration::resolve_client(
            facts.known,
            &place.oauth,
            issuer,
            redirect,
            &facts.scopes,
            &*place.deps.client,
        );
        let client = client.await?;
        let (state, verifier) = (random()?, random()?);
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut url = issuer.authorize.url().clone();
        if url
            .query_pairs()
            .any(|(name, _)| RESERVED_PARAMS.contains(&name.as_ref()))
        {
            return Err(login_error(
                "the URL of the authorization server's login page already sets query parameters that mimir has to set",
            ));
        }
        let scope = facts.scopes.join(" ");
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &client.id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &digest)
                .append_pair("code_challenge_method", "S256")
                .append_pair("resource", &self.resource.name);
            if !scope.is_empty() {
                query.append_pair("scope", &scope);
            }
            if facts.scopes.iter().any(|scope| scope == OFFLINE) {
                query.append_pair("prompt", "consent");
            }
        }
        let expected = ExpectedCallback {
            state,
            issuer: issuer.name.clone(),
            names_itself: issuer.names_itself,
        };
        Ok(PendingLogin {
            url: url.to_string(),
            redirect: redirect.to_owned(),
            expected,
            verifier,
            client,
            plan: self,
        })
    }
}

/// Returns an unguessable random string.
fn random() -> Result<String, ToolError> {
    let mut bits = [0; 32];
    let filled = getrandom::fill(&mut bits);
    filled.map_err(|_| {
        ToolError::unavailable("the system's random number generator is not available")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

impl PendingLogin {
    /// Returns the URL of the login page.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Extracts the code from a callback: a URL, or its path and query.
    pub fn code(&self, answer: &str) -> Result<String, CallbackError> {
        self.expected.code(answer)
    }

    /// Completes the login with that code, and stores the result.
    pub async fn finish(self, code: &str) -> Result<LoginSummary, ToolError> {
        let LoginPlan {
            facts,
            issuer,
            resource,
            target: place,
        } = self.plan;
        let LoginTarget { deps, url, .. } = &place;
        let token = OauthEndpoint::new(issuer.token.clone(), &*deps.client)?;
        let secret = self.client.secret(&place.oauth, &*deps.vault)?;
        let asking = TokenRequest {
            endpoint: &token,
            client: &self.client,
            secret: secret.as_deref(),
            resource: &resource.name,
        };
        let granted = asking
            .redeem_code(code, &self.verifier, &self.redirect)
            .await?;
        let kept = StoredLogin {
            server: facts.server.clone(),
            url: url.to_string(),
            resource: resource.name.clone(),
            issuer: issuer.name.clone(),
            token_endpoint: token.target().to_string(),
            revocation_endpoint: issuer.revoke.as_ref().map(RequestTarget::to_string),
            client: self.client.clone(),
            access: granted.access,
            refresh: granted.refresh,
            until: granted.until,
            granted: granted.scopes.unwrap_or_else(|| facts.scopes.clone()),
            asked: facts.scopes.clone(),
        };
        let turn = lock_renewal(deps, &facts.server, url).await?;
        let before = StoredLogin::read(&*deps.logins, &facts.server, url)?;
        kept.write(&*deps.logins, url)?;
        drop(turn);
        bearer::forget_challenge(&*deps.store, &place.key);
        // The previous token is revoked on a best-effort basis; with the same client that might revoke the new one.
        if let Some(before) = before
            && before.client.id != kept.client.id
        {
            let _ = revoke(&before, &place.oauth, url, deps).await;
        }
        Ok(LoginSummary::from_stored(&kept))
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
    let turn = tokio::task::spawn_blocking(move || logins.turn(&key)).await;
    turn.map_err(ToolError::internal)?
}

/// Revokes a login at its authorization server, if possible. Returns false if it was not revoked.
async fn revoke(
    kept: &StoredLogin,
    oauth: &McpOauthSettings,
    url: &RequestTarget,
    deps: &ServerDeps,
) -> Result<bool, ToolError> {
    let Some(place) = &kept.revocation_endpoint else {
        return Ok(false);
    };
    let place = OauthEndpoint::new(check_url(place, "revocation endpoint", url)?, &*deps.client)?;
    let secret = kept.client.secret(oauth, &*deps.vault as &dyn Vault)?;
    let asking = TokenRequest {
        endpoint: &place,
        client: &kept.client,
        secret: secret.as_deref(),
        resource: &kept.resource,
    };
    // Revoking the refresh token also revokes its access tokens; some servers know only one of the two.
    let mut ended = false;
    if let Some(refresh) = &kept.refresh {
        ended = asking.revoke(refresh, "refresh_token").await?;
    }
    Ok(asking.revoke(&kept.access, "access_token").await? || ended)
}

/// Removes the login at a server: revokes it there if possible, and deletes the stored copy. None if there is no
/// login; otherwise true if the authorization server was told.
pub(crate) async fn forget_login(
    spec: &ServerSpec,
    deps: &ServerDeps,
) -> Result<Option<bool>, ToolError> {
    let ServerTransport::Http { url, oauth, .. } = &spec.transport else {
        return Ok(None);
    };
    let url = RequestTarget::parse(url).map_err(mimir_net::Error::from)?;
    let turn = lock_renewal(deps, &spec.name, &url).await?;
    let kept = StoredLogin::read(&*deps.logins, &spec.name, &url)?;
    deps.logins.remove(&super::login_key(&spec.name, &url))?;
    drop(turn);
    // The stored challenge is removed, too: no login might be able to satisfy it.
    bearer::forget_challenge(&*deps.store, &spec.key());
    let Some(kept) = kept else {
        return Ok(None);
    };
    let revoked = revoke(&kept, oauth, &url, deps).await;
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
    let kept = StoredLogin::read(&*deps.logins, &spec.name, &url)?;
    Ok(kept.as_ref().map(LoginSummary::from_stored))
}
