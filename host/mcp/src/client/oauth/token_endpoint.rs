//! Requests to the token endpoint: exchange of codes for tokens, renewal and revocation.
//!
//! Out of scope: the decision to renew, and the storage of tokens.

use http::StatusCode;
use mimir_core::redact::LONG_MIN;
use mimir_core::{ToolError, ToolErrorCode};
use serde::Deserialize;
use serde_json::Value;

use super::endpoint::{EndpointResponse, OauthEndpoint};
use super::registration::{ClientAuthMethod, OauthClient};
use super::{challenge, clean_text, login_error, unix_seconds};

/// A token from the token endpoint.
pub(super) struct TokenGrant {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// Expiry time of the token, in seconds since 1970.
    pub(super) expires_at: Option<u64>,
    /// Granted scopes, if reported.
    pub(super) scopes: Option<Vec<String>>,
}

/// Reason why no token was issued.
pub(super) enum TokenError {
    /// The grant is no longer valid, according to the authorization server.
    Expired(ToolError),
    /// The authorization server could not be reached or returned another error: the stored login may still be valid.
    Failed(ToolError),
}

impl From<TokenError> for ToolError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Expired(error) | TokenError::Failed(error) => error,
        }
    }
}

/// The response as JSON.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    /// Seconds, which some servers send as a string or with a fraction.
    expires_in: Option<Value>,
    scope: Option<String>,
}

/// An error response as JSON.
#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
    error_description: Option<String>,
}

/// Error code for a code or refresh token that is not valid; RFC 6749 section 5.2.
const INVALID_GRANT: &str = "invalid_grant";

/// Maximum size of a token in bytes. Most servers do not accept longer headers.
const MAX_TOKEN_SIZE: usize = 16 << 10;

/// A client at a token endpoint.
pub(super) struct TokenRequest<'a> {
    pub(super) endpoint: &'a OauthEndpoint,
    pub(super) client: &'a OauthClient,
    pub(super) secret: Option<&'a str>,
    pub(super) resource: &'a str,
}

impl TokenRequest<'_> {
    /// Exchanges a code for a token.
    pub(super) async fn redeem_code(
        &self,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<TokenGrant, TokenError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
            ("resource", self.resource),
        ];
        let answer = self.send(&fields).await.map_err(TokenError::Failed)?;
        self.parse_grant(&answer, &[code, verifier])
    }

    /// Renews a token.
    pub(super) async fn refresh(&self, refresh_token: &str) -> Result<TokenGrant, TokenError> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
            ("resource", self.resource),
        ];
        let answer = self.send(&fields).await.map_err(TokenError::Failed)?;
        self.parse_grant(&answer, &[refresh_token])
    }

    /// Revokes a token; RFC 7009. Returns false if the server rejects the request.
    pub(super) async fn revoke(&self, token: &str, kind: &str) -> Result<bool, ToolError> {
        let answer = self
            .send(&[("token", token), ("token_type_hint", kind)])
            .await?;
        Ok(answer.status == StatusCode::OK)
    }

    async fn send(&self, fields: &[(&str, &str)]) -> Result<EndpointResponse, ToolError> {
        let mut fields = fields.to_vec();
        let id = self.client.id.as_str();
        let secret = self.secret.unwrap_or_default();
        let basic = match self.client.method {
            ClientAuthMethod::Basic => Some((id, secret)),
            ClientAuthMethod::Post => {
                fields.extend([("client_id", id), ("client_secret", secret)]);
                None
            }
            ClientAuthMethod::None => {
                fields.push(("client_id", id));
                None
            }
        };
        self.endpoint.post_form(&fields, basic).await
    }

    fn parse_grant(
        &self,
        answer: &EndpointResponse,
        sent: &[&str],
    ) -> Result<TokenGrant, TokenError> {
        let mut secrets = sent.to_vec();
        secrets.extend(self.secret);
        if answer.status != StatusCode::OK {
            return Err(refusal_error(answer, &secrets));
        }
        let response: Option<TokenResponse> = answer.parse_json();
        let no_token = |why: &str| {
            TokenError::Failed(login_error(format!(
                "the authorization server issued no token: {why}"
            )))
        };
        let Some(response) = response else {
            // Some servers send an error with a status of success.
            return Err(match answer.parse_json::<TokenRefusal>() {
                Some(_) => refusal_error(answer, &secrets),
                None => no_token("its response is not a valid token response"),
            });
        };
        if !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(no_token("the token type is not `Bearer`"));
        }
        let refresh = response.refresh_token.filter(|token| !token.is_empty());
        let mut tokens = std::iter::once(&response.access_token).chain(&refresh);
        if let Some(why) = tokens.find_map(|token| invalid_value_reason(token)) {
            return Err(no_token(why));
        }
        Ok(TokenGrant {
            access: response.access_token,
            refresh,
            expires_at: response
                .expires_in
                .as_ref()
                .and_then(parse_seconds)
                .map(|seconds_left| unix_seconds().saturating_add(seconds_left)),
            scopes: response.scope.as_deref().map(challenge::parse_scopes),
        })
    }
}

/// Converts a value to a number of seconds.
fn parse_seconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| {
            let seconds = number.as_f64().filter(|seconds| *seconds >= 0.0)?;
            Some(seconds as u64)
        }),
        _ => None,
    }
}

/// Returns the reason why a value from the server is not usable.
pub(super) fn invalid_value_reason(value: &str) -> Option<&'static str> {
    if value.len() < LONG_MIN {
        Some("the value is too short to be masked reliably in output")
    } else if value.len() > MAX_TOKEN_SIZE {
        Some("the value is longer than 16 KiB")
    } else if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("the value contains characters that are not allowed in tokens")
    } else {
        None
    }
}

fn refusal_error(answer: &EndpointResponse, secrets: &[&str]) -> TokenError {
    let status = answer.status;
    let refusal: Option<TokenRefusal> = answer.parse_json();
    let why = refusal.as_ref().map(|refusal| {
        let parts = [
            Some(refusal.error.as_str()),
            refusal.error_description.as_deref(),
        ];
        clean_text(
            &parts.into_iter().flatten().collect::<Vec<_>>().join(": "),
            secrets,
        )
    });
    let why = why.unwrap_or_else(|| "no reason given".to_owned());
    let message = format!(
        "the authorization server issued no token (HTTP {}): {why}",
        status.as_u16()
    );
    // Other responses, such as a proxy's error page, do not mean that the grant has expired.
    if refusal.is_some_and(|refusal| refusal.error == INVALID_GRANT) {
        TokenError::Expired(login_error(message))
    } else if status.is_server_error() {
        TokenError::Failed(ToolError::new(ToolErrorCode::Network, message))
    } else {
        TokenError::Failed(login_error(message))
    }
}
