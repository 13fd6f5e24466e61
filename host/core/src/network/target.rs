//! Targets of requests: parsed and normalized URLs.

use std::fmt;

use url::Url;

use super::host::{HostParseError, NetworkHost};

/// The scheme of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrlScheme {
    /// Unencrypted.
    Http,
    /// Over TLS.
    Https,
}

impl UrlScheme {
    /// Returns the spelling in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }
}

/// Scheme, host and port of a URL. Credentials are bound to an origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UrlOrigin {
    /// The scheme.
    pub scheme: UrlScheme,
    /// The host.
    pub host: NetworkHost,
    /// The port.
    pub port: u16,
}

impl fmt::Display for UrlOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

/// Reason why a text is not a valid URL of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A relative URL.
    #[error("the URL is not absolute; begin it with https://")]
    Relative,
    /// An unsupported scheme.
    #[error("`{0}` URLs cannot be requested; use http or https")]
    Scheme(String),
    /// A user name or password in the URL.
    #[error("the URL has a user name or password before its host; put credentials into a header")]
    Userinfo,
    /// Characters that URL parsers treat differently.
    #[error(
        "the URL has a backslash, a control character or a space; remove or percent-encode it (%20)"
    )]
    Ambiguous,
    /// An invalid host.
    #[error("the host of the URL is not valid: {0}")]
    Host(#[from] HostParseError),
    /// Any other error of the URL parser.
    #[error("the URL is not valid: {0}")]
    Invalid(String),
    /// Longer than servers accept.
    #[error("the URL is longer than {URL_MAX} characters; send the data in the body")]
    Long,
}

impl UrlError {
    /// Returns the stable name of the error.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Scheme(_) => "unsupported-scheme",
            Self::Userinfo => "url-credentials",
            Self::Relative | Self::Ambiguous | Self::Host(_) | Self::Invalid(_) | Self::Long => {
                "invalid-url"
            }
        }
    }
}

/// Maximum length of a URL in bytes. Servers accept request lines of about 8 KB.
const URL_MAX: usize = 8 << 10;

/// The target of a request. It can only be created from text that every URL parser understands in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTarget {
    url: Url,
    origin: UrlOrigin,
}

