//! Password of one proxy: 128 random bits, sent by the program with each request (RFC 7617).
//!
//! Programs print the password: bare, in a URL or in a header. The redaction rule `mimir-proxy-password` recognizes it
//! by its form. User, colon and prefix together are 18 bytes, a multiple of three, so that the base64 form also has a
//! fixed beginning.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use subtle::ConstantTimeEq as _;

/// User name. Programs send a password only together with a user name.
const USER: &str = "mimir";

/// Prefix of every password.
const PREFIX: &str = "mimir_proxy_";

/// Password of one proxy. `None` if no random numbers are available; every request is refused then.
#[derive(Clone)]
pub(super) struct Credential(Option<Arc<str>>);

impl Credential {
    /// Creates a random credential.
    pub(super) fn new() -> Self {
        let mut bytes = [0; 16];
        let random = rustls::crypto::ring::default_provider().secure_random;
        let filled = random.fill(&mut bytes);
        if filled.is_err() {
            tracing::error!(
                "cannot create a proxy password, since no random numbers are available: commands cannot reach the network"
            );
        }
        Self(filled.ok().map(|()| password(bytes)))
    }

    /// Returns `user:password`, as used in URLs and in basic authentication.
    pub(super) fn userinfo(&self) -> String {
        let password = self.0.as_deref().unwrap_or_default();
        format!("{USER}:{password}")
    }

    /// Returns true if the headers of a request contain this credential.
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

/// Formats random bytes as a password.
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
    fn credential_is_redacted_in_every_printed_form() {
        // Redaction depends on the form and not on the random bytes, even if they look like a placeholder or a word.
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
                // Not even half of the secret may be readable.
                let half = &secret[secret.len() / 2..];
                assert!(!masked.contains(half), "{text}: {masked}");
            }
        }
    }
}
