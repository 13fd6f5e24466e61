//! Authentication: challenges of a registry, tokens, and the Authorization header of each repository.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use http::header::{self, HeaderMap, HeaderValue};
use mimir_core::network::{RequestTarget, UrlScheme};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::credentials::{Credentials, RegistryLogin};
use crate::error::RegistryError;
use crate::reference::is_loopback;
use crate::transport::{RegistryHttp, RegistryRequest};

/// Maximum size of a token server's response.
const TOKEN_MAX: u64 = 256 << 10;
/// Name of this client at token servers.
const CLIENT_ID: &str = "mimir";

/// The rights that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RegistryAction {
    Pull,
    Push,
}

impl RegistryAction {
    /// Returns the word in messages.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
        }
    }

    /// Returns the rights in the scope of a token.
    const fn rights(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// The extent of an authorization: a token of one registry and repository is never sent to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TokenScope {
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) action: RegistryAction,
}

/// Obtains and caches authorizations.
#[derive(Debug)]
pub(crate) struct Authenticator {
    credentials: Credentials,
    cached: Mutex<HashMap<TokenScope, HeaderValue>>,
}

impl Authenticator {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            cached: Mutex::default(),
        }
    }

    /// Returns the authorization of an earlier challenge.
    pub(crate) fn cached(&self, scope: &TokenScope) -> Option<HeaderValue> {
        self.cached.lock().get(scope).cloned()
    }

    /// Removes an authorization that the registry refused.
    pub(crate) fn forget(&self, scope: &TokenScope) {
        self.cached.lock().remove(scope);
    }

    /// Obtains an authorization for the challenges of a response. Returns `None` for a registry that wants a login if
    /// none is stored. The flag tells whether a login was used.
    pub(crate) async fn answer(
        &self,
        http: &RegistryHttp,
        scope: &TokenScope,
        headers: &HeaderMap,
    ) -> Result<Option<(HeaderValue, bool)>, RegistryError> {
        let challenges = parse_challenges(headers);
        let login = self
            .credentials
            .find(&scope.registry, &scope.repository)
            .await?;
        let named = |name: &str| {
            challenges
                .iter()
                .find(|challenge| challenge.scheme.eq_ignore_ascii_case(name))
        };
        let authorization = if let Some(bearer) = named("bearer") {
            let token = fetch_token(http, scope, bearer, login.as_ref()).await?;
            secret_header(scope, &format!("Bearer {token}"))?
        } else if named("basic").is_some() {
            match &login {
                Some(RegistryLogin::Password { user, password }) => {
                    basic_header(scope, user, password)?
                }
                Some(RegistryLogin::IdentityToken(_)) | None => return Ok(None),
            }
        } else {
            return Err(malformed(
                scope,
                "it asks for a login, but not in the way `basic` or `bearer`",
            ));
        };
        let mut cached = self.cached.lock();
        cached.insert(scope.clone(), authorization.clone());
        Ok(Some((authorization, login.is_some())))
    }
}

fn malformed(scope: &TokenScope, why: impl Into<String>) -> RegistryError {
    RegistryError::Malformed {
        registry: scope.registry.clone(),
        what: "a request for a login".to_owned(),
        why: why.into(),
    }
}

fn secret_header(scope: &TokenScope, text: &str) -> Result<HeaderValue, RegistryError> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| malformed(scope, "the token has invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic_header(
    scope: &TokenScope,
    user: &str,
    password: &str,
) -> Result<HeaderValue, RegistryError> {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    secret_header(scope, &format!("Basic {encoded}"))
}

/// Response of a token server. OAuth 2 calls the token `access_token`.
#[derive(Deserialize)]
struct RegistryTokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

