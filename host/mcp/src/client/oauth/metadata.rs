//! What a server says of itself, and what its authorization server does: RFC 9728, RFC 8414 and OpenID Connect
//! Discovery, in the order of the protocol.
//!
//! Never here: what is done with it.

use mimir_core::ToolError;
use mimir_core::network::Target;
use mimir_core::text::{prefix, visible};
use serde::Deserialize;

use super::challenge::{self, Challenge};
use super::endpoint::{self, judge};
use super::refused;
use crate::client::server::Clients;

/// What a server says of itself.
#[derive(Debug, Deserialize)]
struct Protected {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// A server as far as a login goes.
#[derive(Debug)]
pub(super) struct Resource {
    /// What tokens are asked for, as the server spells it.
    pub(super) name: String,
    /// Its authorization server, as the server spells it.
    pub(super) issuer: String,
    /// What it names for a start.
    pub(super) scopes: Vec<String>,
}

/// What an authorization server says of itself, as it stands there.
#[derive(Debug, Deserialize)]
struct Described {
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

/// An authorization server. Its places were judged.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) name: String,
    pub(super) authorize: Target,
    pub(super) token: Target,
    pub(super) register: Option<Target>,
    pub(super) revoke: Option<Target>,
    /// How clients may say who they are at the token endpoint.
    pub(super) methods: Option<Vec<String>>,
    pub(super) scopes: Vec<String>,
    /// Whether it says who it is in each answer.
    pub(super) names_itself: bool,
    /// Whether a client may be a document.
    pub(super) takes_documents: bool,
}

/// What a server says of itself: where its challenge says that it lies, else where such documents lie.
pub(super) async fn resource(
    server: &Target,
    challenge: &Challenge,
    wanted: Option<&str>,
    clients: &Clients,
) -> Result<Resource, ToolError> {
    let places = match &challenge.resource_metadata {
        Some(named) => {
            let place = judge(named, "description of the server", server)?;
            if place.origin() != server.origin() {
                return Err(refused(format!(
                    "the server says that it is described at {}, which is not its own place",
                    shown(named)
                )));
            }
            vec![place]
        }
        None => well_known(server, "oauth-protected-resource")?,
    };
    let found: Option<Protected> = endpoint::first(places, clients).await?;
    let found = found.ok_or_else(|| {
        refused(
            "the server does not say who logs people in there (it has no metadata of a protected resource)",
        )
    });
    found?.judged(server, wanted)
}

impl Protected {
    fn judged(self, server: &Target, wanted: Option<&str>) -> Result<Resource, ToolError> {
        if !covers(&self.resource, server) {
            return Err(refused(format!(
                "the server says that it is {}, and is reached at {}: a token for the one is none for the other",
                shown(&self.resource),
                shown(&server.to_string())
            )));
        }
        let mut all = self.authorization_servers.into_iter();
        let issuer = match wanted {
            Some(wanted) => all.find(|one| is_same(one, wanted)).ok_or_else(|| {
                refused(format!(
                    "the server does not name {} as its authorization server, which its settings do (oauth.issuer)",
                    shown(wanted)
                ))
            })?,
            None => all
                .next()
                .ok_or_else(|| refused("the server names no authorization server"))?,
        };
        let mut scopes = Vec::new();
        challenge::add(
            &mut scopes,
            self.scopes_supported.iter().map(String::as_str),
        );
        Ok(Resource {
            name: self.resource,
            issuer,
            scopes,
        })
    }
}

/// Whether a token for this resource is one for the server: it is the server, or what the server is a part of.
fn covers(resource: &str, server: &Target) -> bool {
    let Ok(named) = Target::parse(resource) else {
        return false;
    };
    if resource.contains('#') || named.origin() != server.origin() {
        return false;
    }
    let (whole, part) = (named.url().path(), server.url().path());
    let below = || {
        part.strip_prefix(whole)
            .is_some_and(|rest| whole.ends_with('/') || rest.starts_with('/'))
    };
    whole.trim_end_matches('/') == part.trim_end_matches('/') || below()
}

/// Where a document about a place lies: with its path, and at the root.
fn well_known(place: &Target, what: &str) -> Result<Vec<Target>, ToolError> {
    let path = place.url().path().trim_end_matches('/');
    let mut all = vec![format!("/.well-known/{what}{path}")];
    if !path.is_empty() {
        all.push(format!("/.well-known/{what}"));
    }
    all.iter().map(|path| at(place, path)).collect()
}

fn at(place: &Target, path: &str) -> Result<Target, ToolError> {
    let joined = place.join(path);
    joined.map_err(|error| ToolError::from(mimir_net::Error::from(error)))
}

/// What the authorization server of that name says of itself.
pub(super) async fn issuer(
    name: &str,
    server: &Target,
    clients: &Clients,
) -> Result<Issuer, ToolError> {
    let place = judge(name, "authorization server", server)?;
    if name.contains(['?', '#']) {
        return Err(refused(format!(
            "{} names no authorization server",
            shown(name)
        )));
    }
    let found: Option<Described> = endpoint::first(places(&place)?, clients).await?;
    let found = found.ok_or_else(|| {
        refused(format!(
            "the authorization server {} does not say how it is asked",
            shown(name)
        ))
    });
    found?.judged(name, server)
}

/// Where an authorization server may say of itself what it is, in the order of the protocol.
pub(super) fn places(issuer: &Target) -> Result<Vec<Target>, ToolError> {
    let path = issuer.url().path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at(issuer, path)).collect()
}

