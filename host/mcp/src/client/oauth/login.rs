//! A person's login: found out, begun, and brought to its end.
//!
//! Never here: how the person gets to the page, and how the answer comes back.

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

/// What a person sees before the page.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The server's name.
    pub server: String,
    /// Its address: what the token is sent to.
    pub url: String,
    /// What the token is for.
    pub resource: String,
    /// The authorization server: who the person logs in with, and who gets the code.
    pub issuer: String,
    /// The one of the last login, if that was another.
    pub before: Option<String>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Hosts beside that of the authorization server that it has a login go over.
    pub also: Vec<String>,
    /// How mimir is known there.
    #[serde(skip)]
    pub known: Known,
}

/// A login that can begin. Nothing was sent yet but questions.
pub struct Plan {
    facts: Facts,
    issuer: Issuer,
    resource: Resource,
    place: Place,
}

/// A login that waits for its answer.
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

/// What is asked of a server that says whether it wants a login: a question that no server answers to everybody and
/// refuses to whoever has logged in.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// What of a page's address is ours.
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

/// Who asks for a token that lasts says so; OpenID Connect Core section 11.
const OFFLINE: &str = "offline_access";

/// Finds out how a login at this server goes.
pub(crate) async fn plan(spec: &ServerSpec, deps: &Deps) -> Result<Plan, ToolError> {
    let Way::Web {
        url,
        headers,
        oauth,
    } = &spec.way
    else {
        return Err(no_login(&spec.name, "it is a program of this machine"));
    };
    if bearer::is_said(headers) {
        return Err(no_login(
            &spec.name,
            "its settings have a header `Authorization`, which is what it is sent",
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
    let message = format!("there is no login at the server `{server}`: {why}");
    ToolError::new(Code::InvalidInput, message)
}

/// What is asked for: what the settings say, else what the server wants, else what it names for a start. What it has
/// found missing comes on top, and what was asked for before stays.
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
    // Nobody asks for what an authorization server does not know and no server wants.
    if !lasts && !asked.scopes.iter().any(|scope| scope == OFFLINE) && oauth.scopes.is_none() {
        all.retain(|scope| scope != OFFLINE);
    }
    all
}

impl Place {
    /// What the server wants of whoever has not logged in, with what it has found missing since the last login.
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
    /// What a person is to see first.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The port of this machine that the answer has to come to, if the settings name one.
    pub fn port(&self) -> Option<u16> {
        self.place.oauth.redirect_port
    }

    /// Begins the login: its answer comes to `redirect`, an address of this machine.
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
                "the authorization server's page for logins comes with answers of its own to what mimir asks there",
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

/// A word that nobody can guess.
fn random() -> Result<String, ToolError> {
    let mut bits = [0; 32];
    let filled = getrandom::fill(&mut bits);
    filled.map_err(|_| {
        let message = "this system has no randomness to give";
        ToolError::new(Code::Unavailable, message)
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}

impl Pending {
    /// The page that the person goes to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The code of an answer: an address, or its path and query.
    pub fn code(&self, answer: &str) -> Result<String, Unfit> {
        self.expected.code(answer)
    }

    /// Brings it to its end with that code, and keeps what came of it.
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
        // What nobody uses any more ends, whether that works or not; with the same client it might end the new one.
        if let Some(before) = before
            && before.client.id != kept.client.id
        {
            let _ = revoke(&before, &place.oauth, url, deps).await;
        }
        Ok(Login::of(&kept))
    }
}

/// Waits until nobody else renews the login at this server.
pub(super) async fn turn(
    deps: &Deps,
    server: &str,
    url: &Target,
) -> Result<Box<dyn Send>, ToolError> {
    let (logins, key) = (Arc::clone(&deps.logins), kept::key(server, url));
    let turn = tokio::task::spawn_blocking(move || logins.turn(&key)).await;
    turn.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?
}

/// Ends a login at its authorization server, as far as that can be had. Whether it was ended.
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
    // With what renews it ends what came of it; some know only one of the two.
    let mut ended = false;
    if let Some(refresh) = &kept.refresh {
        ended = asking.revoke(refresh, "refresh_token").await?;
    }
    Ok(asking.revoke(&kept.access, "access_token").await? || ended)
}

/// Forgets the login at a server: ends it there as far as it can be, and drops what is kept. Nothing if there is none;
/// else whether the authorization server was told.
pub(crate) async fn forget(spec: &ServerSpec, deps: &Deps) -> Result<Option<bool>, ToolError> {
    let Way::Web { url, oauth, .. } = &spec.way else {
        return Ok(None);
    };
    let url = Target::parse(url).map_err(mimir_net::Error::from)?;
    let turn = turn(deps, &spec.name, &url).await?;
    let kept = Kept::read(&*deps.logins, &spec.name, &url)?;
    deps.logins.remove(&super::key(&spec.name, &url))?;
    drop(turn);
    // With what a server has found missing, which may be what no login can have.
    bearer::forget_note(&*deps.store, &spec.key());
    let Some(kept) = kept else {
        return Ok(None);
    };
    let told = revoke(&kept, oauth, &url, deps).await;
    Ok(Some(told.unwrap_or(false)))
}

/// The login at a server, if there is one.
pub(crate) fn login(spec: &ServerSpec, deps: &Deps) -> Result<Option<Login>, ToolError> {
    let Way::Web { url, .. } = &spec.way else {
        return Ok(None);
    };
    let url = Target::parse(url).map_err(mimir_net::Error::from)?;
    let kept = Kept::read(&*deps.logins, &spec.name, &url)?;
    Ok(kept.as_ref().map(Login::of))
}
