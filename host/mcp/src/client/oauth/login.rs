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
use mimir_core::config::McpOauth;
use mimir_core::network::Target;
use mimir_core::redact::Vault;
use mimir_core::{Code, ToolError};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::answer::{Expected, Unfit};
use super::challenge::{self, Challenge};
use super::endpoint::{Endpoint, judge};
use super::exchange::Asking;
use super::kept::{self, Kept, Login};
use super::metadata::{self, Issuer, Resource};
use super::registration::{self, Client, Known};
use super::{bearer, refused};
use crate::client::server::Deps;
use crate::client::spec::{ServerSpec, Way};
use crate::client::web;

/// Details that a person sees before the login page opens.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
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
    pub known: Known,
}

/// A prepared login. Only metadata has been requested so far.
pub struct Plan {
    facts: Facts,
    issuer: Issuer,
    resource: Resource,
    place: Place,
}

/// A login that waits for its callback.
pub struct Pending {
    plan: Plan,
    url: String,
    redirect: String,
    expected: Expected,
    verifier: String,
    client: Client,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(&self.facts).finish()
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.plan).finish()
    }
}

/// The server of a login.
struct Place {
    deps: Deps,
    oauth: McpOauth,
    key: String,
    url: Target,
}

/// Request that tests if a server requires a login: one that it never answers for everyone and rejects for users who
/// are logged in.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// Query parameters of the authorization URL that mimir sets.
const OURS: [&str; 8] = [
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
pub(crate) async fn plan(spec: &ServerSpec, deps: &Deps) -> Result<Plan, ToolError> {
    let Way::Web {
        url,
        headers,
        oauth,
    } = &spec.way
    else {
        return Err(no_login(&spec.name, "it is a program on this machine"));
    };
    if bearer::is_said(headers) {
        return Err(no_login(
            &spec.name,
            "its settings have an `Authorization` header, which is used instead",
        ));
    }
    let url = Target::parse(url).map_err(mimir_net::Error::from)?;
    let place = Place {
        deps: deps.clone(),
        oauth: oauth.clone(),
        key: spec.key(),
        url,
    };
    let asked = place.challenge(headers, &spec.name).await?;
    let clients = &*deps.client;
    let wanted = oauth.issuer.as_deref();
    let resource = metadata::resource(&place.url, &asked, wanted, clients).await?;
    let issuer = metadata::issuer(&resource.issuer, &place.url, clients).await?;
    let known = registration::known(oauth, &issuer)?;
    let before = Kept::read(&*deps.logins, &spec.name, &place.url)?;
    let scopes = scopes(oauth, &asked, &resource, &issuer, before.as_ref());
    let origin = |url: &Target| url.origin().to_string();
    let own = Target::parse(&issuer.name).map(|url| origin(&url));
    let mut also: Vec<String> = [&issuer.authorize, &issuer.token]
        .into_iter()
        .map(origin)
        .filter(|at| own.as_ref() != Ok(at))
        .collect();
    also.dedup();
    let before = before.map(|kept| kept.issuer);
    let facts = Facts {
        server: spec.name.clone(),
        url: place.url.to_string(),
        resource: resource.name.clone(),
        issuer: issuer.name.clone(),
        before: before.filter(|before| *before != issuer.name),
        scopes,
        also,
        known,
    };
    Ok(Plan {
        facts,
        issuer,
        resource,
        place,
    })
}

fn no_login(server: &str, why: &str) -> ToolError {
    let message = format!("the server `{server}` cannot be logged in to: {why}");
    ToolError::new(Code::InvalidInput, message)
}

/// Returns the scopes to request: those of the settings, otherwise those that the server requires, otherwise those of
/// its metadata. Scopes that it reported as missing are added, and those requested before remain.
fn scopes(
    oauth: &McpOauth,
    asked: &Challenge,
    resource: &Resource,
    issuer: &Issuer,
    before: Option<&Kept>,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut put = |more: &[String]| challenge::add(&mut all, more.iter().map(String::as_str));
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
        challenge::add(&mut all, [OFFLINE]);
    }
    // The scope is useless if neither the authorization server knows it nor the server requires it.
    if !lasts && !asked.scopes.iter().any(|scope| scope == OFFLINE) && oauth.scopes.is_none() {
        all.retain(|scope| scope != OFFLINE);
    }
    all
}

impl Place {
    /// Returns the server's challenge for anonymous requests, with the scopes reported as missing since the last
    /// login.
    async fn challenge(
        &self,
        headers: &[(String, String)],
        server: &str,
    ) -> Result<Challenge, ToolError> {
        let mut sent: HeaderMap = web::headers(server, headers, &*self.deps.vault)?
            .into_iter()
            .collect();
        sent.insert(CONTENT_TYPE, HeaderValue::from_static(web::JSON));
        sent.insert(ACCEPT, HeaderValue::from_static(web::ANSWERS));
        let probe = Bytes::from_static(PROBE.as_bytes());
        let place = Endpoint::new(self.url.clone(), &*self.deps.client)?;
        let answer = place.sent(sent, probe).await?;
        let now = match answer.status() {
            StatusCode::UNAUTHORIZED => Challenge::of(answer.headers()),
            _ => Challenge::default(),
        };
        let kept = bearer::noted(&*self.deps.store, &self.key);
        let Some(kept) = kept.filter(|kept| kept.insufficient) else {
            return Ok(now);
        };
        let mut all = now;
        challenge::add(&mut all.scopes, kept.scopes.iter().map(String::as_str));
        all.insufficient = true;
        all.resource_metadata = all.resource_metadata.or(kept.resource_metadata);
        Ok(all)
    }
}

