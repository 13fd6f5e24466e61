//! Access tokens of an identity provider: each request carries a token that the provider signed for this server, and
//! acts for the subject of the token.
//!
//! Tokens that cannot be verified are rejected, including all tokens while the provider's keys are unavailable.
//!
//! Out of scope: logins, and forwarding of tokens to other services.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation};
use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use mimir_core::text::{prefix, visible};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::browser_identity::IdentifiedPerson;
use super::{BoxedResponse, Principal, text_response};
use crate::client::HttpClientFactory;

mod keys;
mod signature;

use keys::{KeyLookupError, ProviderKeys};

/// Settings of an identity provider.
#[derive(Clone)]
pub struct IdentityOptions {
    /// Issuer identifier of the provider.
    pub issuer: String,
    /// Resource identifier of this server: the URL that clients use.
    pub resource: String,
    /// Accepted audiences; if empty, only the resource is accepted.
    pub audiences: Vec<String>,
    /// Scopes that every token must have.
    pub scopes: Vec<String>,
    /// Id of the client that is registered at the provider for logins of users in a browser, if there is one.
    pub client_id: Option<String>,
    /// Secret of that client, as `${NAME}` for the stored secret `NAME`.
    pub client_secret: Option<String>,
    /// Claim with the groups of the user, such as `groups`, or a path to it, such as `realm_access.roles`.
    pub groups_claim: String,
    /// Factory of the HTTP client for requests to the provider.
    pub clients: Arc<HttpClientFactory>,
}

/// The identity provider, and the requirements for its tokens.
pub(super) struct IdentityVerifier {
    issuer: String,
    resource: RequestTarget,
    /// The resource identifier as written in the settings, because clients compare it verbatim.
    name: String,
    scopes: Vec<String>,
    groups_claim: String,
    validation: Validation,
    keys: ProviderKeys,
}

/// The content of an accepted token.
pub(super) struct VerifiedToken {
    /// The subject of the token, without a role.
    pub(super) principal: Principal,
    /// The subject, verbatim.
    subject: String,
    /// The email address of the subject, if the provider has verified it.
    email: Option<String>,
    /// The groups of the subject, as the provider names them.
    pub(super) groups: Vec<String>,
    pub(super) expires: Instant,
}

/// Reason why a token is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenRejection {
    /// The token is missing.
    Missing,
    /// The token was not issued by the provider for this server, or is not valid at this time.
    Invalid(&'static str),
    /// The token lacks a scope.
    Scope,
    /// The provider's keys are temporarily unavailable.
    KeysUnavailable,
}

impl TokenRejection {
    /// The token has expired.
    pub(super) const EXPIRED: Self = Self::Invalid("it has expired");
}

/// Path prefix of the protected resource metadata; RFC 9728.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Maximum clock difference in seconds.
const LEEWAY: u64 = 30;

/// Upper bound for the remaining lifetime of a token, which prevents overflow.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum size of a token in bytes.
const MAX_TOKEN_SIZE: usize = 16 << 10;

/// Maximum length of a subject in the audit log, in characters.
const MAX_SUBJECT_CHARS: usize = 128;

/// Begin of the ids of users; a sha256 follows.
const USER_ID_PREFIX: &str = "oauth-";

/// Returns true if a text has the form of the id of a user, as error messages show it.
pub fn is_user_id(text: &str) -> bool {
    let hash = text.strip_prefix(USER_ID_PREFIX).unwrap_or_default();
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hash.len() == 64 && hash.bytes().all(is_hex)
}

