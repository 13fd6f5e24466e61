//! An authorization request with PKCE, from its URL to the callback; RFC 6749 section 4.1, RFC 7636.
//!
//! Out of scope: the choice of the authorization server, and the exchange of the code.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mimir_core::ToolError;
use sha2::{Digest as _, Sha256};

use super::callback::{CallbackError, ExpectedCallback};
use super::login_error;
use super::metadata::AuthorizationServer;

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
pub(super) const OFFLINE: &str = "offline_access";

/// An authorization request that waits for its callback.
pub(super) struct AuthorizationRequest {
    /// URL of the page at which the user logs in.
    pub(super) url: String,
    /// URL of the callback.
    pub(super) redirect: String,
    /// Secret that only the client that has made the request can present with the code.
    pub(super) verifier: String,
    expected: ExpectedCallback,
}

impl AuthorizationRequest {
    /// Creates a request of the client `client_id` for a token of `resource` with these scopes.
    pub(super) fn new(
        issuer: &AuthorizationServer,
        client_id: &str,
        redirect: &str,
        resource: &str,
        scopes: &[String],
    ) -> Result<Self, ToolError> {
        let (state, verifier) = (random_string()?, random_string()?);
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        let mut url = issuer.authorize.url().clone();
        if url
            .query_pairs()
            .any(|(name, _)| RESERVED_PARAMS.contains(&name.as_ref()))
        {
            return Err(login_error(
                "the authorization URL in the server's metadata contains query parameters that mimir has to set",
            ));
        }
        let scope = scopes.join(" ");
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", client_id)
                .append_pair("redirect_uri", redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &digest)
                .append_pair("code_challenge_method", "S256")
                .append_pair("resource", resource);
            if !scope.is_empty() {
                query.append_pair("scope", &scope);
            }
            if scopes.iter().any(|scope| scope == OFFLINE) {
                query.append_pair("prompt", "consent");
            }
        }
        let expected = ExpectedCallback {
            state,
            issuer: issuer.name.clone(),
            sends_issuer: issuer.sends_issuer,
        };
        Ok(Self {
            url: url.to_string(),
            redirect: redirect.to_owned(),
            verifier,
            expected,
        })
    }

    /// Returns the state that the callback repeats.
    pub(super) fn state(&self) -> &str {
        &self.expected.state
    }

    /// Extracts the code from a callback: a URL, or its path and query.
    pub(super) fn code(&self, callback: &str) -> Result<String, CallbackError> {
        self.expected.extract_code(callback)
    }
}

/// Returns an unguessable random string.
pub(crate) fn random_string() -> Result<String, ToolError> {
    let mut bits = [0; 32];
    let filled = getrandom::fill(&mut bits);
    filled.map_err(|_| {
        ToolError::unavailable("the system's random number generator is not available")
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bits))
}
