//! The password of one proxy: 128 random bits, sent by the program with each request (RFC 7617).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use subtle::ConstantTimeEq as _;

/// The user name. Programs send a password only along with one.
const USER: &str = "x";

/// The password of one proxy. Without a source of random numbers there is none, and every request is refused.
#[derive(Clone)]
pub(super) struct Credential(Option<Arc<str>>);

impl Credential {
    /// Creates a random one.
    pub(super) fn new() -> Self {
        let mut bytes = [0; 16];
        let random = rustls::crypto::ring::default_provider().secure_random;
        let filled = random.fill(&mut bytes);
        if filled.is_err() {
            tracing::error!("no random numbers: programs cannot use their proxy");
        }
        Self(filled.ok().map(|()| URL_SAFE_NO_PAD.encode(bytes).into()))
    }

    /// Returns it as the user and the password of a URL.
    pub(super) fn userinfo(&self) -> String {
        let password = self.0.as_deref().unwrap_or_default();
        format!("{USER}:{password}")
    }

    /// Returns true if the headers of a request have it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers
            .get(PROXY_AUTHORIZATION)
            .map(|value| value.as_bytes());
        let Some((scheme, given)) = given.and_then(|value| value.split_at_checked(BASIC.len()))
        else {
            return false;
        };
        let expected = STANDARD.encode(self.userinfo());
        self.0.is_some()
            && scheme.eq_ignore_ascii_case(BASIC)
            && bool::from(given.trim_ascii().ct_eq(expected.as_bytes()))
    }
}

const BASIC: &[u8] = b"Basic ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_of_another_proxy_is_rejected() {
        let (own, other) = (Credential::new(), Credential::new());
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PROXY_AUTHORIZATION, value.parse().unwrap());
            headers
        };
        let basic = |userinfo: &str| format!("Basic {}", STANDARD.encode(userinfo));
        let value = basic(&own.userinfo());
        assert!(own.is_in(&with(&value)));
        assert!(own.is_in(&with(&value.replace("Basic", "basic"))));
        assert!(!other.is_in(&with(&value)));
        assert!(!own.is_in(&HeaderMap::new()));
        let password = own.userinfo();
        for bad in [
            "",
            "Basic",
            "Basic ",
            &value[..value.len() - 1],
            &format!("{value}A"),
            &value.replace("Basic", "Bearer"),
            &basic("x:"),
            &basic(&password[..password.len() - 1]),
        ] {
            assert!(!own.is_in(&with(bad)), "{bad}");
        }
        let none = Credential(None);
        assert!(!none.is_in(&with(&basic(&none.userinfo()))));
    }

    #[test]
    fn credential_is_masked_in_the_url_that_programs_print() {
        let userinfo = Credential::new().userinfo();
        let password = userinfo.split_once(':').unwrap().1;
        let mut text = format!("http_proxy=http://{userinfo}@127.0.0.1:61128");
        mimir_core::redact::Redactor::new().mask_text(&mut text);
        assert!(!text.contains(password), "{text}");
    }
}