/// Requests a token: anonymously, with a password, or with an identity token.
async fn fetch_token(
    http: &RegistryHttp,
    scope: &TokenScope,
    challenge: &AuthChallenge,
    login: Option<&RegistryLogin>,
) -> Result<String, RegistryError> {
    let realm = challenge.parameter("realm");
    let realm =
        realm.ok_or_else(|| malformed(scope, "the address of its token server is missing"))?;
    let target = RequestTarget::parse(realm);
    let target = target.map_err(|error| malformed(scope, format!("its token server: {error}")))?;
    if target.scheme() == UrlScheme::Http
        && !(target.host().is_this_machine() && is_loopback(&scope.registry))
    {
        let why = "its token server has no TLS, and a login must not be sent unencrypted";
        return Err(malformed(scope, why));
    }
    let rights = format!("repository:{}:{}", scope.repository, scope.action.rights());
    let mut fields = vec![("scope", rights.as_str())];
    if let Some(service) = challenge.parameter("service") {
        fields.push(("service", service));
    }
    let mut request = RegistryRequest {
        registry: &scope.registry,
        method: Method::GET,
        target,
        headers: HeaderMap::new(),
        body: Bytes::new(),
    };
    if let Some(RegistryLogin::IdentityToken(token)) = login {
        fields.extend([
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT_ID),
            ("refresh_token", token),
        ]);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(header::CONTENT_TYPE, form);
        request.method = Method::POST;
        request.body = encode_fields(&fields).into();
    } else {
        if let Some(RegistryLogin::Password { user, password }) = login {
            let basic = basic_header(scope, user, password)?;
            request.headers.insert(header::AUTHORIZATION, basic);
        }
        let mut url = request.target.url().clone();
        url.query_pairs_mut().extend_pairs(&fields);
        let target = RequestTarget::parse(url.as_str());
        request.target = target.map_err(|error| malformed(scope, error.to_string()))?;
    }
    let response = http.send(request).await?;
    match response.status.as_u16() {
        200 => {}
        401 | 403 => {
            return Err(RegistryError::Unauthorized {
                registry: scope.registry.clone(),
                had_login: login.is_some(),
            });
        }
        429 => {
            return Err(RegistryError::RateLimited {
                registry: scope.registry.clone(),
                retry: "later".to_owned(),
            });
        }
        status => {
            return Err(RegistryError::Status {
                registry: scope.registry.clone(),
                status,
                expected: "a token",
                detail: " (from its token server)".to_owned(),
            });
        }
    }
    let body = response
        .read(&scope.registry, "the token", TOKEN_MAX)
        .await?;
    let parsed: Result<RegistryTokenResponse, _> = serde_json::from_slice(&body);
    // The error of the parser would quote the content.
    let parsed =
        parsed.map_err(|_| malformed(scope, "the token server's answer is not valid JSON"))?;
    let token = parsed.token.or(parsed.access_token);
    let token = token.filter(|token| !token.is_empty());
    token.ok_or_else(|| malformed(scope, "the token server's answer has no token"))
}

fn encode_fields(fields: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    pairs.join("&")
}

/// One challenge of a `WWW-Authenticate` header.
#[derive(Debug, PartialEq, Eq)]
struct AuthChallenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl AuthChallenge {
    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self
            .parameters
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses all challenges of a response (RFC 9110 section 11.6.1). Stops at a syntax error.
fn parse_challenges(headers: &HeaderMap) -> Vec<AuthChallenge> {
    let mut challenges = Vec::new();
    for value in headers.get_all(header::WWW_AUTHENTICATE) {
        if let Ok(text) = value.to_str() {
            parse_challenge_list(text, &mut challenges);
        }
    }
    challenges
}

fn parse_challenge_list(text: &str, challenges: &mut Vec<AuthChallenge>) {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return;
        }
        let after_equals = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        let Some(value) = after_equals else {
            challenges.push(AuthChallenge {
                scheme: word.to_owned(),
                parameters: Vec::new(),
            });
            rest = after;
            continue;
        };
        let (value, after) = parse_value(value.trim_start_matches([' ', '\t']));
        if let Some(challenge) = challenges.last_mut() {
            challenge.parameters.push((word.to_owned(), value));
        }
        rest = after;
    }
}

/// Parses a token or a quoted string, and returns it with the rest of the text.
fn parse_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut is_escaped = false;
    for (at, character) in quoted.char_indices() {
        match character {
            _ if is_escaped => {
                value.push(character);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str) -> Vec<AuthChallenge> {
        let mut headers = HeaderMap::new();
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(text));
        parse_challenges(&headers)
    }

    #[test]
    fn challenge_parse_reads_quotes_and_lists() {
        let text = r#"Bearer realm="https://auth.example.com/token?a=b,c",service="registry \"x\"", scope=pull"#;
        let challenges = parse(text);
        let [bearer] = &challenges[..] else {
            panic!("{challenges:?}");
        };
        assert_eq!(
            bearer.parameter("REALM"),
            Some("https://auth.example.com/token?a=b,c")
        );
        assert_eq!(bearer.parameter("service"), Some(r#"registry "x""#));
        assert_eq!(bearer.parameter("scope"), Some("pull"));

        let both = parse(r#"Basic realm="x, y", Bearer realm="https://a.example/""#);
        let schemes: Vec<&str> = both.iter().map(|one| one.scheme.as_str()).collect();
        assert_eq!(schemes, ["Basic", "Bearer"]);
        assert_eq!(
            both.last().unwrap().parameter("realm"),
            Some("https://a.example/")
        );
    }

    #[test]
    fn challenge_parse_survives_malformed_headers() {
        for text in [
            "",
            ",,,",
            "=",
            "Bearer",
            r#"Bearer realm="open"#,
            "realm=x",
            r#"Bearer realm="\"#,
        ] {
            let challenges = parse(text);
            assert!(challenges.len() <= 1, "{text}: {challenges:?}");
        }
    }

    #[test]
    fn form_fields_are_percent_encoded() {
        let text = encode_fields(&[
            ("scope", "repository:a/b:pull,push"),
            ("refresh_token", "a&b=c"),
        ]);
        assert_eq!(
            text,
            "scope=repository%3Aa%2Fb%3Apull%2Cpush&refresh%5Ftoken=a%26b%3Dc"
        );
    }
}