impl Plan {
    /// Returns the details that a person has to see first.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the local port of the callback, if the settings name one.
    pub fn port(&self) -> Option<u16> {
        self.place.oauth.redirect_port
    }

    /// Starts the login: the callback goes to `redirect`, an address on this machine.
    pub async fn begin(self, redirect: &str) -> Result<Pending, ToolError> {
        let (facts, issuer, place) = (&self.facts, &self.issuer, &self.place);
        let client = registration::client(
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
            .any(|(name, _)| OURS.contains(&name.as_ref()))
        {
            return Err(refused(
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
        let expected = Expected {
            state,
            issuer: issuer.name.clone(),
            names_itself: issuer.names_itself,
        };
        Ok(Pending {
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
        let message = "the system's random number generator is not available";
        ToolError::new(Code::Unavailable, message)
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

impl Pending {
    /// Returns the URL of the login page.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Extracts the code from a callback: a URL, or its path and query.
    pub fn code(&self, answer: &str) -> Result<String, Unfit> {
        self.expected.code(answer)
    }

    /// Completes the login with that code, and stores the result.
    pub async fn finish(self, code: &str) -> Result<Login, ToolError> {
        let Plan {
            facts,
            issuer,
            resource,
            place,
        } = self.plan;
        let Place { deps, url, .. } = &place;
        let token = Endpoint::new(issuer.token.clone(), &*deps.client)?;
        let secret = self.client.secret(&place.oauth, &*deps.vault)?;
        let asking = Asking {
            place: &token,
            client: &self.client,
            secret: secret.as_deref(),
            resource: &resource.name,
        };
        let granted = asking.code(code, &self.verifier, &self.redirect).await?;
        let kept = Kept {
            server: facts.server.clone(),
            url: url.to_string(),
            resource: resource.name.clone(),
            issuer: issuer.name.clone(),
            token_endpoint: token.target().to_string(),
            revocation_endpoint: issuer.revoke.as_ref().map(Target::to_string),
            client: self.client.clone(),
            access: granted.access,
            refresh: granted.refresh,
            until: granted.until,
            granted: granted.scopes.unwrap_or_else(|| facts.scopes.clone()),
            asked: facts.scopes.clone(),
        };
        let turn = turn(deps, &facts.server, url).await?;
        let before = Kept::read(&*deps.logins, &facts.server, url)?;
        kept.write(&*deps.logins, url)?;
        drop(turn);
        bearer::forget_note(&*deps.store, &place.key);
        // The previous token is revoked on a best-effort basis; with the same client that might revoke the new one.
        if let Some(before) = before
            && before.client.id != kept.client.id
        {
            let _ = revoke(&before, &place.oauth, url, deps).await;
        }
        Ok(Login::of(&kept))
    }
}

/// Waits until no other process or task renews the login at this server.
pub(super) async fn turn(
    deps: &Deps,
    server: &str,
    url: &Target,
) -> Result<Box<dyn Send>, ToolError> {
    let (logins, key) = (Arc::clone(&deps.logins), kept::key(server, url));
    let turn = tokio::task::spawn_blocking(move || logins.turn(&key)).await;
    turn.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?
}

/// Revokes a login at its authorization server, if possible. Returns false if it was not revoked.
async fn revoke(
    kept: &Kept,
    oauth: &McpOauth,
    url: &Target,
    deps: &Deps,
) -> Result<bool, ToolError> {
    let Some(place) = &kept.revocation_endpoint else {
        return Ok(false);
    };
    let place = Endpoint::new(judge(place, "revocation endpoint", url)?, &*deps.client)?;
    let secret = kept.client.secret(oauth, &*deps.vault as &dyn Vault)?;
    let asking = Asking {
        place: &place,
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
pub(crate) async fn forget(spec: &ServerSpec, deps: &Deps) -> Result<Option<bool>, ToolError> {
    let Way::Web { url, oauth, .. } = &spec.way else {
        return Ok(None);
    };
    let url = Target::parse(url).map_err(mimir_net::Error::from)?;
    let turn = turn(deps, &spec.name, &url).await?;
    let kept = Kept::read(&*deps.logins, &spec.name, &url)?;
    deps.logins.remove(&super::key(&spec.name, &url))?;
    drop(turn);
    // The stored challenge is removed, too: no login might be able to satisfy it.
    bearer::forget_note(&*deps.store, &spec.key());
    let Some(kept) = kept else {
        return Ok(None);
    };
    let told = revoke(&kept, oauth, &url, deps).await;
    Ok(Some(told.unwrap_or(false)))
}

/// Returns the login at a server, if there is one.
pub(crate) fn login(spec: &ServerSpec, deps: &Deps) -> Result<Option<Login>, ToolError> {
    let Way::Web { url, .. } = &spec.way else {
        return Ok(None);
    };
    let url = Target::parse(url).map_err(mimir_net::Error::from)?;
    let kept = Kept::read(&*deps.logins, &spec.name, &url)?;
    Ok(kept.as_ref().map(Login::of))
}
