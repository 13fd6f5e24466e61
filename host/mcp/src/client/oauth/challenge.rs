//! Parser for `WWW-Authenticate`; RFC 6750 section 3, RFC 9728 section 5.1.
//!
//! Out of scope: the reaction to a challenge.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use mimir_core::config::is_scope;
use serde::{Deserialize, Serialize};

/// The parts of a bearer challenge that matter to a login. Stored until the next login, which may be in another
/// process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BearerChallenge {
    /// URL of the protected resource metadata.
    pub(super) resource_metadata: Option<String>,
    /// Scopes that the request needs.
    pub(super) scopes: Vec<String>,
    /// True if the token is valid, but lacks scopes.
    pub(super) insufficient: bool,
}

/// Maximum size of a header in bytes, and maximum number of scopes.
const MAX_HEADER_SIZE: usize = 4 << 10;
const MAX_SCOPES: usize = 100;

impl BearerChallenge {
    /// Parses the bearer challenge in the headers of a response. Without one, the result is empty.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let mut texts = values.filter_map(|value| value.to_str().ok());
        texts.find_map(Self::parse).unwrap_or_default()
    }

    /// Returns true if the token lacks scopes.
    pub(crate) fn is_insufficient(&self) -> bool {
        self.insufficient
    }

    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.get(..MAX_HEADER_SIZE).unwrap_or(text);
        let mut challenge: Option<Self> = None;
        let mut bearer = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let after = after.trim_start_matches([' ', '\t']);
            if word.is_empty() && after.is_empty() {
                return challenge;
            }
            let Some(value) = after.strip_prefix('=') else {
                // A word without `=` is the name of a scheme. The first bearer challenge counts.
                bearer = word.eq_ignore_ascii_case("bearer") && challenge.is_none();
                if bearer {
                    challenge = Some(Self::default());
                }
                rest = after;
                continue;
            };
            let (value, after) = parse_value(value.trim_start_matches([' ', '\t']))?;
            if let Some(challenge) = challenge.as_mut().filter(|_| bearer) {
                challenge.set_param(word, value);
            }
            rest = after;
        }
    }

    fn set_param(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Some(value),
            "scope" => self.scopes = parse_scopes(&value),
            "error" => self.insufficient = value == "insufficient_scope",
            _ => {}
        }
    }
}

/// Splits a space-separated list of scopes, without duplicates.
pub(super) fn parse_scopes(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    add_scopes(&mut scopes, text.split(' ').filter(|word| !word.is_empty()));
    scopes
}

/// Adds new scopes to a list, except invalid scopes and those beyond the limit.
pub(super) fn add_scopes<'a>(scopes: &mut Vec<String>, more: impl IntoIterator<Item = &'a str>) {
    for scope in more {
        let new = is_scope(scope) && !scopes.iter().any(|known| known == scope);
        if new && scopes.len() < MAX_SCOPES {
            scopes.push(scope.to_owned());
        }
    }
}

/// Parses a quoted or bare value. Returns the value and the rest of the text.
fn parse_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, after) = text.split_at(end);
        return Some((value.to_owned(), after));
    };
    let mut value = String::new();
    let mut escaped = false;
    for (index, letter) in quoted.char_indices() {
        match letter {
            _ if escaped => {
                value.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((value, &quoted[index + 1..])),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge_in(values: &[&str]) -> BearerChallenge {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        BearerChallenge::from_headers(&headers)
    }

    #[test]
    fn challenge_parses_every_spelling() {
        let metadata = "https://a.example/.well-known/oauth-protected-resource";
        let all = format!(
            "Bearer error=\"insufficient_scope\", scope=\"a b a\", resource_metadata=\"{metadata}\", error_description=\"x, scope=\\\"no\\\"\""
        );
        let challenge = challenge_in(&[&all]);
        assert_eq!(challenge.resource_metadata.as_deref(), Some(metadata));
        assert_eq!(challenge.scopes, ["a", "b"]);
        assert!(challenge.insufficient);
        let plain = challenge_in(&["bearer scope=a , Resource_Metadata = https://a.example/x"]);
        assert_eq!(plain.scopes, ["a"]);
        assert_eq!(
            plain.resource_metadata.as_deref(),
            Some("https://a.example/x")
        );
        assert!(!plain.insufficient);
    }

    #[test]
    fn challenge_ignores_other_schemes_and_invalid_headers() {
        for other in [
            "Basic realm=\"x\", scope=\"a\"",
            "",
            "Bearer",
            "=",
            "Bearer scope=\"open",
            "Basic YWJj==, scope=a",
        ] {
            assert_eq!(
                challenge_in(&[other]),
                BearerChallenge::default(),
                "{other}"
            );
        }
        let both = challenge_in(&["Basic realm=\"x\", scope=\"no\"", "Bearer scope=\"yes\""]);
        assert_eq!(both.scopes, ["yes"]);
        let one = challenge_in(&["Bearer scope=\"yes\", DPoP scope=\"no\", Bearer scope=\"late\""]);
        assert_eq!(one.scopes, ["yes"]);
        assert_eq!(
            challenge_in(&["Bearer scope=\"caf\\\\e ok\""]).scopes,
            ["ok"]
        );
    }
}
