//! `mimir serve`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct RawServe {
    /// Listen there instead, for MCP over HTTP at /mcp: PORT (of this machine alone), or IP:PORT
    #[arg(long, value_name = "ADDR", value_parser = address)]
    http: Option<SocketAddr>,
    /// Ask for a bearer token on this machine's own address, too; elsewhere it is always asked for
    #[arg(long, requires = "http", conflicts_with = "issuer")]
    token: bool,
    /// A name that the server is called by, beside the address
    #[arg(long = "host", value_name = "NAME", requires = "http")]
    hosts: Vec<String>,
    /// A web page that may speak with it: scheme://host:port
    #[arg(long = "origin", value_name = "URL", requires = "http")]
    origins: Vec<String>,
    /// The identity provider whose tokens let people in, in place of one token: its issuer identifier
    #[arg(long, value_name = "URL", requires = "http")]
    issuer: Option<String>,
    /// The address that clients know this server by, which tokens are for [default: the one that it listens at]
    #[arg(long, value_name = "URL", requires = "issuer")]
    resource: Option<String>,
    /// What tokens say that they are for, where that is not the resource
    #[arg(long = "audience", value_name = "NAME", requires = "issuer")]
    audiences: Vec<String>,
    /// A scope that every token has to have
    #[arg(long = "scope", value_name = "SCOPE", requires = "issuer", value_parser = scope)]
    scopes: Vec<String>,
}

/// How the tools are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServeWish {
    /// To whoever started this, on stdin and stdout.
    Stdio,
    /// To whoever comes, over HTTP.
    Http(HttpWish),
}

/// How the tools are served over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpWish {
    /// Where to listen.
    pub address: SocketAddr,
    /// Whether a token is asked for on this machine's own address, too.
    pub token: bool,
    /// Names beside the address.
    pub hosts: Vec<String>,
    /// Web pages that may come.
    pub origins: Vec<String>,
    /// Who says who may come, in place of a token.
    pub provider: Option<Provider>,
}

/// An identity provider, and what its tokens are held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its issuer identifier.
    pub issuer: String,
    /// The address that clients know the server by.
    pub resource: Option<String>,
    /// What tokens may say that they are for.
    pub audiences: Vec<String>,
    /// What every token has.
    pub scopes: Vec<String>,
}

impl RawServe {
    pub(super) fn typed(self) -> ServeWish {
        let (resource, audiences, scopes) = (self.resource, self.audiences, self.scopes);
        let provider = self.issuer.map(|issuer| Provider {
            issuer,
            resource,
            audiences,
            scopes,
        });
        match self.http {
            None => ServeWish::Stdio,
            Some(address) => ServeWish::Http(HttpWish {
                address,
                token: self.token,
                hosts: self.hosts,
                origins: self.origins,
                provider,
            }),
        }
    }
}

/// `8808` and `localhost:8808` are of this machine alone; anything else is an address and a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "use a port, or an address and a port: 8808, 127.0.0.1:8808, [::1]:8808".to_owned()
    })
}

fn scope(text: &str) -> Result<String, String> {
    match mimir_core::config::is_scope(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("a scope is one word of printable ASCII without quotes and backslashes".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        for same in ["80", "localhost:80", "127.0.0.1:80"] {
            assert_eq!(address(same), Ok(local), "{same}");
        }
        assert!(address("[::1]:80").unwrap().ip().is_loopback());
        for bad in ["", "x", "example.com:80", "127.0.0.1", "99999", "::1:80:x"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