impl Described {
    fn judged(self, name: &str, server: &Target) -> Result<Issuer, ToolError> {
        if !is_same(&self.issuer, name) {
            return Err(refused(format!(
                "what lies at the authorization server {} says that it is {}: nobody is sent there",
                shown(name),
                shown(&self.issuer)
            )));
        }
        let lacks =
            |list: &Option<Vec<String>>, what: &str| !list.iter().flatten().any(|one| one == what);
        if lacks(&self.code_challenge_methods_supported, "S256") {
            return Err(refused(format!(
                "the authorization server {} does not say that it knows PKCE with S256, without which a code that somebody \
                 catches is as good as yours; the protocol forbids a login there",
                shown(name)
            ))
            .with_way_out([
                "whoever runs it can name `S256` in `code_challenge_methods_supported` of its metadata, or put a proxy before \
                 it that does; `--issuer` of `mimir mcp add` names another one"
                    .to_owned(),
                "a token that you have from elsewhere does without a login: `mimir secrets set TOKEN`, and \
                 `mimir mcp add NAME --url URL --header 'Authorization=Bearer ${TOKEN}'`"
                    .to_owned(),
            ]));
        }
        if self.response_types_supported.is_some() && lacks(&self.response_types_supported, "code")
        {
            return Err(refused(format!(
                "the authorization server {} gives out no codes",
                shown(name)
            )));
        }
        let place = |url: &str, what: &str| judge(url, what, server);
        let maybe = |url: &Option<String>, what: &str| {
            url.as_deref().map(|url| place(url, what)).transpose()
        };
        let mut scopes = Vec::new();
        challenge::add(
            &mut scopes,
            self.scopes_supported.iter().map(String::as_str),
        );
        Ok(Issuer {
            authorize: place(&self.authorization_endpoint, "page for logins")?,
            token: place(&self.token_endpoint, "token endpoint")?,
            register: maybe(&self.registration_endpoint, "registration endpoint")?,
            revoke: maybe(&self.revocation_endpoint, "revocation endpoint")?,
            methods: self.token_endpoint_auth_methods_supported,
            scopes,
            names_itself: self.authorization_response_iss_parameter_supported,
            takes_documents: self.client_id_metadata_document_supported,
            name: self.issuer,
        })
    }
}

/// Whether two spellings name the same authorization server: they are the same, but for a slash after a bare host,
/// which is no other place and which many programs add.
fn is_same(one: &str, other: &str) -> bool {
    let bare = |name: &str| {
        let host = name.strip_suffix('/')?;
        let (_, rest) = host.split_once("://")?;
        (!rest.contains('/')).then(|| host.to_owned())
    };
    one == other || bare(one).as_deref() == Some(other) || bare(other).as_deref() == Some(one)
}

/// A stranger's name for a place, as it can be shown.
pub(super) fn shown(name: &str) -> String {
    format!("`{}`", visible(prefix(name, 200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_server_or_what_it_is_part_of() {
        let server = Target::parse("https://h.example/public/mcp").unwrap();
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
    fn an_issuer_is_one_spelling() {
        for (one, other) in [
            ("https://a", "https://a"),
            ("https://a/", "https://a"),
            ("https://a/x", "https://a/x"),
        ] {
            assert!(is_same(one, other) && is_same(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("https://a/x/", "https://a/x"),
            ("https://A", "https://a"),
            ("https://a:443", "https://a"),
            ("https://a", "https://b"),
            ("https://a//", "https://a"),
            ("/", ""),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn documents_lie_where_the_protocol_has_them() {
        let paths = |url: &str| {
            let all = well_known(&Target::parse(url).unwrap(), "x").unwrap();
            all.iter().map(Target::to_string).collect::<Vec<_>>()
        };
        assert_eq!(paths("https://h"), ["https://h/.well-known/x"]);
        assert_eq!(
            paths("https://h/a/mcp?k=v"),
            ["https://h/.well-known/x/a/mcp", "https://h/.well-known/x"]
        );
    }
}
