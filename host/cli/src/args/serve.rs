//! Arguments of `mimir serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use mimir_core::config::McpOauthSettings;

use super::ReplicaArgs;
use crate::log_output::LogFormat;

/// Arguments of `mimir serve`.
#[derive(Debug, Default, PartialEq, Args)]
pub struct ServeArgs {
    /// Serve MCP over HTTP at /mcp on this address instead: PORT (this machine only), or IP:PORT
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Serve only the tools of the components in this folder, such as that of an exported bundle
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tools_from: Option<PathBuf>,
    /// Serve the console at /console/, too: for people of the issuer with a role, or on this machine with a one-time link
    #[arg(long, requires = "http")]
    pub console: bool,
    /// Format of messages on stderr [default: text, or json with MIMIR_LOG_FORMAT=json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Require a bearer token on loopback addresses, too; on other addresses it is always required
    #[arg(long, requires = "http", conflicts_with = "issuer")]
    pub token: bool,
    /// A host name that the server accepts, in addition to the address
    #[arg(long = "host", value_name = "NAME", requires = "http")]
    pub hosts: Vec<String>,
    /// Web origin that may connect: scheme://host:port
    #[arg(long = "origin", value_name = "URL", requires = "http")]
    pub origins: Vec<String>,
    /// Issuer identifier of the identity provider whose tokens are accepted, instead of one fixed token
    #[arg(long, value_name = "URL", requires = "http")]
    pub issuer: Option<String>,
    /// Public address of this server, which tokens must be issued for [default: the listening address]
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub resource: Option<String>,
    /// Audience that tokens must name, if it is not the resource
    #[arg(long = "audience", value_name = "NAME", requires = "issuer")]
    pub audiences: Vec<String>,
    /// Claim of a token with the groups of its user, for `roles` in the settings: a name, or a path such as realm_access.roles
    #[arg(
        long,
        value_name = "NAME",
        requires = "issuer",
        default_value = "groups"
    )]
    pub groups_claim: String,
    /// ID of the client that is registered at the identity provider for logins of users in a browser [default: mimir registers one]
    #[arg(long, value_name = "ID", requires = "issuer")]
    pub client_id: Option<String>,
    /// Secret of that client, as ${NAME}: the secret of that name
    #[arg(long, value_name = "${NAME}", requires = "client_id", value_parser = secret_reference)]
    pub client_secret: Option<String>,
    /// A scope that every token must have
    #[arg(long = "scope", value_name = "SCOPE", requires = "issuer", value_parser = scope)]
    pub scopes: Vec<String>,
    #[command(flatten, next_help_heading = "Cluster")]
    pub replica: ReplicaArgs,
}

/// Parses a reference to a stored secret. A secret itself would be visible in the list of processes.
fn secret_reference(text: &str) -> Result<String, String> {
    let settings = McpOauthSettings {
        client_secret: Some(text.to_owned()),
        ..McpOauthSettings::default()
    };
    match settings.secret_name() {
        Some(_) => Ok(text.to_owned()),
        None => {
            Err("store the secret with `mimir secrets set NAME`, and name it as ${NAME}".to_owned())
        }
    }
}

/// Parses an address. `8808` and `localhost:8808` mean the loopback address; anything else is an IP address and a
/// port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "expected a port, or an IP address and a port: 8808, 127.0.0.1:8808, [::1]:8808".to_owned()
    })
}

fn scope(text: &str) -> Result<String, String> {
    if mimir_core::config::is_scope(text) {
        Ok(text.to_owned())
    } else {
        Err("expected one word of printable ASCII without quotes and backslashes".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serve_address_with_only_a_port_is_localhost() {
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
