//! The stored form of a login: a token, its refresh token, and the servers to which both belong.
//!
//! Out of scope: the storage itself, which the host provides as a [`LoginStore`].

use std::fmt;

use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::registration::OauthClient;
use super::unix_seconds;

/// Storage for logins. Like the secret store, it is private to this user, and its values are masked in all output.
/// Tools and other servers cannot refer to an entry.
pub trait LoginStore: Send + Sync {
    /// Returns the text stored under a key.
    fn read(&self, key: &str) -> Result<Option<String>, ToolError>;
    /// Stores a text under a key, replacing an existing one.
    fn write(&self, key: &str, text: &str) -> Result<(), ToolError>;
    /// Removes the entry of a key.
    fn remove(&self, key: &str) -> Result<(), ToolError>;
    /// Returns a version that changes whenever an entry may have changed. It is called for each request.
    fn version(&self) -> u64;
    /// Locks the entry of a key against changes, in all processes, until the returned guard is dropped. May block.
    /// Locks of different keys are independent.
    fn lock(&self, key: &str) -> Result<Box<dyn Send>, ToolError>;
    /// Returns the id of the user whose logins these are, or `None` for those of the owner of this mimir.
    fn user(&self) -> Option<&str> {
        None
    }
}

/// A stored login. All members are required except those that a server may omit, so that a truncated text is invalid.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    /// Name and URL of the server. The token is sent only to this server.
    pub(super) server: String,
    pub(super) url: String,
    /// Resource for which the token was requested.
    pub(super) resource: String,
    /// The authorization server that issued the token, with its endpoints for renewal and revocation.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: OauthClient,
    /// The token, and the refresh token.
    pub(super) access: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// Expiry time, in seconds since 1970, if known.
    #[serde(rename = "until", skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(rename = "asked")]
    pub(super) requested_scopes: Vec<String>,
    #[serde(rename = "granted")]
    pub(super) granted_scopes: Vec<String>,
}

impl fmt::Debug for StoredLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredLogin")
            .field("server", &self.server)
            .field("issuer", &self.issuer)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Seconds before the expiry at which a token is renewed, because requests take time and clocks differ.
const EXPIRY_MARGIN_SECS: u64 = 30;

impl StoredLogin {
    /// Reads the login at a server. Returns `None` if there is no login for this name and URL.
    pub(super) fn read(
        store: &dyn LoginStore,
        server: &str,
        url: &RequestTarget,
    ) -> Result<Option<Self>, ToolError> {
        let text = store.read(&login_key(server, url))?;
        let login = text.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        Ok(login.filter(|login| login.server == server && login.url == url.to_string()))
    }

    /// Stores the login.
    pub(super) fn write(
        &self,
        store: &dyn LoginStore,
        url: &RequestTarget,
    ) -> Result<(), ToolError> {
        let text = serde_json::to_string(self)
            .map_err(|error| ToolError::internal(format!("cannot serialize the login: {error}")))?;
        store.write(&login_key(&self.server, url), &text)
    }

    /// Returns true if the token has expired or will expire soon.
    pub(super) fn needs_renewal(&self) -> bool {
        self.expires_at
            .is_some_and(|expiry| expiry <= unix_seconds().saturating_add(EXPIRY_MARGIN_SECS))
    }

    /// Returns true if the token has expired.
    pub(super) fn has_expired(&self) -> bool {
        self.expires_at
            .is_some_and(|expiry| expiry <= unix_seconds())
    }

    /// Returns true if these scopes were already requested or granted.
    pub(super) fn covers_scopes(&self, scopes: &[String]) -> bool {
        let is_known = |scope: &String| {
            self.requested_scopes.contains(scope) || self.granted_scopes.contains(scope)
        };
        scopes.iter().all(is_known)
    }

    /// Returns the secret values.
    pub(super) fn values(&self) -> Vec<String> {
        let values = [
            Some(&self.access),
            self.refresh.as_ref(),
            self.client.secret.as_ref(),
        ];
        values.into_iter().flatten().cloned().collect()
    }
}

/// Returns the secret values in a stored text, or `None` if the text is not a login.
pub fn login_secrets(text: &str) -> Option<Vec<String>> {
    let login: StoredLogin = serde_json::from_str(text).ok()?;
    Some(login.values())
}

/// Returns the storage key of the login at a server, which depends on the server's name and URL.
pub(crate) fn login_key(server: &str, url: &RequestTarget) -> String {
    let hash = format!("{:x}", Sha256::digest(url.to_string()));
    format!("{server}@{}", &hash[..16])
}

/// Summary of a login for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginSummary {
    /// The authorization server.
    pub issuer: String,
    /// Granted scopes, if known.
    pub scopes: Vec<String>,
    /// Expiry time of the token, in seconds since 1970, if known.
    pub until: Option<u64>,
    /// True if the login can be renewed without the user.
    pub renews: bool,
    /// True if the login has expired, so that a new login is required.
    pub ended: bool,
}

impl LoginSummary {
    pub(super) fn from_stored(login: &StoredLogin) -> Self {
        let renews = login.refresh.is_some();
        Self {
            issuer: login.issuer.clone(),
            scopes: login.granted_scopes.clone(),
            until: login.expires_at,
            renews,
            ended: login.has_expired() && !renews,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_debug_output_hides_its_values() {
        let text = serde_json::json!({"server": "s", "url": "https://a/", "resource": "https://a",
            "issuer": "https://as", "token_endpoint": "https://as/t",
            "client": {"id": "c", "secret": "client-secret", "method": "post", "settings": false},
            "access": "access-token", "refresh": "refresh-token", "asked": [], "granted": []});
        let login: StoredLogin = serde_json::from_value(text.clone()).unwrap();
        let debug_text = format!("{login:?} {:?}", LoginSummary::from_stored(&login));
        for value in login_secrets(&text.to_string()).unwrap() {
            assert!(!debug_text.contains(&value), "{debug_text}");
        }
        assert_eq!(login.values().len(), 3);
        assert_eq!(login_secrets("{}"), None);
    }

    #[test]
    fn login_key_depends_on_name_and_address() {
        let parse = |url: &str| RequestTarget::parse(url).unwrap();
        let key = login_key("a", &parse("https://h/mcp"));
        for other in [
            login_key("b", &parse("https://h/mcp")),
            login_key("a", &parse("https://h/mcp2")),
            login_key("a", &parse("https://evil/mcp")),
            login_key("a", &parse("http://h/mcp")),
        ] {
            assert_ne!(key, other);
        }
        assert_eq!(key, login_key("a", &parse("https://H:443/x/../mcp")));
    }
}
