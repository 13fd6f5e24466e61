//! Errors of requests: each cause has its own code and a one-sentence message with a remedy.

use std::time::Duration;

use mimir_core::network::{NetworkRefusal, UrlError};
use mimir_core::{ToolError, ToolErrorCode};

/// A request that was not sent or not answered. A response with an error status is not an error.
///
/// No message contains a header, a path or a query: they may carry secrets.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not valid or not supported.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// The method opens a tunnel or echoes the request.
    #[error("the method {0} is not allowed; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method(String),
    /// The header is controlled by the connection.
    #[error("the header `{0}` is set by the host; leave it out")]
    ForbiddenHeader(String),
    /// The header cannot be sent.
    #[error(
        "the header `{0}` is not valid: use letters, digits and dashes in a name, and no line breaks in a value"
    )]
    InvalidHeader(String),
    /// The request is inconsistent in another way.
    #[error("the request is not valid: {0}")]
    InvalidRequest(String),
    /// The policy refuses the request.
    #[error("{0}")]
    Blocked(NetworkRefusal),
    /// The name resolves to an address that the policy refuses.
    #[error("{0}")]
    BlockedAddress(NetworkRefusal),
    /// The authorizer refuses the request.
    #[error("{}", .0.message)]
    Denied(ToolError),
    /// The name cannot be resolved.
    #[error("the name `{host}` could not be resolved ({why}); check its spelling and the network")]
    Dns {
        /// The name.
        host: String,
        /// The resolver's message.
        why: String,
    },
    /// Nothing listens on the port.
    #[error("{origin} refused the connection; check the port, and that the server is running")]
    Refused {
        /// The target.
        origin: String,
    },
    /// The target is unreachable, or the connection failed for another reason.
    #[error("{origin} could not be reached ({why}); check the network")]
    Unreachable {
        /// The target.
        origin: String,
        /// The system's message.
        why: String,
    },
    /// The certificate is not trusted, not valid or expired.
    #[error("the certificate of `{host}` is not trusted: {why}")]
    Certificate {
        /// The host that presented the certificate.
        host: String,
        /// The problem, and a remedy.
        why: String,
    },
    /// The certificate is for another name.
    #[error(
        "the certificate presented by `{host}` is for another name; check the URL: this may be another server"
    )]
    CertificateName {
        /// The expected host.
        host: String,
    },
    /// The TLS handshake failed for another reason.
    #[error("the TLS connection to `{host}` failed ({why}); check that the port speaks TLS")]
    Tls {
        /// The host.
        host: String,
        /// The cause.
        why: String,
    },
    /// A certificate file cannot be used.
    #[error("`network.extraRoots`: {path} {why}")]
    Roots {
        /// The file.
        path: String,
        /// The fault.
        why: String,
    },
    /// A time limit was exceeded.
    #[error("{stage} took longer than {after:?}; try again later, or raise the limit")]
    Timeout {
        /// The stage that exceeded the limit.
        stage: RequestStage,
        /// The limit.
        after: Duration,
    },
    /// A size limit was exceeded.
    #[error("{part} is larger than {limit} bytes; ask for less, or raise the limit")]
    TooLarge {
        /// The part that is too large.
        part: OversizedPart,
        /// The limit.
        limit: u64,
    },
    /// The response head exceeds the limits.
    #[error(
        "the head of the response has more than {bytes} bytes or {headers} headers, which is not supported; use another server"
    )]
    Head {
        /// The limit in bytes.
        bytes: u64,
        /// The limit for the number of headers.
        headers: usize,
    },
    /// The response decompresses to far more data than was received.
    #[error(
        "the response decompresses to more than {ratio} times its size, which suggests an attack; ask for it uncompressed"
    )]
    Bomb {
        /// The limit.
        ratio: u64,
    },
    /// Too many concurrent requests.
    #[error(
        "more than {0} requests are open at the same time; finish some before sending the next"
    )]
    TooMany(usize),
    /// Too many redirects.
    #[error("the server redirected more than {0} times; fetch the last address directly")]
    TooManyRedirects(usize),
    /// The redirect cannot be followed.
    #[error("the redirect of the server cannot be followed: {0}")]
    Redirect(String),
    /// The redirect leads from https to http.
    #[error(
        "the server redirected from https to http, which would send the request unencrypted; fetch it by https"
    )]
    Downgrade,
    /// The URL of the redirect contains a secret.
    #[error(
        "the server redirected to a URL that contains a secret sent to it; the redirect is not followed"
    )]
    SecretInRedirect,
    /// The tunnel would carry something other than TLS, which could not be checked.
    #[error(
        "a tunnel to `{0}` may only carry TLS, since unencrypted requests are checked by method and path; send the request \
         to the proxy directly, without CONNECT"
    )]
    ClearTunnel(String),
    /// The TLS connection in a tunnel asks for another host than that of the tunnel, or for none.
    #[error(
        "the tunnel to `{host}` was closed: its TLS connection asks for {requested}; open a separate tunnel for each host"
    )]
    TunnelName {
        /// The host of the tunnel.
        host: String,
        /// The requested name, for the message.
        requested: String,
    },
    /// The data in a tunnel is not TLS.
    #[error("the tunnel to `{host}` was closed: {why}; a tunnel may only carry TLS")]
    NotTls {
        /// The host of the tunnel.
        host: String,
        /// The problem with the data.
        why: &'static str,
    },
    /// The response has an unknown coding or invalid compressed data.
    #[error("the response cannot be decompressed ({0}); ask for it uncompressed")]
    Encoding(String),
    /// The response is not HTTP, or the connection broke before the end of the response.
    #[error(
        "the server's response is not valid HTTP ({0}); try again, or check which server listens there"
    )]
    Protocol(String),
}

