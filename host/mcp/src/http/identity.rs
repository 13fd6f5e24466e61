//! The server behind an identity provider: each request carries a token that the provider has signed for this server,
//! and speaks for the subject of the token.
//!
//! What cannot be judged is not let in: neither a token of another kind, nor any token while the provider's keys cannot
//! be had.
//!
//! Never here: a login, and a token of somebody else's that is passed on.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use mimir_core::network::Target;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{Answer, Principal, text};
use crate::client::Clients;

mod keys;
mod signature;

use keys::{Keys, NoKey};

/// What an identity provider says who may come.
#[derive(Clone)]
pub struct IdentityOptions {
    /// The provider, by its issuer identifier.
    pub issuer: String,
    /// What tokens are for: the address that clients know this server by.
    pub resource: String,
    /// Other names of that in tokens; the resource alone counts where there is none.
    pub audiences: Vec<String>,
    /// The scopes that every token has.
    pub scopes: Vec<String>,
    /// Gives the client that reaches the provider.
    pub clients: Arc<Clients>,
}

/// The provider, and what its tokens are held to.
pub(super) struct Identity {
    issuer: String,
    resource: Target,
    /// The resource as it was written: that is what clients compare.
    name: String,
    scopes: Vec<String>,
    held: Validation,
    keys: Keys,
}

/// The reason for which a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// There is none.
    Missing,
    /// It is none of the provider's for this server, or not any more.
    Invalid(&'static str),
    /// It lacks a scope.
    Scope,
    /// The provider's keys cannot be had now.
    Later,
}

impl Denied {
    /// It does not count any more.
    pub(super) const ENDED: Self = Self::Invalid("it has ended");
}

/// Where a resource describes itself; RFC 9728.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Clocks that differ by more are wrong.
const LEEWAY: u64 = 30;

/// No answer is read for longer.
const LONG: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Bytes of a token.
const TOKEN_MOST: usize = 16 << 10;

/// Characters of a subject on record.
const USER_MOST: usize = 128;

/// The ways of signing that are taken: none that a public key could be a secret for.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// What of a token counts beside its signature, times and audience.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    /// Until when it counts, in seconds since 1970; a fraction is allowed.
    exp: f64,
    #[serde(default)]
    scope: Option<String>,
    /// How some providers write scopes.
    #[serde(default)]
    scp: Option<Scopes>,
    /// What tokens have that are none for a server: those that tell a client who somebody is, and events.
    nonce: Option<IgnoredAny>,
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scopes {
    Text(String),
    List(Vec<String>),
}

impl Identity {
    /// A provider of these settings. Nothing is asked yet.
    pub(super) fn new(options: &IdentityOptions) -> Result<Self, ToolError> {
        let bad = |what: &str, url: &str, why: String| {
            let url = visible(prefix(url, 200));
            ToolError::new(Code::InvalidInput, format!("the {what} `{url}`: {why}"))
        };
        let resource = Target::parse(&options.resource)
            .map_err(|error| bad("resource", &options.resource, error.to_string()))?;
        if options.resource.contains('#') {
            let why = "it has a fragment".to_owned();
            return Err(bad("resource", &options.resource, why));
        }
        let issuer = Target::parse(&options.issuer)
            .map_err(|error| bad("issuer", &options.issuer, error.to_string()))?;
        let safe = issuer.scheme() == mimir_core::network::Scheme::Https;
        if !safe && !issuer.host().is_this_machine() {
            let why = "its keys come over https".to_owned();
            return Err(bad("issuer", &options.issuer, why));
        }
        signature::install();
        let mut held = Validation::new(Algorithm::RS256);
        held.algorithms = ALGORITHMS.to_vec();
        held.leeway = LEEWAY;
        held.validate_nbf = true;
        held.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        held.set_issuer(&[&options.issuer]);
        match options.audiences.is_empty() {
            true => held.set_audience(&[&options.resource]),
            false => held.set_audience(&options.audiences),
        }
        Ok(Self {
            issuer: options.issuer.clone(),
            name: options.resource.clone(),
            resource,
            scopes: options.scopes.clone(),
            held,
            keys: Keys::new(options.issuer.clone(), Arc::clone(&options.clients)),
        })
    }

    /// The host of the address that clients know this server by.
    pub(super) fn host(&self) -> String {
        let host = self.resource.host().to_string();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        bare.unwrap_or(&host).to_owned()
    }

