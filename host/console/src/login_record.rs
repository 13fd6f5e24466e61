//! Records of logins, for the audit log. They contain no secrets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::HeaderMap;
use http::header::USER_AGENT;
use http::request::Parts;
use mimir_core::ToolErrorCode;
use mimir_core::text::{prefix, visible};

use crate::user::ConsoleRole;

/// Maximum length of the name that a browser gives itself, in characters.
const USER_AGENT_MAX: usize = 120;

/// Header to which reverse proxies append the address of their client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Records the logins at a console.
pub trait ConsoleLoginRecorder: Send + Sync + 'static {
    /// Records a login, or a refused attempt.
    fn record(&self, login: &ConsoleLoginRecord);
}

/// A login, or a refused attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleLoginRecord {
    /// Name of the person. `None` if it is not known.
    pub name: Option<String>,
    /// Kind of the login.
    pub kind: ConsoleLoginKind,
    /// The role of the person, or the reason why they were refused.
    pub outcome: Result<ConsoleRole, ToolErrorCode>,
    /// The client.
    pub client: LoginClient,
}

/// Kind of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleLoginKind {
    /// A browser on this machine has used a one-time link.
    Link,
    /// A person has made a code at the page, with which a device can be paired.
    PairingCode,
    /// A device was paired with such a code.
    Pairing,
    /// A person has logged in at the identity provider.
    Provider,
}

/// The program behind a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginClient {
    /// The address of the connection. That of a reverse proxy, if there is one.
    pub address: Option<IpAddr>,
    /// The address that a reverse proxy names. Any client can send it, too.
    pub forwarded_for: Option<IpAddr>,
    /// The name that the browser gives itself, without control characters and shortened.
    pub user_agent: Option<String>,
}

impl LoginClient {
    /// Returns the client of a request.
    pub(crate) fn of_request(parts: &Parts) -> Self {
        let connection = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Self {
            address: connection.map(|info| client_address(info.0.ip())),
            forwarded_for: forwarded_for(&parts.headers),
            user_agent: parts.headers.get(USER_AGENT).map(|name| {
                let name = String::from_utf8_lossy(name.as_bytes());
                visible(prefix(&name, USER_AGENT_MAX))
            }),
        }
    }
}

/// Returns the last address in the header, which the nearest proxy has added.
fn forwarded_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED_FOR).iter().next_back()?;
    let (_, last) = last
        .to_str()
        .ok()?
        .rsplit_once(',')
        .unwrap_or(("", last.to_str().ok()?));
    last.trim().parse().ok().map(client_address)
}

/// Returns the one form of an address: an IPv4 address that a socket or a proxy for both families writes as an IPv6 one
/// is an IPv4 address again.
pub(crate) fn client_address(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl fmt::Display for ConsoleLoginRecord {
    /// Writes how the person has logged in, from where, and the outcome.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, failed) = match self.kind {
            ConsoleLoginKind::Link => ("opened a one-time link", "a one-time link was refused"),
            ConsoleLoginKind::PairingCode => {
                ("made a code that pairs a phone", "a code was refused")
            }
            ConsoleLoginKind::Pairing => {
                ("paired a phone", "a code that pairs a phone was refused")
            }
            ConsoleLoginKind::Provider => {
                ("logged in", "the login has failed, or has no role here")
            }
        };
        match self.outcome {
            Ok(role) => write!(f, "{done} as {}", role.as_str())?,
            Err(_) => f.write_str(failed)?,
        }
        if let Some(address) = self.client.address {
            write!(f, ", from {address}")?;
        }
        if let Some(address) = self.client.forwarded_for {
            write!(f, ", forwarded for {address}")?;
        }
        if let Some(name) = &self.client.user_agent {
            write!(f, ", with {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn client(headers: &[(&str, &[u8])]) -> LoginClient {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let address: SocketAddr = "[::ffff:192.0.2.7]:4100".parse().unwrap();
        let request = request.extension(ConnectInfo(address)).body(()).unwrap();
        LoginClient::of_request(&request.into_parts().0)
    }

    #[test]
    fn login_record_names_the_client() {
        let evil = [b"Firefox\xe2\x80\xae\x80".as_slice(), &[b'x'; 1000]].concat();
        let forwarded: &[u8] = b"198.51.100.1, 203.0.113.9";
        let client = client(&[("user-agent", &evil), ("x-forwarded-for", forwarded)]);
        assert_eq!(client.address, Some("192.0.2.7".parse().unwrap()));
        assert_eq!(client.forwarded_for, Some("203.0.113.9".parse().unwrap()));
        let record = ConsoleLoginRecord {
            name: Some("ann".to_owned()),
            kind: ConsoleLoginKind::Link,
            outcome: Ok(ConsoleRole::Admin),
            client,
        };
        let text = record.to_string();
        let begin = "opened a one-time link as admin, from 192.0.2.7, forwarded for 203.0.113.9, with Firefox\\u{202e}";
        assert!(text.starts_with(begin) && text.len() < 300, "{text}");
    }

    #[test]
    fn login_record_names_ipv4_addresses_as_such() {
        let client = client(&[("x-forwarded-for", b"::1, ::ffff:203.0.113.9")]);
        assert_eq!(client.forwarded_for, Some("203.0.113.9".parse().unwrap()));
    }

    #[test]
    fn login_record_ignores_addresses_that_are_not_valid() {
        for value in ["", "unknown", "203.0.113.9, _hidden", "203.0.113.9:80"] {
            let client = client(&[("x-forwarded-for", value.as_bytes())]);
            assert_eq!(client.forwarded_for, None, "{value}");
        }
    }
}
