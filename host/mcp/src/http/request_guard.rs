//! Access checks of the server over HTTP.

use ::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::uri::Authority;
use ::http::{HeaderMap, Request, StatusCode};
use subtle::ConstantTimeEq as _;

use super::{HttpOptions, Principal};

/// Names of the loopback interface.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Checks the headers of requests.
pub(super) struct RequestGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: Option<String>,
    /// Principal of all accepted requests.
    principal: Principal,
}

/// Reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpRefusal {
    /// The `Host` header is not a name of this server.
    Host,
    /// The request has several `Host` headers, of which a proxy might use another one.
    Hosts,
    /// The request comes from a web page whose origin is not allowed.
    Origin,
    /// The token is missing or wrong.
    Token,
    /// The session does not exist, or belongs to another principal.
    NoSession,
    /// Too many concurrent calls.
    Busy,
    /// Too many sessions, none of which is idle.
    Full,
    /// The state that the replicas share cannot be reached.
    NoState,
    /// The session of another replica cannot be continued here now.
    NotContinued,
    /// The server is about to end.
    Ending,
}

impl HttpRefusal {
    /// Returns the status of the response.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            HttpRefusal::Host | HttpRefusal::Origin => StatusCode::FORBIDDEN,
            HttpRefusal::Hosts => StatusCode::BAD_REQUEST,
            HttpRefusal::Token => StatusCode::UNAUTHORIZED,
            HttpRefusal::NoSession => StatusCode::NOT_FOUND,
            HttpRefusal::Busy
            | HttpRefusal::Full
            | HttpRefusal::NoState
            | HttpRefusal::NotContinued
            | HttpRefusal::Ending => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the body of the response, with a line end.
    pub(super) const fn message(self) -> &'static str {
        match self {
            HttpRefusal::Host => {
                "the Host header is not a name of this server: allow it with `mimir serve --host NAME`\n"
            }
            HttpRefusal::Hosts => "the request must have exactly one Host header\n",
            HttpRefusal::Origin => {
                "this page's origin is not allowed: allow it with `mimir serve --origin URL`\n"
            }
            HttpRefusal::Token => {
                "a bearer token is required: `mimir serve` prints the file that contains it\n"
            }
            HttpRefusal::NoSession => "session not found\n",
            HttpRefusal::Busy => "too many concurrent calls: try again when some have ended\n",
            HttpRefusal::NoState => {
                "the state that the servers share cannot be reached: try again later\n"
            }
            HttpRefusal::NotContinued => {
                "this server cannot continue the session at the moment: send the request again\n"
            }
            HttpRefusal::Ending => "this server is about to end: send the request again\n",
            HttpRefusal::Full => {
                "too many sessions, and none of them is idle: end an unused session (DELETE /mcp with its mcp-session-id), or try again later\n"
            }
        }
    }

    /// Returns an additional header of the response, if the refusal needs one.
    pub(super) const fn header(self) -> Option<(HeaderName, &'static str)> {
        match self {
            HttpRefusal::Token => Some((WWW_AUTHENTICATE, "Bearer realm=\"mimir\"")),
            HttpRefusal::Busy
            | HttpRefusal::Full
            | HttpRefusal::NoState
            | HttpRefusal::NotContinued
            | HttpRefusal::Ending => Some((RETRY_AFTER, "1")),
            HttpRefusal::Host
            | HttpRefusal::Hosts
            | HttpRefusal::Origin
            | HttpRefusal::NoSession => None,
        }
    }
}

impl RequestGuard {
    pub(super) fn new(options: &HttpOptions) -> Self {
        let loopback = LOOPBACK_NAMES.iter().map(|name| (*name).to_owned());
        let hosts = options.hosts.iter().map(|host| host.to_ascii_lowercase());
        let id = options.replicas.as_ref().map_or_else(
            || {
                format!(
                    "http-{}",
                    crate::elicitation::random_token().unwrap_or_default()
                )
            },
            |replicas| replicas.principal_id(),
        );
        Self {
            hosts: loopback.chain(hosts).collect(),
            origins: options.origins.clone(),
            token: options.token.clone(),
            principal: Principal {
                id,
                user: None,
                role: None,
            },
        }
    }