    /// What the server says of itself at this path, if it is one where that lies.
    pub(super) fn described(&self, path: &str) -> Option<Answer> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        if !rest.is_empty() && rest != self.path() && rest != super::ENDPOINT {
            return None;
        }
        let mut about = json!({
            "resource": self.name,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "mimir",
        });
        if !self.scopes.is_empty() {
            about["scopes_supported"] = json!(self.scopes);
        }
        let mut answer = Response::new(Full::new(Bytes::from(about.to_string())).boxed());
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        Some(answer)
    }

    fn path(&self) -> &str {
        self.resource.url().path().trim_end_matches('/')
    }

    /// Who speaks, and until when.
    pub(super) async fn judge(&self, headers: &HeaderMap) -> Result<(Principal, Instant), Denied> {
        let token = token(headers)?;
        let header = jsonwebtoken::decode_header(token).map_err(|_| NOT_SIGNED)?;
        // What has to be understood is not.
        if header.crit.is_some_and(|crit| !crit.is_empty()) || !ALGORITHMS.contains(&header.alg) {
            return Err(NOT_SIGNED);
        }
        if !is_for_access(header.typ.as_deref()) {
            return Err(Denied::Invalid(NO_ACCESS));
        }
        let key = self.keys.get(header.kid.as_deref(), header.alg).await;
        let key = key.map_err(|why| match why {
            NoKey::Unknown => {
                Denied::Invalid("it is signed with a key that the provider does not have")
            }
            NoKey::Later => Denied::Later,
        })?;
        // The way of signing is the key's, whatever the token says of it.
        let mut held = self.held.clone();
        held.algorithms = vec![header.alg];
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &held);
        let claims = claims
            .map_err(|error| Denied::Invalid(why(error.kind())))?
            .claims;
        if claims.iss != self.issuer {
            return Err(Denied::Invalid(ELSEWHERE));
        }
        if claims.is_of_another_kind() || claims.sub.is_empty() {
            return Err(Denied::Invalid(NO_ACCESS));
        }
        let has = claims.scopes();
        if !self
            .scopes
            .iter()
            .all(|scope| has.contains(&scope.as_str()))
        {
            return Err(Denied::Scope);
        }
        Ok((self.principal(&claims.sub), claims.until()))
    }

    /// The same for every token of a subject, and no other's.
    fn principal(&self, subject: &str) -> Principal {
        let mut hash = Sha256::new();
        for part in [self.issuer.as_str(), subject] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Principal {
            id: format!("oauth-{:x}", hash.finalize()),
            user: Some(visible(prefix(subject, USER_MOST))),
        }
    }

    /// What whoever is not let in gets: where a token is to be had, and for what.
    pub(super) fn refuse(&self, denied: Denied) -> Answer {
        let (status, error, words) = match denied {
            Denied::Missing => (
                StatusCode::UNAUTHORIZED,
                "",
                "a token is wanted\n".to_owned(),
            ),
            Denied::Invalid(why) => (
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                format!("the token is not taken: {why}\n"),
            ),
            Denied::Scope => (
                StatusCode::FORBIDDEN,
                "insufficient_scope",
                "the token lacks a scope\n".to_owned(),
            ),
            Denied::Later => {
                let words = "the keys of the identity provider cannot be had now\n";
                let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, words);
                let seconds = HeaderValue::from_static("10");
                answer.headers_mut().insert(RETRY_AFTER, seconds);
                return answer;
            }
        };
        let origin = self.resource.origin();
        let path = self.path();
        let mut value = format!("Bearer resource_metadata=\"{origin}{WELL_KNOWN}{path}\"");
        if !self.scopes.is_empty() {
            value.push_str(&format!(", scope=\"{}\"", self.scopes.join(" ")));
        }
        if !error.is_empty() {
            value.push_str(&format!(", error=\"{error}\""));
        }
        let mut answer = text(status, &words);
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        answer
    }
}

impl Claims {
    fn is_of_another_kind(&self) -> bool {
        let others = [&self.nonce, &self.at_hash, &self.c_hash, &self.events];
        others.into_iter().any(Option::is_some)
    }

    /// When it ends, on the clock that answers are held to.
    fn until(&self) -> Instant {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // Whole seconds are compared: it counts to the end of the last one.
        let last = self.exp + LEEWAY as f64 + 1.0;
        let left = last - since.unwrap_or_default().as_secs_f64();
        let left = Duration::try_from_secs_f64(left.max(0.0)).unwrap_or(LONG);
        Instant::now() + left.min(LONG)
    }

    fn scopes(&self) -> Vec<&str> {
        let listed = match &self.scp {
            None => Vec::new(),
            Some(Scopes::Text(text)) => text.split(' ').collect(),
            Some(Scopes::List(list)) => list.iter().map(String::as_str).collect(),
        };
        let text = self.scope.iter().flat_map(|text| text.split(' '));
        text.chain(listed)
            .filter(|scope| !scope.is_empty())
            .collect()
    }
}

const NOT_SIGNED: Denied = Denied::Invalid("it is not signed with RS256, ES256 or EdDSA");
const NO_ACCESS: &str =
    "it is none for access: a token that tells a client who somebody is, or another kind";
const ELSEWHERE: &str = "it comes from somebody else, or is for somebody else";

/// Whether the head of a token says that it is one for access, or says nothing; RFC 9068 section 2.1.
fn is_for_access(kind: Option<&str>) -> bool {
    let Some(kind) = kind else { return true };
    let kind = kind.to_ascii_lowercase();
    let bare = kind.strip_prefix("application/").unwrap_or(&kind);
    matches!(bare, "jwt" | "at+jwt")
}

/// What is said of a token that does not hold. Nothing of it is repeated.
fn why(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "it has ended",
        ErrorKind::ImmatureSignature => "it does not count yet",
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience => ELSEWHERE,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it does not say who it is of, from and for, and until when"
        }
        _ => "its signature or its form is wrong",
    }
}

fn token(headers: &HeaderMap) -> Result<&str, Denied> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let given = all.next().ok_or(Denied::Missing)?;
    let given = given.to_str().ok().filter(|_| all.next().is_none());
    let given = given.ok_or(Denied::Invalid("there are several, or it is none"))?;
    let (scheme, token) = given.split_once(' ').ok_or(Denied::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Denied::Missing);
    }
    match token.trim() {
        "" => Err(Denied::Missing),
        token if token.len() > TOKEN_MOST => Err(Denied::Invalid("it is longer than 16 KB")),
        token => Ok(token),
    }
}
