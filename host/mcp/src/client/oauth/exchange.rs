//! The token endpoint: a code for a token, one token for the next, and the end of both.
//!
//! Never here: when that is done, and what is kept of it.

use http::StatusCode;
use mimir_core::redact::LONG_MIN;
use mimir_core::{Code, ToolError};
use serde::Deserialize;
use serde_json::Value;

use super::endpoint::{Answered, Endpoint};
use super::registration::{Client, Method};
use super::{challenge, refused, seconds, words};

/// What a token endpoint gives.
pub(super) struct Granted {
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// When the token ends, in seconds since 1970.
    pub(super) until: Option<u64>,
    /// What was granted, where that is said.
    pub(super) scopes: Option<Vec<String>>,
}

/// Why there is no token.
pub(super) enum Ungranted {
    /// The authorization server says that what was granted is over.
    Over(ToolError),
    /// It could not be asked, or says something else: what is kept may be good for the next time.
    Failed(ToolError),
}

impl From<Ungranted> for ToolError {
    fn from(ungranted: Ungranted) -> Self {
        match ungranted {
            Ungranted::Over(error) | Ungranted::Failed(error) => error,
        }
    }
}

/// As it is written.
#[derive(Deserialize)]
struct Response {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    /// Seconds, which some write as a text or with a point.
    expires_in: Option<Value>,
    scope: Option<String>,
}

/// A refusal, as it is written.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

/// How an authorization server says that a code or a refresh token is good for nothing; RFC 6749 section 5.2.
const SPENT: &str = "invalid_grant";

/// Bytes of a token. A longer one fits in no header of most servers.
const TOKEN_MOST: usize = 16 << 10;

/// Who asks a token endpoint, and with what.
pub(super) struct Asking<'a> {
    pub(super) place: &'a Endpoint,
    pub(super) client: &'a Client,
    pub(super) secret: Option<&'a str>,
    pub(super) resource: &'a str,
}

impl Asking<'_> {
    /// A code for a token.
    pub(super) async fn code(
        &self,
        code: &str,
        verifier: &str,
        redirect: &str,
    ) -> Result<Granted, Ungranted> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect),
            ("code_verifier", verifier),
            ("resource", self.resource),
        ];
        let answer = self.send(&fields).await.map_err(Ungranted::Failed)?;
        self.granted(&answer, &[code, verifier])
    }

    /// One token for the next.
    pub(super) async fn refresh(&self, refresh: &str) -> Result<Granted, Ungranted> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh),
            ("resource", self.resource),
        ];
        let answer = self.send(&fields).await.map_err(Ungranted::Failed)?;
        self.granted(&answer, &[refresh])
    }

    /// Ends a token; RFC 7009. Whether it was ended.
    pub(super) async fn revoke(&self, token: &str, kind: &str) -> Result<bool, ToolError> {
        let answer = self
            .send(&[("token", token), ("token_type_hint", kind)])
            .await?;
        Ok(answer.status == StatusCode::OK)
    }

    async fn send(&self, fields: &[(&str, &str)]) -> Result<Answered, ToolError> {
        let mut fields = fields.to_vec();
        let id = self.client.id.as_str();
        let secret = self.secret.unwrap_or_default();
        let basic = match self.client.method {
            Method::Basic => Some((id, secret)),
            Method::Post => {
                fields.extend([("client_id", id), ("client_secret", secret)]);
                None
            }
            Method::None => {
                fields.push(("client_id", id));
                None
            }
        };
        self.place.form(&fields, basic).await
    }

    fn granted(&self, answer: &Answered, sent: &[&str]) -> Result<Granted, Ungranted> {
        let mut hidden = sent.to_vec();
        hidden.extend(self.secret);
        if answer.status != StatusCode::OK {
            return Err(ungranted(answer, &hidden));
        }
        let given: Option<Response> = answer.read();
        let none = |why: &str| {
            Ungranted::Failed(refused(format!(
                "the authorization server gives no token: {why}"
            )))
        };
        let Some(given) = given else {
            // Some refuse with a status that says yes.
            return Err(match answer.read::<Refusal>() {
                Some(_) => ungranted(answer, &hidden),
                None => none("its answer is none of a token endpoint"),
            });
        };
        if !given.token_type.eq_ignore_ascii_case("bearer") {
            return Err(none("it is one of another kind than `Bearer`"));
        }
        let refresh = given.refresh_token.filter(|token| !token.is_empty());
        let mut tokens = std::iter::once(&given.access_token).chain(&refresh);
        if let Some(why) = tokens.find_map(|token| unfit(token)) {
            return Err(none(why));
        }
        Ok(Granted {
            access: given.access_token,
            refresh,
            until: given
                .expires_in
                .as_ref()
                .and_then(whole)
                .map(|seconds_left| seconds().saturating_add(seconds_left)),
            scopes: given.scope.as_deref().map(challenge::scopes),
        })
    }
}

/// A number of seconds.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| {
            let seconds = number.as_f64().filter(|seconds| *seconds >= 0.0)?;
            Some(seconds as u64)
        }),
        _ => None,
    }
}

/// Why a value that was given out cannot be used.
pub(super) fn unfit(value: &str) -> Option<&'static str> {
    if value.len() < LONG_MIN {
        Some("it is so short that it could not be masked")
    } else if value.len() > TOKEN_MOST {
        Some("it is longer than 16 KB")
    } else if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("it has characters that no token has")
    } else {
        None
    }
}

fn ungranted(answer: &Answered, hidden: &[&str]) -> Ungranted {
    let status = answer.status;
    let refusal: Option<Refusal> = answer.read();
    let why = refusal.as_ref().map(|refusal| {
        let all = [
            Some(refusal.error.as_str()),
            refusal.error_description.as_deref(),
        ];
        words(
            &all.into_iter().flatten().collect::<Vec<_>>().join(": "),
            hidden,
        )
    });
    let why = why.unwrap_or_else(|| "it does not say why".to_owned());
    let message = format!(
        "the authorization server gives no token (HTTP {}): {why}",
        status.as_u16()
    );
    // Everything else, a proxy's page or a secret that is mistyped, says nothing of what was granted.
    match refusal.is_some_and(|refusal| refusal.error == SPENT) {
        true => Ungranted::Over(refused(message)),
        false if status.is_server_error() => {
            Ungranted::Failed(ToolError::new(Code::Network, message))
        }
        false => Ungranted::Failed(refused(message)),
    }
}