    /// Returns the accepted names of this server, without ports.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Checks that a request is addressed to this server and comes from an allowed origin.
    pub(super) fn check_address<B>(&self, request: &Request<B>) -> Result<(), HttpRefusal> {
        let headers = request.headers();
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(HttpRefusal::Hosts);
        }
        let authority = request.uri().authority().cloned().or_else(|| {
            let host = headers.get(HOST)?.to_str().ok()?;
            host.parse::<Authority>().ok()
        });
        let authority = authority.ok_or(HttpRefusal::Host)?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        if !self
            .hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(host))
        {
            return Err(HttpRefusal::Host);
        }
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let origin = origin.to_str().map_err(|_| HttpRefusal::Origin)?;
        let is_allowed = self.origins.iter().any(|known| known == origin);
        // The server's own origin: no other page has this host and port.
        let host_and_port = origin
            .split_once("://")
            .map(|(_, host_and_port)| host_and_port);
        let is_own = host_and_port
            .is_some_and(|host_and_port| host_and_port.eq_ignore_ascii_case(authority.as_str()));
        if is_allowed || is_own {
            Ok(())
        } else {
            Err(HttpRefusal::Origin)
        }
    }

    /// Returns the principal of a request with a valid token.
    pub(super) fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, HttpRefusal> {
        let Some(token) = &self.token else {
            return Ok(self.principal.clone());
        };
        let value = headers
            .get(AUTHORIZATION)
            .map(::http::HeaderValue::as_bytes);
        let value = value.and_then(|value| {
            let (scheme, value) = value.split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(value)
        });
        match value {
            Some(value) if bool::from(value.trim_ascii().ct_eq(token.as_bytes())) => {
                Ok(self.principal.clone())
            }
            _ => Err(HttpRefusal::Token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> RequestGuard {
        RequestGuard::new(&HttpOptions {
            hosts: vec!["Tools.example".into()],
            origins: vec!["https://app.example:443".into()],
            token: Some("secret".into()),
            ..HttpOptions::default()
        })
    }

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap_or_default()
    }

    #[test]
    fn guard_checks_the_host_header() {
        for good in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:8808",
            "[::1]:1",
            "tools.example",
        ] {
            assert_eq!(
                guard().check_address(&request(&[("host", good)])),
                Ok(()),
                "{good}"
            );
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.2",
            "",
            "a b",
            "::1",
        ] {
            let refused = guard().check_address(&request(&[("host", bad)]));
            assert_eq!(refused, Err(HttpRefusal::Host), "{bad}");
        }
        assert_eq!(guard().check_address(&request(&[])), Err(HttpRefusal::Host));
        let two = request(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(guard().check_address(&two), Err(HttpRefusal::Hosts));
    }

    #[test]
    fn guard_checks_the_origin_header() {
        let from = |origin| request(&[("host", "localhost"), ("origin", origin)]);
        assert_eq!(
            guard().check_address(&from("https://app.example:443")),
            Ok(())
        );
        // The server's own origin, on its own port only.
        let own = |origin| request(&[("host", "127.0.0.1:8808"), ("origin", origin)]);
        assert_eq!(guard().check_address(&own("http://127.0.0.1:8808")), Ok(()));
        for other in [
            "http://127.0.0.1:8809",
            "http://127.0.0.1",
            "http://localhost:8808",
        ] {
            assert_eq!(
                guard().check_address(&own(other)),
                Err(HttpRefusal::Origin),
                "{other}"
            );
        }
        for bad in [
            "https://app.example",
            "http://localhost:1",
            "null",
            "",
            "https://evil.example",
        ] {
            assert_eq!(
                guard().check_address(&from(bad)),
                Err(HttpRefusal::Origin),
                "{bad}"
            );
        }
    }

    #[test]
    fn guard_accepts_the_exact_token_only() {
        let authenticate =
            |value: &str| guard().authenticate(request(&[("authorization", value)]).headers());
        for good in ["Bearer secret", "bearer secret", "BEARER  secret "] {
            assert!(authenticate(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            "Bearer SECRET",
            "Basic secret",
        ] {
            assert_eq!(authenticate(bad), Err(HttpRefusal::Token), "{bad}");
        }
        assert_eq!(
            guard().authenticate(&HeaderMap::new()),
            Err(HttpRefusal::Token)
        );
    }
}
