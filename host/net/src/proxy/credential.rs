//! The password of one proxy: 128 random bits, sent by the program with each request (RFC 7617).
//!
//! Programs print it, bare, in a URL or in a header. The rule `mimir-proxy-password` of redaction recognizes it by its
//! form: the user and the prefix are 18 bytes, so that their base64 form is the beginning of each header as well.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use subtle::ConstantTimeEq as _;

/// The user name. Programs send a password only along with one.
const USER: &str = "mimir";

/// The beginning of every password.
const PREFIX: &str = "mimir_proxy_";

/// The password of one proxy. It is `None` without a source of random numbers, and then every request is refused.
#[derive(Clone)]
pub(super) struct Credential(Option<Arc<str>>);

impl Credential {
    /// Creates a random credential.
    pub(super) fn new() -> Self {
        let mut bytes = [0; 16];
        let random = rustls::crypto::ring::default_provider().secure_random;
        let filled = random.fill(&mut bytes);
        if filled.is_err() {
            tracing::error!("no random numbers: programs cannot use their proxy");
        }
        Self(filled.ok().map(|()| password(bytes)))
    }

    /// Returns it as the user and the password of a URL.
    pub(super) fn userinfo(&self) -> String {
        let password = self.0.as_deref().unwrap_or_default();
        format!("{USER}:{password}")
    }

    /// Returns true if the headers of a request have it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let value = headers
            .get(PROXY_AUTHORIZATION)
            .map(|header| header.as_bytes());
        let Some((scheme, value)) = value.and_then(|bytes| bytes.split_at_checked(BASIC.len()))
        else {
            return false;
        };
        let expected = STANDARD.encode(self.userinfo());
        self.0.is_some()
            && scheme.eq_ignore_ascii_case(BASIC)
            && bool::from(value.trim_ascii().ct_eq(expected.as_bytes()))
    }
}

const BASIC: &[u8] = b"Basic ";

/// Writes random bytes as a password.
fn password(random: [u8; 16]) -> Arc<str> {
    format!("{PREFIX}{:032x}", u128::from_be_bytes(random)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_of_another_proxy_is_rejected() {
        let (own, other) = (Credential::new(), Credential::new());
        let headers_with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PROXY_AUTHORIZATION, value.parse().unwrap());
            headers
        };
        let basic = |userinfo: &str| format!("Basic {}", STANDARD.encode(userinfo));
        let value = basic(&own.userinfo());
        assert!(own.is_in(&headers_with(&value)));
        assert!(own.is_in(&headers_with(&value.replace("Basic", "basic"))));
        assert!(!other.is_in(&headers_with(&value)));
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
            assert!(!own.is_in(&headers_with(bad)), "{bad}");
        }
        let none = Credential(None);
        assert!(!none.is_in(&headers_with(&basic(&none.userinfo()))));
    }

    #[test]
    fn credential_is_masked_in_every_form_that_programs_print() {
        // The form decides and not the random bytes: also those that look like a placeholder or a word.
        let bytes = (0..=u8::MAX).map(|byte| [byte; 16]);
        let mix = |byte: u8| u128::from(byte) * 0x0001_2345_6789_abcd_efed_cba9_8765_4321;
        let steps = (0..=u8::MAX).map(|byte| mix(byte).to_be_bytes());
        for random in bytes.chain(steps) {
            let credential = Credential(Some(password(random)));
            let userinfo = credential.userinfo();
            let (_, bare) = userinfo.split_once(':').unwrap();
            let basic = STANDARD.encode(&userinfo);
            let basic = basic.as_str();
            for (secret, text) in [
                (bare, bare.to_owned()),
                (bare, format!("word{bare}word")),
                (
                    bare,
                    format!("http_proxy=http://{userinfo}@127.0.0.1:61128"),
                ),
                (bare, format!("http://mimir%3A{bare}%40127.0.0.1")),
                (basic, basic.to_owned()),
                (basic, format!("> Proxy-Authorization: Basic {basic}\r\n> ")),
                (basic, format!("{{\"sent\": \"basic {basic}\"}}")),
            ] {
                let mut masked = text.clone();
                mimir_core::redact::Redactor::new().mask_text(&mut masked);
                // Half of it must not be readable either.
                let half = &secret[secret.len() / 2..];
                assert!(!masked.contains(half), "{text}: {masked}");
            }
        }
    }
}