/// Accepted signature algorithms. All are asymmetric, so that no public key can be used as an HMAC secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// Claims that matter besides those that the library validates.
#[derive(Deserialize)]
struct TokenClaims {
    iss: String,
    sub: String,
    /// Expiry time in seconds since 1970; may have a fraction.
    exp: f64,
    #[serde(default)]
    scope: Option<String>,
    /// Alternative claim for scopes, used by some providers.
    #[serde(default)]
    scp: Option<ScopeClaim>,
    /// Claims that only ID tokens and security events have.
    nonce: Option<IgnoredAny>,
    at_hash: Option<IgnoredAny>,
    c_hash: Option<IgnoredAny>,
    events: Option<IgnoredAny>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ScopeClaim {
    Text(String),
    List(Vec<String>),
}

impl IdentityVerifier {
    /// Creates a verifier with these settings, without contacting the provider.
    pub(super) fn new(options: &IdentityOptions) -> Result<Self, ToolError> {
        let invalid = |what: &str, url: &str, why: String| {
            let url = visible(prefix(url, 200));
            ToolError::invalid_input(format!("the {what} `{url}`: {why}"))
        };
        let resource = RequestTarget::parse(&options.resource)
            .map_err(|error| invalid("resource", &options.resource, error.to_string()))?;
        if options.resource.contains('#') {
            let why = "it must not have a fragment".to_owned();
            return Err(invalid("resource", &options.resource, why));
        }
        let issuer = RequestTarget::parse(&options.issuer)
            .map_err(|error| invalid("issuer", &options.issuer, error.to_string()))?;
        let safe = issuer.scheme() == mimir_core::network::UrlScheme::Https;
        if !safe && !issuer.host().is_this_machine() {
            let why = "its keys must be fetched over https".to_owned();
            return Err(invalid("issuer", &options.issuer, why));
        }
        signature::install();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.algorithms = ALGORITHMS.to_vec();
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&options.issuer]);
        if options.audiences.is_empty() {
            validation.set_audience(&[&options.resource]);
        } else {
            validation.set_audience(&options.audiences);
        }
        Ok(Self {
            issuer: options.issuer.clone(),
            name: options.resource.clone(),
            resource,
            scopes: options.scopes.clone(),
            groups_claim: options.groups_claim.clone(),
            validation,
            keys: ProviderKeys::new(options.issuer.clone(), Arc::clone(&options.clients)),
        })
    }

    /// Returns the host of the resource identifier.
    pub(super) fn host(&self) -> String {
        let host = self.resource.host().to_string();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        bare.unwrap_or(&host).to_owned()
    }

    /// Returns the resource identifier of this server.
    pub(super) fn resource(&self) -> &RequestTarget {
        &self.resource
    }

    /// Returns the response with the resource metadata, or `None` if the path is not a well-known one.
    pub(super) fn metadata_response(&self, path: &str) -> Option<BoxedResponse> {
        let rest = path.strip_prefix(WELL_KNOWN)?;
        if !rest.is_empty() && rest != self.path() && rest != super::ENDPOINT {
            return None;
        }
        let mut metadata = json!({
            "resource": self.name,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "mimir",
        });
        if !self.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.scopes);
        }
        let mut response = Response::new(Full::new(Bytes::from(metadata.to_string())).boxed());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
        Some(response)
    }

    fn path(&self) -> &str {
        self.resource.url().path().trim_end_matches('/')
    }

    /// Verifies the token of a request.
    pub(super) async fn verify(
        &self,
        headers: &HeaderMap,
    ) -> Result<VerifiedToken, TokenRejection> {
        self.verify_token(bearer_token(headers)?).await
    }

    /// Returns the id of the user for whom a token was issued. Fails if the token is not accepted.
    pub(super) async fn user_of_token(&self, token: &str) -> Result<String, ToolError> {
        let verified = self.verify_new_token(token).await?;
        Ok(verified.principal.id)
    }

    /// Returns the person for whom a token was issued. Fails if the token is not accepted.
    pub(super) async fn person_of_token(&self, token: &str) -> Result<IdentifiedPerson, ToolError> {
        let verified = self.verify_new_token(token).await?;
        Ok(IdentifiedPerson {
            subject: verified.subject,
            email: verified.email,
            groups: verified.groups,
        })
    }

    /// Verifies a token that the provider has just issued.
    async fn verify_new_token(&self, token: &str) -> Result<VerifiedToken, ToolError> {
        let verified = self.verify_token(token).await;
        verified.map_err(|rejection| {
            let why = match rejection {
                TokenRejection::Invalid(why) => why,
                TokenRejection::Scope => "it lacks a required scope",
                TokenRejection::Missing => "it is empty",
                TokenRejection::KeysUnavailable => {
                    "the keys of the provider are temporarily unavailable"
                }
            };
            ToolError::permission_denied(format!(
                "the identity provider issued a token that is not accepted: {why}"
            ))
        })
    }

    async fn verify_token(&self, token: &str) -> Result<VerifiedToken, TokenRejection> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| NOT_SIGNED)?;
        // RFC 7515: a token with an unknown critical header must be rejected, and mimir supports none.
        if header.crit.is_some_and(|crit| !crit.is_empty()) || !ALGORITHMS.contains(&header.alg) {
            return Err(NOT_SIGNED);
        }
        if !is_for_access(header.typ.as_deref()) {
            return Err(TokenRejection::Invalid(WRONG_TOKEN_TYPE));
        }
        let key = self.keys.get(header.kid.as_deref(), header.alg).await;
        let key = key.map_err(|why| match why {
            KeyLookupError::Unknown => {
                TokenRejection::Invalid("it is not signed with a key of the provider")
            }
            KeyLookupError::Unavailable => TokenRejection::KeysUnavailable,
        })?;
        // The key determines the algorithm, whatever the token's header says.
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let claims = jsonwebtoken::decode::<TokenClaims>(token, &key, &validation);
        let claims = claims
            .map_err(|error| TokenRejection::Invalid(invalid_token_reason(error.kind())))?
            .claims;
        if claims.iss != self.issuer {
            return Err(TokenRejection::Invalid(WRONG_ISSUER_OR_AUDIENCE));
        }
        if claims.is_of_another_kind() || claims.sub.is_empty() {
            return Err(TokenRejection::Invalid(WRONG_TOKEN_TYPE));
        }
        let token_scopes = claims.scopes();
        if !self
            .scopes
            .iter()
            .all(|scope| token_scopes.contains(&scope.as_str()))
        {
            return Err(TokenRejection::Scope);
        }
        Ok(VerifiedToken {
            principal: self.principal(&claims.sub),
            email: verified_email(&claims.others),
            subject: claims.sub.clone(),
            groups: groups(&claims.others, &self.groups_claim),
            expires: claims.until(),
        })
    }

    /// Returns the principal of a subject. Each subject has a principal of its own.
    fn principal(&self, subject: &str) -> Principal {
        let mut hash = Sha256::new();
        for part in [self.issuer.as_str(), subject] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Principal {
            id: format!("{USER_ID_PREFIX}{:x}", hash.finalize()),
            user: Some(visible(prefix(subject, MAX_SUBJECT_CHARS))),
            role: None,
        }
    }

    /// Returns the response to a rejected token, with the URL of the metadata and the required scopes.
    pub(super) fn rejection_response(&self, rejection: TokenRejection) -> BoxedResponse {
        let (status, error, text) = match rejection {
            TokenRejection::Missing => (
                StatusCode::UNAUTHORIZED,
                "",
                "an access token is required\n".to_owned(),
            ),
            TokenRejection::Invalid(why) => (
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                format!("the token is not accepted: {why}\n"),
            ),
            TokenRejection::Scope => (
                StatusCode::FORBIDDEN,
                "insufficient_scope",
                "the token lacks a required scope\n".to_owned(),
            ),
            TokenRejection::KeysUnavailable => {
                let text = "the keys of the identity provider are temporarily unavailable\n";
                let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, text);
                let seconds = HeaderValue::from_static("10");
                response.headers_mut().insert(RETRY_AFTER, seconds);
                return response;
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
        let mut response = text_response(status, &text);
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}

impl TokenClaims {
    fn is_of_another_kind(&self) -> bool {
        let foreign_claims = [&self.nonce, &self.at_hash, &self.c_hash, &self.events];
        foreign_claims.into_iter().any(Option::is_some)
    }

    /// Returns the expiry time on the monotonic clock that limits responses.
    fn until(&self) -> Instant {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // The library compares whole seconds, so a token is valid until the end of its last second.
        let last = self.exp + LEEWAY as f64 + 1.0;
        let left = last - since.unwrap_or_default().as_secs_f64();
        let left = Duration::try_from_secs_f64(left.max(0.0)).unwrap_or(MAX_LIFETIME);
        Instant::now() + left.min(MAX_LIFETIME)
    }

    fn scopes(&self) -> Vec<&str> {
        let listed = match &self.scp {
            None => Vec::new(),
            Some(ScopeClaim::Text(text)) => text.split(' ').collect(),
            Some(ScopeClaim::List(list)) => list.iter().map(String::as_str).collect(),
        };
        let text = self.scope.iter().flat_map(|text| text.split(' '));
        text.chain(listed)
            .filter(|scope| !scope.is_empty())
            .collect()
    }
}

const NOT_SIGNED: TokenRejection =
    TokenRejection::Invalid("it is not signed with RS256, ES256 or EdDSA");
const WRONG_TOKEN_TYPE: &str =
    "it is not an access token (it looks like an ID token, or another kind)";
const WRONG_ISSUER_OR_AUDIENCE: &str = "its issuer or its audience is wrong";

/// Returns the groups in a claim: a list of texts, or one text. `claim` is a name, or a path through objects; a name that
/// contains dots, such as that of a URL, takes precedence.
fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let nested = || {
        let mut names = claim.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    };
    match claims.get(claim).or_else(nested) {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => {
            let groups = groups.iter().filter_map(Value::as_str);
            groups.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the email address in the claims, if they say that it was verified.
fn verified_email(claims: &Map<String, Value>) -> Option<String> {
    let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
    let email = claims.get("email").filter(|_| is_verified)?;
    email.as_str().map(str::to_owned)
}

/// Returns true if the token type is that of an access token, or missing; RFC 9068 section 2.1.
fn is_for_access(kind: Option<&str>) -> bool {
    let Some(kind) = kind else { return true };
    let kind = kind.to_ascii_lowercase();
    let bare = kind.strip_prefix("application/").unwrap_or(&kind);
    matches!(bare, "jwt" | "at+jwt")
}

/// Returns the reason why a token is not valid, without quoting the token.
fn invalid_token_reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience => WRONG_ISSUER_OR_AUDIENCE,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it lacks one of the claims `sub`, `iss`, `aud` and `exp`"
        }
        _ => "its signature or its format is wrong",
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<&str, TokenRejection> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(TokenRejection::Missing)?;
    let value = value.to_str().ok().filter(|_| values.next().is_none());
    let value = value.ok_or(TokenRejection::Invalid(
        "the Authorization header is repeated or does not contain a bearer token",
    ))?;
    let (scheme, token) = value.split_once(' ').ok_or(TokenRejection::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(TokenRejection::Missing);
    }
    match token.trim() {
        "" => Err(TokenRejection::Missing),
        token if token.len() > MAX_TOKEN_SIZE => {
            Err(TokenRejection::Invalid("it is longer than 16 KiB"))
        }
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_email_counts_only_if_verified() {
        for (claims, expected) in [
            (json!({"email": "a@b", "email_verified": true}), Some("a@b")),
            (json!({"email": "a@b", "email_verified": "true"}), None),
            (json!({"email": "a@b", "email_verified": false}), None),
            (json!({"email": "a@b"}), None),
            (json!({"email": 1, "email_verified": true}), None),
        ] {
            let email = verified_email(claims.as_object().unwrap());
            assert_eq!(email.as_deref(), expected, "{claims}");
        }
    }

    #[test]
    fn identity_groups_are_read_from_a_claim_or_a_path() {
        let claims = json!({
            "groups": ["a", 7, "b c", null],
            "team": "one",
            "realm_access": {"roles": ["x"], "deep": {"er": ["y"]}},
            "https://example.com/groups": ["url"],
            "count": 3,
        });
        let claims = claims.as_object().unwrap();
        for (claim, expected) in [
            ("groups", vec!["a", "b c"]),
            ("team", vec!["one"]),
            ("realm_access.roles", vec!["x"]),
            ("realm_access.deep.er", vec!["y"]),
            ("https://example.com/groups", vec!["url"]),
            ("realm_access", vec![]),
            ("realm_access.missing", vec![]),
            ("groups.a", vec![]),
            ("count", vec![]),
            ("missing", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(groups(claims, claim), expected, "{claim}");
        }
    }
}