impl RequestTarget {
    /// Parses an absolute `http` or `https` URL.
    ///
    /// ```
    /// use mimir_core::network::{RequestTarget, UrlError};
    ///
    /// let target = RequestTarget::parse("HTTP://0x7F.1:8080/a/../b#c")?;
    /// assert_eq!(target.to_string(), "http://127.0.0.1:8080/b");
    /// assert_eq!(RequestTarget::parse("https://safe.example@evil.example/"), Err(UrlError::Userinfo));
    /// # Ok::<(), UrlError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        // Only `join` accepts spaces, because servers send them in redirects.
        if text.contains(' ') {
            return Err(UrlError::Ambiguous);
        }
        reject_ambiguous(text)?;
        Self::from_url(Url::parse(text).map_err(parse_error)?)
    }

    /// Parses a URL that may be relative to this one, such as the `Location` of a redirect.
    pub fn join(&self, text: &str) -> Result<Self, UrlError> {
        reject_ambiguous(text)?;
        Self::from_url(self.url.join(text).map_err(parse_error)?)
    }

    fn from_url(mut url: Url) -> Result<Self, UrlError> {
        let Some(scheme) = UrlScheme::parse(url.scheme()) else {
            return Err(UrlError::Scheme(crate::text::visible(url.scheme())));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Userinfo);
        }
        let host = match url.host() {
            Some(host) => NetworkHost::from_url_host(&host)?,
            None => return Err(UrlError::Host(HostParseError::Invalid)),
        };
        if let NetworkHost::Name(name) = &host
            && url.host_str() != Some(name)
        {
            // Removes the trailing dot, which neither `NetworkHost` nor TLS has in names.
            url.set_host(Some(name)).map_err(parse_error)?;
        }
        url.set_fragment(None);
        if url.as_str().len() > URL_MAX {
            return Err(UrlError::Long);
        }
        let port = url.port().unwrap_or(scheme.default_port());
        if port == 0 {
            let why = "port 0 is not a valid port; name the port of the server";
            return Err(UrlError::Invalid(why.to_owned()));
        }
        let origin = UrlOrigin { scheme, host, port };
        Ok(Self { url, origin })
    }

    /// Returns the normalized URL without a fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns scheme, host and port.
    pub fn origin(&self) -> &UrlOrigin {
        &self.origin
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> UrlScheme {
        self.origin.scheme
    }

    /// Returns the host.
    pub fn host(&self) -> &NetworkHost {
        &self.origin.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.origin.port
    }
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Rejects text that browsers repair silently, because other URL parsers understand it differently.
fn reject_ambiguous(text: &str) -> Result<(), UrlError> {
    if text.len() > URL_MAX {
        return Err(UrlError::Long);
    }
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let has_control = text.bytes().any(|byte| byte.is_ascii_control());
    if has_control || path.contains('\\') || text.starts_with(' ') || text.ends_with(' ') {
        return Err(UrlError::Ambiguous);
    }
    Ok(())
}

fn parse_error(error: url::ParseError) -> UrlError {
    match error {
        url::ParseError::RelativeUrlWithoutBase => UrlError::Relative,
        url::ParseError::EmptyHost
        | url::ParseError::IdnaError
        | url::ParseError::InvalidIpv4Address
        | url::ParseError::InvalidIpv6Address
        | url::ParseError::InvalidDomainCharacter => UrlError::Host(HostParseError::Invalid),
        other => UrlError::Invalid(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_target_normalizes_a_url() {
        for (text, same) in [
            ("https://Example.COM.", "https://example.com/"),
            (
                "https://example.com:443/a%20b?c%20d#e",
                "https://example.com/a%20b?c%20d",
            ),
            ("http:example.com", "http://example.com/"),
            ("http://example.com:080/", "http://example.com/"),
            ("http://[::FFFF:10.0.0.1]/", "http://[::ffff:a00:1]/"),
            ("http://@example.com/", "http://example.com/"),
            (
                "http://example.com?http://evil.example/",
                "http://example.com/?http://evil.example/",
            ),
            ("http://example.com#@evil.example/", "http://example.com/"),
            ("http://example.com/?a\\b", "http://example.com/?a\\b"),
        ] {
            assert_eq!(
                RequestTarget::parse(text).map(|t| t.to_string()).as_deref(),
                Ok(same),
                "{text}"
            );
        }
        let mapped = RequestTarget::parse("http://[::ffff:10.0.0.1]/").unwrap();
        assert_eq!(mapped.host().to_string(), "10.0.0.1");
    }

    #[test]
    fn request_target_rejects_ambiguous_urls() {
        for text in [
            "http://example.com\\@evil.example/",
            "http:\\\\evil.example\\",
            "http://example.com/a\\b",
            "http://exam\nple.com/",
            "http://example.com/\r\nHost: evil.example",
            "\thttp://example.com/",
            " http://example.com/",
            "http://example.com/ ",
            "http://example.com/a b",
            "http://example.com/?a b",
        ] {
            assert_eq!(
                RequestTarget::parse(text),
                Err(UrlError::Ambiguous),
                "{text}"
            );
        }
        for text in [
            "http://a@b/",
            "http://a:b@c/",
            "http://:b@c/",
            "http://example.com%40@evil.example/",
        ] {
            assert_eq!(
                RequestTarget::parse(text),
                Err(UrlError::Userinfo),
                "{text}"
            );
        }
        for text in [
            "file:///etc/passwd",
            "ftp://a/",
            "gopher://a/",
            "javascript:1",
            "data:,x",
            "ws://a/",
            "unix:/x",
        ] {
            assert!(
                matches!(RequestTarget::parse(text), Err(UrlError::Scheme(_))),
                "{text}"
            );
        }
        for text in ["example.com", "/path", "//example.com/", ""] {
            assert_eq!(
                RequestTarget::parse(text),
                Err(UrlError::Relative),
                "{text}"
            );
        }
        for text in [
            "http://",
            "http:///",
            "http://a..b/",
            "http://1.2.3.256/",
            "http://[::1/",
            "http://a%00b/",
            "http://[fe80::1%25eth0]/",
            "http://${AWS_LAMBDA_RUNTIME_API}/",
            "http://a;b/",
            "http://example.com:0/",
        ] {
            assert!(
                matches!(
                    RequestTarget::parse(text),
                    Err(UrlError::Host(_) | UrlError::Invalid(_))
                ),
                "{text}"
            );
        }
        assert!(matches!(
            RequestTarget::parse("http://a:65536/"),
            Err(UrlError::Invalid(_))
        ));
        assert_eq!(
            RequestTarget::parse(&format!("http://a/{}", "x".repeat(URL_MAX))),
            Err(UrlError::Long)
        );
    }

    #[test]
    fn request_target_join_is_strict_about_redirects() {
        let base = RequestTarget::parse("https://example.com/a/b").unwrap();
        assert_eq!(
            base.join("c d").unwrap().to_string(),
            "https://example.com/a/c%20d"
        );
        assert_eq!(
            base.join("../c").unwrap().to_string(),
            "https://example.com/c"
        );
        assert_eq!(
            base.join("//other.example").unwrap().host().to_string(),
            "other.example"
        );
        assert_eq!(base.join("\\\\evil.example"), Err(UrlError::Ambiguous));
        assert_eq!(base.join("//u:p@other.example"), Err(UrlError::Userinfo));
    }
}
