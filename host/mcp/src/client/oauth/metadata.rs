//! Metadata of a server and of its authorization server: RFC 9728, RFC 8414 and OpenID Connect Discovery, in the order
//! that the protocol prescribes.
//!
//! Out of scope: the use of the metadata.

use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use mimir_core::text::{prefix, visible};
use serde::Deserialize;

use super::challenge::{self, BearerChallenge};
use super::endpoint::{self, check_url};
use super::login_error;
use crate::client::server::HttpClientFactory;

/// Protected resource metadata as JSON.
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The parts of the protected resource metadata that a login needs.
#[derive(Debug)]
pub(super) struct ProtectedResource {
    /// Resource identifier, as spelled in the metadata.
    pub(super) name: String,
    /// Issuer identifier of the authorization server, as spelled in the metadata.
    pub(super) issuer: String,
    /// Scopes that the metadata recommends.
    pub(super) scopes: Vec<String>,
}

/// Authorization server metadata as JSON.
#[derive(Debug, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    response_types_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// Metadata of an authorization server, with checked URLs.
#[derive(Debug)]
pub(super) struct AuthorizationServer {
    pub(super) name: String,
    pub(super) authorize: RequestTarget,
    pub(super) token: RequestTarget,
    pub(super) register: Option<RequestTarget>,
    pub(super) revoke: Option<RequestTarget>,
    /// Supported client authentication methods of the token endpoint.
    pub(super) methods: Option<Vec<String>>,
    pub(super) scopes: Vec<String>,
    /// True if the authorization server identifies itself in each callback (RFC 9207).
    pub(super) sends_issuer: bool,
    /// True if the authorization server supports client metadata documents.
    pub(super) takes_documents: bool,
}

/// Fetches a server's metadata: from the URL in its challenge, otherwise from the well-known URLs.
pub(super) async fn fetch_resource(
    server: &RequestTarget,
    challenge: &BearerChallenge,
    expected_issuer: Option<&str>,
    clients: &HttpClientFactory,
) -> Result<ProtectedResource, ToolError> {
    let urls = match &challenge.resource_metadata {
        Some(named) => {
            let url = check_url(named, "metadata URL of the server", server)?;
            if url.origin() != server.origin() {
                return Err(login_error(format!(
                    "origin mismatch: the server's metadata URL {} is not on the server itself",
                    quoted(named)
                )));
            }
            vec![url]
        }
        None => well_known_urls(server, "oauth-protected-resource")?,
    };
    let metadata: Option<ResourceMetadata> = endpoint::fetch_first_document(urls, clients).await?;
    let metadata = metadata.ok_or_else(|| {
        login_error(
            "the server has no protected resource metadata, so it does not name an authorization server",
        )
    });
    metadata?.validate(server, expected_issuer)
}

impl ResourceMetadata {
    fn validate(
        self,
        server: &RequestTarget,
        expected_issuer: Option<&str>,
    ) -> Result<ProtectedResource, ToolError> {
        if !covers(&self.resource, server) {
            return Err(login_error(format!(
                "resource mismatch: the metadata names {}, but the server is {}",
                quoted(&self.resource),
                quoted(&server.to_string())
            )));
        }
        let mut servers = self.authorization_servers.into_iter();
        let issuer = match expected_issuer {
            Some(expected_issuer) => servers.find(|one| is_same_issuer(one, expected_issuer)).ok_or_else(|| {
                login_error(format!(
                    "issuer mismatch: the settings name {} (oauth.issuer), but the server does not list it as an authorization server",
                    quoted(expected_issuer)
                ))
            })?,
            None => servers
                .next()
                .ok_or_else(|| login_error("the server's metadata names no authorization server"))?,
        };
        let mut scopes = Vec::new();
        challenge::add_scopes(
            &mut scopes,
            self.scopes_supported.iter().map(String::as_str),
        );
        Ok(ProtectedResource {
            name: self.resource,
            issuer,
            scopes,
        })
    }
}

/// Returns true if a token for this resource is valid for the server: the resource is the URL of the server or a
/// parent.
fn covers(resource: &str, server: &RequestTarget) -> bool {
    let Ok(named) = RequestTarget::parse(resource) else {
        return false;
    };
    if resource.contains('#') || named.origin() != server.origin() {
        return false;
    }
    let (whole, part) = (named.url().path(), server.url().path());
    let is_parent = || {
        part.strip_prefix(whole)
            .is_some_and(|rest| whole.ends_with('/') || rest.starts_with('/'))
    };
    whole.trim_end_matches('/') == part.trim_end_matches('/') || is_parent()
}

/// Returns the well-known URLs of the document `what`: with the path of `base`, and at the root.
fn well_known_urls(base: &RequestTarget, what: &str) -> Result<Vec<RequestTarget>, ToolError> {
    let path = base.url().path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/{what}{path}")];
    if !path.is_empty() {
        paths.push(format!("/.well-known/{what}"));
    }
    paths.iter().map(|path| join_url(base, path)).collect()
}

fn join_url(base: &RequestTarget, path: &str) -> Result<RequestTarget, ToolError> {
    let joined = base.join(path);
    joined.map_err(|error| ToolError::from(mimir_net::Error::from(error)))
}

