//! Addresses under which the console is reached, and the checks that a request comes from its own page.
//!
//! A page of a stranger can make a browser send requests here: with a name that it points to this machine (DNS
//! rebinding), or from its own origin. The first has another `Host`, the second another `Origin`.

use std::net::SocketAddr;

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Uri};

use crate::response::ConsoleRequestError;

/// Header that the page sends with each change. Other origins can send it only after a preflight request, which is never
/// answered.
const OWN_HEADER: HeaderName = HeaderName::from_static("x-mimir-console");

/// Header in which a browser tells where a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The addresses of a listener.
#[derive(Debug, Clone)]
pub(crate) struct AddressCheck {
    /// Accepted values of `Host`, in lower case, with the port unless it is the scheme's own.
    hosts: Vec<String>,
    /// Accepted names of `Host` with any port, for reverse proxies that pass on a name of their own.
    names: Vec<String>,
    /// Accepted values of `Origin`.
    origins: Vec<String>,
}

impl AddressCheck {
    /// Accepts the names of this machine with a port.
    pub(crate) fn loopback(port: u16) -> Self {
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| host_of(host, port, 80));
        Self {
            origins: hosts.iter().map(|host| format!("http://{host}")).collect(),
            hosts: hosts.to_vec(),
            names: Vec::new(),
        }
    }

    /// Accepts an address, and no names.
    pub(crate) fn address(address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let host = host_of(&host, address.port(), 80);
        Self {
            origins: vec![format!("http://{host}")],
            hosts: vec![host],
            names: Vec::new(),
        }
    }

    /// Accepts the host of a public origin, such as `https://mimir.example.com`, and further names.
    pub(crate) fn public(origin: &str, names: &[String]) -> Self {
        let origin = origin.trim_end_matches('/').to_ascii_lowercase();
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        Self {
            hosts: vec![host.to_owned()],
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            origins: vec![origin],
        }
    }

    /// Checks that a request was sent to this server by name or address.
    pub(crate) fn check_host(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), ConsoleRequestError> {
        let refusal = || {
            ConsoleRequestError::forbidden(
                "the Host header does not name this console: open it at the address that mimir printed",
            )
        };
        let mut values = headers.get_all(HOST).iter();
        let host = values.next().and_then(|host| host.to_str().ok());
        let host = host
            .filter(|_| values.next().is_none())
            .ok_or_else(refusal)?;
        let is_own = |host: &str| {
            let host = host.to_ascii_lowercase();
            self.hosts.contains(&host) || self.names.iter().any(|name| name == name_of(&host))
        };
        // A request to a proxy has its host in the URI.
        let named = uri.authority().map(|authority| authority.as_str());
        if is_own(host) && named.is_none_or(is_own) {
            Ok(())
        } else {
            Err(refusal())
        }
    }

    /// Checks that a request for data comes from the page itself, as far as the browser tells.
    pub(crate) fn check_reader(&self, headers: &HeaderMap) -> Result<(), ConsoleRequestError> {
        let site = single_text(headers, &FETCH_SITE)?;
        let has_own_site = matches!(site, None | Some("same-origin" | "none"));
        let origin = single_text(headers, &ORIGIN)?;
        let has_own_origin = origin.is_none_or(|origin| self.is_own_origin(origin));
        if has_own_site && has_own_origin {
            Ok(())
        } else {
            Err(ConsoleRequestError::forbidden(
                "only the console's own page may read this",
            ))
        }
    }

    /// Checks that a request that changes something comes from the page itself.
    pub(crate) fn check_writer(&self, headers: &HeaderMap) -> Result<(), ConsoleRequestError> {
        self.check_reader(headers)?;
        if !single_text(headers, &ORIGIN)?.is_some_and(|origin| self.is_own_origin(origin)) {
            return Err(ConsoleRequestError::forbidden(
                "the Origin header must be the address of the console",
            ));
        }
        if single_text(headers, &OWN_HEADER)? != Some("1") {
            return Err(ConsoleRequestError::forbidden(
                "the header `X-Mimir-Console: 1` is missing",
            ));
        }
        let kind = single_text(headers, &CONTENT_TYPE)?.unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(ConsoleRequestError::new(
                http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
                mimir_core::ToolErrorCode::InvalidInput,
                "the content type must be application/json",
            ));
        }
        Ok(())
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|own| own == origin)
    }
}

/// Returns the only value of a header. Several values are ambiguous.
fn single_text<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, ConsoleRequestError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    let value = value.map(|value| value.to_str()).transpose();
    match (value, values.next()) {
        (Ok(value), None) => Ok(value),
        _ => Err(ConsoleRequestError::bad_request(format!(
            "the header {name} is repeated or not text"
        ))),
    }
}

/// Returns the host of a URL with a port that browsers omit if it is the scheme's own.
fn host_of(host: &str, port: u16, default: u16) -> String {
    if port == default {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn address_check_accepts_own_hosts_only() {
        let local = AddressCheck::loopback(4100);
        let accepts = |check: &AddressCheck, uri: &str, pairs: &[(&'static str, &'static str)]| {
            check
                .check_host(&uri.parse().unwrap(), &headers(pairs))
                .is_ok()
        };
        for host in [
            "127.0.0.1:4100",
            "localhost:4100",
            "LOCALHOST:4100",
            "[::1]:4100",
        ] {
            assert!(accepts(&local, "/", &[("host", host)]), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:4101",
            "evil.example:4100",
            "localhost.evil.example:4100",
            "127.0.0.1:4100.evil.example",
            "",
            "0.0.0.0:4100",
            "127.1:4100",
        ] {
            assert!(!accepts(&local, "/", &[("host", host)]), "{host}");
        }
        assert!(!accepts(&local, "/", &[]));
        let twice = [("host", "localhost:4100"), ("host", "localhost:4100")];
        assert!(!accepts(&local, "/", &twice));
        let own = [("host", "localhost:4100")];
        assert!(accepts(&local, "http://127.0.0.1:4100/", &own));
        assert!(!accepts(&local, "http://evil.example/", &own));
        let public = AddressCheck::public("https://Mimir.example.com", &["inner".to_owned()]);
        for host in ["mimir.example.com", "inner", "inner:8080"] {
            assert!(accepts(&public, "/", &[("host", host)]), "{host}");
        }
        for host in ["mimir.example.com:8443", "inner.evil", "localhost"] {
            assert!(!accepts(&public, "/", &[("host", host)]), "{host}");
        }
    }

    #[test]
    fn address_check_needs_the_own_origin_for_changes() {
        let check = AddressCheck::loopback(4100);
        let good = [
            ("origin", "http://127.0.0.1:4100"),
            ("x-mimir-console", "1"),
            ("content-type", "application/json; charset=utf-8"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(check.check_writer(&headers(&good)).is_ok());
        for (name, value) in [
            ("origin", "http://127.0.0.1:4101"),
            ("origin", "null"),
            ("origin", "https://127.0.0.1:4100"),
            ("x-mimir-console", "0"),
            ("content-type", "text/plain"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let mut other = good.to_vec();
            other.retain(|(known, _)| *known != name);
            assert!(
                name == "sec-fetch-site" || check.check_writer(&headers(&other)).is_err(),
                "{name}"
            );
            other.push((name, value));
            assert!(
                check.check_writer(&headers(&other)).is_err(),
                "{name}: {value}"
            );
        }
    }
}
