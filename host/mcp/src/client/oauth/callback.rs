//! Validation of the callback that a browser delivers; RFC 6749 section 4.1.2, RFC 9207.
//!
//! Out of scope: receiving the callback.

use std::collections::HashMap;

use mimir_core::ToolError;
use mimir_core::text::{prefix, visible};

use super::{clean_text, login_error};

/// Expected properties of a callback.
pub(super) struct ExpectedCallback {
    pub(super) state: String,
    /// The authorization server, and true if it identifies itself in each callback.
    pub(super) issuer: String,
    pub(super) sends_issuer: bool,
}

/// Reason why a callback is rejected.
#[derive(Debug)]
pub enum CallbackError {
    /// The callback does not belong to this login and may be forged: keep waiting for the real one.
    Stray,
    /// The callback belongs to this login, but the login has failed.
    Refused(ToolError),
}

impl CallbackError {
    /// Returns the error for the user.
    pub(crate) fn into_error(self) -> ToolError {
        match self {
            Self::Stray => login_error("the callback does not belong to this login"),
            Self::Refused(error) => error,
        }
    }
}

/// Maximum size of a callback in bytes.
const MAX_CALLBACK_SIZE: usize = 16 << 10;

impl ExpectedCallback {
    /// Extracts the code from a callback, given as a URL or as its path and query.
    pub(super) fn extract_code(&self, callback: &str) -> Result<String, CallbackError> {
        let callback = callback.trim();
        if callback.len() > MAX_CALLBACK_SIZE {
            return Err(CallbackError::Stray);
        }
        let query = callback.split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let mut fields: HashMap<String, String> = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // Duplicate fields are ambiguous.
            if fields
                .insert(name.into_owned(), value.into_owned())
                .is_some()
            {
                return Err(CallbackError::Stray);
            }
        }
        if fields.get("state") != Some(&self.state) {
            return Err(CallbackError::Stray);
        }
        match fields.get("iss") {
            Some(issuer) if *issuer == self.issuer => {}
            // Only the error code is shown: the rest is untrusted text.
            Some(other) => {
                return Err(CallbackError::Refused(login_error(format!(
                    "issuer mismatch: the callback is from {}, but the login is at {}; the code was not sent to either",
                    visible(prefix(other, 200)),
                    visible(prefix(&self.issuer, 200))
                ))));
            }
            None if self.sends_issuer => {
                return Err(CallbackError::Refused(login_error(
                    "the callback does not name its authorization server (`iss`), although the metadata declares that it always does",
                )));
            }
            None => {}
        }
        if let Some(error) = fields.get("error") {
            let description = fields.get("error_description").map_or("", String::as_str);
            let reason = match description {
                "" => clean_text(error, &[]),
                description => clean_text(&format!("{error}: {description}"), &[]),
            };
            return Err(CallbackError::Refused(login_error(format!(
                "the authorization server denied the login: {reason}"
            ))));
        }
        let code = fields.remove("code").filter(|code| !code.is_empty());
        code.ok_or_else(|| CallbackError::Refused(login_error("the callback has no code")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(answer: &str, sends_issuer: bool) -> Result<String, CallbackError> {
        let expected = ExpectedCallback {
            state: "right".into(),
            issuer: "https://as.example".into(),
            sends_issuer,
        };
        expected.extract_code(answer)
    }

    #[test]
    fn callback_must_match_the_login_and_its_issuer() {
        let iss = "iss=https%3A%2F%2Fas.example";
        for good in [
            &format!("http://127.0.0.1:1/callback?code=c%2B1&state=right&{iss}"),
            &format!("/callback?{iss}&state=right&code=c%2B1#x"),
            " /callback?code=c%2B1&state=right ",
        ] {
            assert_eq!(code(good, false).unwrap(), "c+1", "{good}");
        }
        for stray in [
            "",
            "/callback",
            "/callback?code=c",
            "/callback?code=c&state=wrong",
            "/callback?code=c&state=right&state=right",
            "/callback?code=c&code=d&state=right",
            "/callback?state=wrong&error=access_denied",
            &format!("/callback?code=c&state=right&x={}", "x".repeat(20_000)),
        ] {
            assert!(
                matches!(code(stray, false), Err(CallbackError::Stray)),
                "{stray}"
            );
        }
    }

    #[test]
    fn callback_errors_do_not_quote_untrusted_text() {
        let refused = |answer: &str, sends_issuer| match code(answer, sends_issuer) {
            Err(CallbackError::Refused(error)) => error.message,
            other => panic!("{answer}: {other:?}"),
        };
        for other in [
            "https%3A%2F%2Fevil.example",
            "https%3A%2F%2Fas.example%2F",
            "https%3A%2F%2FAS.example",
            "https%3A%2F%2Fas.example%3A443",
            "",
        ] {
            let answer =
                format!("/callback?error=SECRETS&error_description=CALL&state=right&iss={other}");
            let message = refused(&answer, false);
            assert!(
                !message.contains("SECRETS") && !message.contains("CALL"),
                "{message}"
            );
        }
        assert!(refused("/callback?code=c&state=right", true).contains("does not name"));
        let message = refused(
            "/callback?error=access_denied&error_description=not%20%1b[2J&state=right",
            false,
        );
        assert!(
            message.contains("access_denied: not") && !message.contains('\u{1b}'),
            "{message}"
        );
        assert!(refused("/callback?state=right", false).contains("no code"));
    }
}
