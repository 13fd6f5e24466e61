//! Login settings for servers reached over HTTP.
//!
//! Out of scope: the login itself, and the storage of tokens.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::network::{RequestTarget, UrlScheme};

/// Settings of `mimir mcp login`. Most servers need none of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct McpOauthSettings {
    /// The issuer identifier of the authorization server. Other authorization servers are refused.
    pub issuer: Option<String>,
    /// The id of a client that is registered at the authorization server.
    pub client_id: Option<String>,
    /// The client's secret, as `${NAME}` for the stored secret `NAME`. It is sent to `issuer`, which must be set, too.
    pub client_secret: Option<String>,
    /// The URL of a client metadata document, in place of a registration, if the authorization server supports it.
    pub client_metadata_url: Option<String>,
    /// The scopes to request, in place of those that the server advertises.
    pub scopes: Option<Vec<String>>,
    /// The port on 127.0.0.1 for the browser's redirect. Default: any free port.
    #[schemars(range(min = 1))]
    pub redirect_port: Option<u16>,
}

/// Maximum number of scopes, and maximum length of a scope in characters.
const SCOPES_MAX: usize = 100;
const SCOPE_MAX: usize = 256;

impl McpOauthSettings {
    /// Returns the name of the secret in `clientSecret`; `None` if the value is not of the form `${NAME}`.
    pub fn secret_name(&self) -> Option<&str> {
        let name = self
            .client_secret
            .as_deref()?
            .strip_prefix("${")?
            .strip_suffix('}')?;
        let is_valid = !name.is_empty() && !name.contains(['$', '{', '}']);
        is_valid.then_some(name)
    }

    /// Returns the fault of the settings, if any.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let has_client = self.client_id.is_some();
        if self.client_id.as_deref().is_some_and(str::is_empty) {
            return Some("`oauth.clientId` is empty");
        }
        if self.client_secret.is_some() && !(has_client && self.issuer.is_some()) {
            return Some(
                "`oauth.clientSecret` requires `oauth.clientId`, and the `oauth.issuer` that it is sent to",
            );
        }
        if self.client_secret.is_some() && self.secret_name().is_none() {
            return Some(
                "`oauth.clientSecret` must be `${NAME}`, the name of a secret stored with `mimir secrets set NAME`, not its value",
            );
        }
        if self.client_metadata_url.is_some() && has_client {
            return Some("`oauth` must have either `clientId` or `clientMetadataUrl`, not both");
        }
        let document = self
            .client_metadata_url
            .as_deref()
            .map(RequestTarget::parse);
        if let Some(document) = document
            && !document
                .is_ok_and(|url| url.scheme() == UrlScheme::Https && url.url().path().len() > 1)
        {
            return Some("`oauth.clientMetadataUrl` must be an https URL with a path");
        }
        let issuer = self.issuer.as_deref().map(RequestTarget::parse);
        if let Some(issuer) = issuer
            && !issuer
                .is_ok_and(|url| url.scheme() == UrlScheme::Https || url.host().is_this_machine())
        {
            return Some("`oauth.issuer` must be an https URL");
        }
        let scopes = self.scopes.as_deref().unwrap_or_default();
        if scopes.len() > SCOPES_MAX || !scopes.iter().all(|scope| is_scope(scope)) {
            return Some(
                "`oauth.scopes` must be at most 100 words of printable ASCII, without quotes and backslashes",
            );
        }
        if self.redirect_port == Some(0) {
            return Some("`oauth.redirectPort` must be a port from 1 to 65535");
        }
        None
    }
}

/// Returns true for a valid scope; RFC 6749 section 3.3.
pub fn is_scope(word: &str) -> bool {
    let is_scope_char = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !word.is_empty() && word.len() <= SCOPE_MAX && word.bytes().all(is_scope_char)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mcp_oauth_invalid_settings_are_rejected() {
        let fault = |value: serde_json::Value| {
            let oauth: McpOauthSettings = serde_json::from_value(value).unwrap();
            oauth.fault()
        };
        let valid = json!({"issuer": "https://a.example", "clientId": "x", "clientSecret": "${KEY}",
            "scopes": ["a:b"], "redirectPort": 8123});
        assert_eq!(fault(valid), None);
        assert_eq!(fault(json!({"issuer": "http://localhost:1"})), None);
        assert_eq!(
            fault(json!({"clientMetadataUrl": "https://a.example/c.json"})),
            None
        );
        for (bad, words) in [
            (
                json!({"clientSecret": "${KEY}"}),
                "requires `oauth.clientId`",
            ),
            (
                json!({"clientId": "x", "clientSecret": "${KEY}"}),
                "oauth.issuer",
            ),
            (
                json!({"clientId": "x", "clientSecret": "plain", "issuer": "https://a.example"}),
                "not its value",
            ),
            (
                json!({"clientId": "x", "clientMetadataUrl": "https://a/b"}),
                "not both",
            ),
            (json!({"clientId": ""}), "empty"),
            (json!({"clientMetadataUrl": "http://a/b"}), "https"),
            (json!({"clientMetadataUrl": "https://a/"}), "path"),
            (json!({"issuer": "http://a.example"}), "https"),
            (json!({"scopes": ["a b"]}), "scopes"),
            (json!({"scopes": ["a\"b"]}), "scopes"),
            (json!({"redirectPort": 0}), "port"),
        ] {
            let fault = fault(bad.clone()).unwrap_or_else(|| panic!("{bad}"));
            assert!(fault.contains(words), "{fault}");
        }
    }
}
