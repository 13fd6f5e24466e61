//! What a login came to, as it is kept: a token, what renews it, and for whom both are.
//!
//! Never here: where it is kept (that is a port), and any way of a value into words.

use std::fmt;

use mimir_core::ToolError;
use mimir_core::network::Target;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::registration::Client;
use super::seconds;

/// Keeps logins where secrets are: for this user alone, and masked in all that is said. No tool and no other server can
/// name one.
pub trait Logins: Send + Sync {
    /// What is kept under a key.
    fn read(&self, key: &str) -> Result<Option<String>, ToolError>;
    /// Keeps a text under a key.
    fn write(&self, key: &str, text: &str) -> Result<(), ToolError>;
    /// Forgets what is kept under a key.
    fn remove(&self, key: &str) -> Result<(), ToolError>;
    /// Is another one whenever what is kept may be another. Asked for at each request.
    fn version(&self) -> u64;
    /// Waits until nobody else changes what is kept under this key, in this process or another; the turn ends when what
    /// is returned is dropped. It may block. Whoever waits for one key holds up nobody at another.
    fn turn(&self, key: &str) -> Result<Box<dyn Send>, ToolError>;
}

/// One login. No key of it is optional but those that a server may leave out: a text that is not whole is none.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The server's name and address: it goes there and nowhere else.
    pub(super) server: String,
    pub(super) url: String,
    /// What the token was asked for.
    pub(super) resource: String,
    /// Whose token it is, and where it is renewed and ended.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: Client,
    /// The token itself, and what renews it.
    pub(super) access: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// When it ends, in seconds since 1970, as far as anybody has said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
    /// What was asked for, and what was granted.
    pub(super) asked: Vec<String>,
    pub(super) granted: Vec<String>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// A token is renewed that long before it ends: a request takes some time, and clocks differ.
const EARLY: u64 = 30;

impl Kept {
    /// The login at this server, if it is one at this address.
    pub(super) fn read(
        shelf: &dyn Logins,
        server: &str,
        url: &Target,
    ) -> Result<Option<Self>, ToolError> {
        let text = shelf.read(&key(server, url))?;
        let kept = text.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        Ok(kept.filter(|kept| kept.server == server && kept.url == url.to_string()))
    }

    /// Keeps it.
    pub(super) fn write(&self, shelf: &dyn Logins, url: &Target) -> Result<(), ToolError> {
        let text = serde_json::to_string(self).map_err(|error| {
            ToolError::new(mimir_core::Code::Internal, format!("a login: {error}"))
        })?;
        shelf.write(&key(&self.server, url), &text)
    }

    /// Whether the token has ended, or is about to.
    pub(super) fn is_over(&self) -> bool {
        self.until
            .is_some_and(|until| until <= seconds().saturating_add(EARLY))
    }

    /// Whether it has ended for certain.
    pub(super) fn has_ended(&self) -> bool {
        self.until.is_some_and(|until| until <= seconds())
    }

    /// Whether these scopes were asked for already, or granted.
    pub(super) fn has(&self, scopes: &[String]) -> bool {
        let known = |scope: &String| self.asked.contains(scope) || self.granted.contains(scope);
        scopes.iter().all(known)
    }

    /// What of it nobody may read.
    pub(super) fn values(&self) -> Vec<String> {
        let all = [
            Some(&self.access),
            self.refresh.as_ref(),
            self.client.secret.as_ref(),
        ];
        all.into_iter().flatten().cloned().collect()
    }
}

/// What of a text that was kept nobody may read; nothing if the text is no login.
pub fn secrets(text: &str) -> Option<Vec<String>> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    Some(kept.values())
}

/// Under which key the login at a server is kept: one at another address has another, whatever the server is called.
pub(crate) fn key(server: &str, url: &Target) -> String {
    let hash = format!("{:x}", Sha256::digest(url.to_string()));
    format!("{server}@{}", &hash[..16])
}

/// A login as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// The authorization server.
    pub issuer: String,
    /// What was granted, as far as that is known.
    pub scopes: Vec<String>,
    /// When the token ends, in seconds since 1970, as far as that is known.
    pub until: Option<u64>,
    /// Whether it can be renewed without a person.
    pub renews: bool,
    /// Whether it has ended, and a person has to log in again.
    pub ended: bool,
}

impl Login {
    pub(super) fn of(kept: &Kept) -> Self {
        let renews = kept.refresh.is_some();
        Self {
            issuer: kept.issuer.clone(),
            scopes: kept.granted.clone(),
            until: kept.until,
            renews,
            ended: kept.has_ended() && !renews,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_says_nothing_of_its_values() {
        let text = serde_json::json!({"server": "s", "url": "https://a/", "resource": "https://a",
            "issuer": "https://as", "token_endpoint": "https://as/t",
            "client": {"id": "c", "secret": "client-secret", "method": "post", "settings": false},
            "access": "access-token", "refresh": "refresh-token", "asked": [], "granted": []});
        let kept: Kept = serde_json::from_value(text.clone()).unwrap();
        let shown = format!("{kept:?} {:?}", Login::of(&kept));
        for value in secrets(&text.to_string()).unwrap() {
            assert!(!shown.contains(&value), "{shown}");
        }
        assert_eq!(kept.values().len(), 3);
        assert_eq!(secrets("{}"), None);
    }

    #[test]
    fn a_login_is_of_one_name_at_one_address() {
        let at = |url: &str| Target::parse(url).unwrap();
        let mine = key("a", &at("https://h/mcp"));
        for other in [
            key("b", &at("https://h/mcp")),
            key("a", &at("https://h/mcp2")),
            key("a", &at("https://evil/mcp")),
            key("a", &at("http://h/mcp")),
        ] {
            assert_ne!(mine, other);
        }
        assert_eq!(mine, key("a", &at("https://H:443/x/../mcp")));
    }
}
