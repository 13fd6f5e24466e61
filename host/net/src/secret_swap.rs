//! Replacement of placeholders by secrets, after all checks and just before the request is sent.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use mimir_core::network::UrlOrigin;

/// Replaces placeholders in headers by secrets. Each secret is declared for a header and a host.
pub trait SecretSwap: Send + Sync {
    /// Returns the value to send instead of `value`, if `value` contains the placeholder of a secret that is declared
    /// for this header and origin. The implementation also decides, by the origin, if a secret may be sent unencrypted.
    fn swap(
        &self,
        origin: &UrlOrigin,
        name: &HeaderName,
        value: &HeaderValue,
    ) -> Option<HeaderValue>;
}

/// The secrets inserted for one hop.
#[derive(Default)]
pub(crate) struct SwappedSecrets {
    /// The headers that contain a secret.
    pub(crate) names: Vec<HeaderName>,
    values: Vec<HeaderValue>,
}

/// Minimum length in bytes of a header word that counts as a secret: shorter words, such as `Bearer`, occur by chance.
const MIN_SECRET_LENGTH: usize = 8;

impl SwappedSecrets {
    /// Replaces the placeholders in these headers, and marks the new values as sensitive.
    pub(crate) fn insert_into(
        swap: &dyn SecretSwap,
        origin: &UrlOrigin,
        headers: &mut HeaderMap,
    ) -> Self {
        let mut swapped = Self::default();
        for (name, value) in headers.iter_mut() {
            if let Some(mut secret) = swap.swap(origin, name, value) {
                secret.set_sensitive(true);
                value.clone_from(&secret);
                swapped.names.push(name.clone());
                swapped.values.push(secret);
            }
        }
        swapped
    }

    /// Returns true if a text sent by the server contains an inserted secret, plain or percent-encoded.
    pub(crate) fn appears_in(&self, text: &str) -> bool {
        if self.values.is_empty() {
            return false;
        }
        let plain = percent_decode(text);
        self.values.iter().any(|value| {
            let words = value.as_bytes().split(|byte| byte.is_ascii_whitespace());
            words
                .filter(|word| word.len() >= MIN_SECRET_LENGTH)
                .any(|word| contains_bytes(text.as_bytes(), word) || contains_bytes(&plain, word))
        })
    }
}

fn contains_bytes(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digit = |at: usize| tail.get(at).and_then(|d| char::from(*d).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high << 4 | low).unwrap_or_default());
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    decoded
}