/// Stage of a request with its own time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStage {
    /// Looking up the name.
    Dns,
    /// Connecting.
    Connect,
    /// TLS handshake.
    Tls,
    /// Waiting for status and headers.
    Headers,
    /// Waiting for the next part of the body.
    Body,
    /// The whole request.
    Whole,
}

impl std::fmt::Display for RequestStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dns => "resolving the name",
            Self::Connect => "connecting to the server",
            Self::Tls => "the TLS handshake",
            Self::Headers => "waiting for the response of the server",
            Self::Body => "waiting for more of the response",
            Self::Whole => "the whole request",
        })
    }
}

/// Part of an exchange that has a size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OversizedPart {
    /// All headers of the request together.
    RequestHeaders,
    /// The body of the request.
    RequestBody,
    /// The body of the response, as received.
    ResponseBody,
    /// The body of the response, decompressed.
    DecompressedResponse,
    /// The trailers and chunk extensions of the response.
    ResponseFraming,
    /// The data that a program sends through a tunnel.
    TunnelUpload,
    /// The data that a program receives through a tunnel.
    TunnelDownload,
}

impl std::fmt::Display for OversizedPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RequestHeaders => "the header section of the request",
            Self::RequestBody => "the body of the request",
            Self::ResponseBody => "the body of the response",
            Self::DecompressedResponse => "the decompressed response",
            Self::ResponseFraming => "the framing of the response (trailers and chunk extensions)",
            Self::TunnelUpload => "the data sent through a tunnel",
            Self::TunnelDownload => "the data received through a tunnel",
        })
    }
}

impl Error {
    /// Returns the stable name of the cause. Names are more specific than [`Self::code`].
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Url(error) => error.kind(),
            Self::Method(_) => "forbidden-method",
            Self::ForbiddenHeader(_) => "forbidden-header",
            Self::InvalidHeader(_) => "invalid-header",
            Self::InvalidRequest(_) => "invalid-request",
            Self::Blocked(_) => "blocked",
            Self::BlockedAddress(_) => "blocked-address",
            Self::Denied(_) => "denied",
            Self::Dns { .. } => "dns-failed",
            Self::Refused { .. } => "connection-refused",
            Self::Unreachable { .. } => "unreachable",
            Self::Certificate { .. } => "tls-certificate",
            Self::CertificateName { .. } => "tls-name",
            Self::Tls { .. } => "tls-failed",
            Self::Roots { .. } => "extra-roots",
            Self::Timeout { stage, .. } => match stage {
                RequestStage::Dns => "timeout-dns",
                RequestStage::Connect => "timeout-connect",
                RequestStage::Tls => "timeout-tls",
                RequestStage::Headers => "timeout-headers",
                RequestStage::Body => "timeout-body",
                RequestStage::Whole => "timeout-whole",
            },
            Self::TooLarge { .. } | Self::Head { .. } => "too-large",
            Self::Bomb { .. } => "decompression-bomb",
            Self::TooMany(_) => "too-many-requests",
            Self::TooManyRedirects(_) => "too-many-redirects",
            Self::Redirect(_) => "invalid-redirect",
            Self::Downgrade => "downgrade",
            Self::SecretInRedirect => "secret-in-redirect",
            Self::ClearTunnel(_) => "clear-tunnel",
            Self::TunnelName { .. } => "tunnel-name",
            Self::NotTls { .. } => "tunnel-not-tls",
            Self::Encoding(_) => "invalid-encoding",
            Self::Protocol(_) => "protocol-error",
        }
    }

    /// Returns the error code of the failed tool call.
    pub const fn code(&self) -> ToolErrorCode {
        match self {
            Self::Url(_)
            | Self::Method(_)
            | Self::ForbiddenHeader(_)
            | Self::InvalidHeader(_)
            | Self::InvalidRequest(_) => ToolErrorCode::InvalidInput,
            // The caller cannot change the settings.
            Self::Roots { .. } => ToolErrorCode::Unavailable,
            Self::Blocked(_)
            | Self::BlockedAddress(_)
            | Self::Downgrade
            | Self::SecretInRedirect
            | Self::ClearTunnel(_)
            | Self::TunnelName { .. }
            | Self::NotTls { .. } => ToolErrorCode::PolicyDenied,
            Self::Denied(error) => error.code,
            Self::Timeout { .. } => ToolErrorCode::Timeout,
            Self::TooLarge { .. }
            | Self::Head { .. }
            | Self::Bomb { .. }
            | Self::TooMany(_)
            | Self::TooManyRedirects(_) => ToolErrorCode::LimitExceeded,
            Self::Dns { .. }
            | Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::CertificateName { .. }
            | Self::Tls { .. }
            | Self::Redirect(_)
            | Self::Encoding(_)
            | Self::Protocol(_) => ToolErrorCode::Network,
        }
    }

    /// Returns this crate's error from inside the errors that hyper wraps around it.
    pub(crate) fn find_source(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(own_error) = error.downcast_ref::<Self>() {
                return Some(own_error.clone());
            }
            next = error.source();
        }
        None
    }
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        if let Error::Denied(denied) = error {
            return denied;
        }
        let mut details = serde_json::json!({ "kind": error.kind() });
        if let Error::Blocked(refusal) | Error::BlockedAddress(refusal) = &error {
            details["rule"] = refusal.rule.clone().into();
        }
        Self::new(error.code(), mimir_core::text::visible(&error.to_string())).with_details(details)
    }
}