/// Fetches and validates the metadata of an authorization server.
pub(super) async fn fetch_issuer(
    name: &str,
    server: &RequestTarget,
    clients: &HttpClientFactory,
) -> Result<AuthorizationServer, ToolError> {
    let url = check_url(name, "authorization server", server)?;
    if name.contains(['?', '#']) {
        return Err(login_error(format!(
            "{} is not a valid issuer of an authorization server",
            quoted(name)
        )));
    }
    let metadata: Option<IssuerMetadata> =
        endpoint::fetch_first_document(metadata_urls(&url)?, clients).await?;
    let metadata = metadata.ok_or_else(|| {
        login_error(format!(
            "the authorization server {} has no metadata",
            quoted(name)
        ))
    });
    metadata?.validate(name, server)
}

/// Returns the possible metadata URLs of an authorization server, in the order that the protocol prescribes.
pub(super) fn metadata_urls(issuer: &RequestTarget) -> Result<Vec<RequestTarget>, ToolError> {
    let path = issuer.url().path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| join_url(issuer, path)).collect()
}

impl IssuerMetadata {
    fn validate(
        self,
        name: &str,
        server: &RequestTarget,
    ) -> Result<AuthorizationServer, ToolError> {
        if !is_same_issuer(&self.issuer, name) {
            return Err(login_error(format!(
                "issuer mismatch: the metadata of the authorization server {} names the issuer {}",
                quoted(name),
                quoted(&self.issuer)
            )));
        }
        let lacks =
            |list: &Option<Vec<String>>, what: &str| !list.iter().flatten().any(|one| one == what);
        if lacks(&self.code_challenge_methods_supported, "S256") {
            return Err(login_error(format!(
                "the authorization server {} does not declare support for PKCE with S256, without which a stolen code can \
                 be redeemed by the thief: the protocol forbids a login there",
                quoted(name)
            ))
            .with_remedies([
                "its operator can add `S256` to `code_challenge_methods_supported` of its metadata, or put a proxy before \
                 it that does; to use another one, pass `--issuer` to `mimir mcp add`"
                    .to_owned(),
                "to use a token from elsewhere without a login: `mimir secrets set TOKEN`, and \
                 `mimir mcp add NAME --url URL --header 'Authorization=Bearer ${TOKEN}'`"
                    .to_owned(),
            ]));
        }
        if self.response_types_supported.is_some() && lacks(&self.response_types_supported, "code")
        {
            return Err(login_error(format!(
                "the authorization server {} does not support the authorization code flow",
                quoted(name)
            )));
        }
        let check = |url: &str, what: &str| check_url(url, what, server);
        let check_optional = |url: &Option<String>, what: &str| {
            url.as_deref().map(|url| check(url, what)).transpose()
        };
        let mut scopes = Vec::new();
        challenge::add_scopes(
            &mut scopes,
            self.scopes_supported.iter().map(String::as_str),
        );
        Ok(AuthorizationServer {
            authorize: check(&self.authorization_endpoint, "login page")?,
            token: check(&self.token_endpoint, "token endpoint")?,
            register: check_optional(&self.registration_endpoint, "registration endpoint")?,
            revoke: check_optional(&self.revocation_endpoint, "revocation endpoint")?,
            methods: self.token_endpoint_auth_methods_supported,
            scopes,
            sends_issuer: self.authorization_response_iss_parameter_supported,
            takes_documents: self.client_id_metadata_document_supported,
            name: self.issuer,
        })
    }
}

/// Returns true if two issuer identifiers are equal. Ignores a slash after a bare host, which many programs add.
fn is_same_issuer(one: &str, other: &str) -> bool {
    let bare = |name: &str| {
        let host = name.strip_suffix('/')?;
        let (_, rest) = host.split_once("://")?;
        (!rest.contains('/')).then(|| host.to_owned())
    };
    one == other || bare(one).as_deref() == Some(other) || bare(other).as_deref() == Some(one)
}

/// Returns an untrusted URL for display.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", visible(prefix(name, 200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_covers_the_server_or_its_parent() {
        let server = RequestTarget::parse("https://h.example/public/mcp").unwrap();
        for good in [
            "https://h.example/public/mcp",
            "https://h.example",
            "https://h.example/",
            "https://h.example/public",
            "https://h.example/public/mcp/",
            "https://H.example:443/public/",
        ] {
            assert!(covers(good, &server), "{good}");
        }
        for bad in [
            "https://evil.example/public/mcp",
            "http://h.example/public/mcp",
            "https://h.example:8443",
            "https://h.example/pub",
            "https://h.example/public/mcp/more",
            "https://h.example/public/mcp#x",
            "https://h.example@evil.example/",
            "h.example",
            "",
        ] {
            assert!(!covers(bad, &server), "{bad}");
        }
    }

    #[test]
    fn issuer_comparison_is_exact() {
        for (one, other) in [
            ("https://a", "https://a"),
            ("https://a/", "https://a"),
            ("https://a/x", "https://a/x"),
        ] {
            assert!(
                is_same_issuer(one, other) && is_same_issuer(other, one),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("https://a/x/", "https://a/x"),
            ("https://A", "https://a"),
            ("https://a:443", "https://a"),
            ("https://a", "https://b"),
            ("https://a//", "https://a"),
            ("/", ""),
        ] {
            assert!(!is_same_issuer(one, other), "{one} {other}");
        }
    }

    #[test]
    fn metadata_urls_follow_the_protocol() {
        let paths = |url: &str| {
            let urls = well_known_urls(&RequestTarget::parse(url).unwrap(), "x").unwrap();
            urls.iter()
                .map(RequestTarget::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(paths("https://h"), ["https://h/.well-known/x"]);
        assert_eq!(
            paths("https://h/a/mcp?k=v"),
            ["https://h/.well-known/x/a/mcp", "https://h/.well-known/x"]
        );
    }
}
