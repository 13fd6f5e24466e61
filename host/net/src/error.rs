//! Why a request failed: a code of its own for each cause, and one sentence that names the way out.

use std::time::Duration;

use mimir_core::network::{Refusal, UrlError};
use mimir_core::{Code, ToolError};

/// Why a request was not sent, or not answered. An answer with an error status is an answer, and no error.
///
/// No text of these holds a header, a path or a query: they may carry secrets.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a URL that a request can be sent to.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// A method that makes a tunnel or an echo.
    #[error(
        "requests with the method {0} are not sent; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
    )]
    Method(String),
    /// A header that is the connection's own.
    #[error("the header `{0}` is the host's to set; leave it out")]
    ForbiddenHeader(String),
    /// A header that cannot be sent.
    #[error(
        "the header `{0}` is not valid; a name has letters, digits and dashes, a value has no line breaks"
    )]
    InvalidHeader(String),
    /// Something else about the request that does not fit together.
    #[error("the request is not valid: {0}")]
    InvalidRequest(String),
    /// The policy does not let it.
    #[error("{0}")]
    Blocked(Refusal),
    /// An address that the name leads to is not one that the policy lets it reach.
    #[error("{0}")]
    BlockedAddress(Refusal),
    /// Whoever was asked said no.
    #[error("{}", .0.message)]
    Denied(ToolError),
    /// The name has no address.
    #[error("the name `{host}` was not found ({why}); check its spelling and the network")]
    Dns {
        /// The name.
        host: String,
        /// What the resolver says.
        why: String,
    },
    /// Nobody listens.
    #[error("{origin} refused the connection; check the port, and that the server is running")]
    Refused {
        /// Where.
        origin: String,
    },
    /// No way there, or the connection could not be made for another reason.
    #[error("{origin} could not be reached ({why}); check the network")]
    Unreachable {
        /// Where.
        origin: String,
        /// What the system says.
        why: String,
    },
    /// A certificate that nobody vouches for, or no longer.
    #[error("the certificate of `{host}` is not trusted: {why}")]
    Certificate {
        /// Whose.
        host: String,
        /// What is wrong with it, and what helps.
        why: String,
    },
    /// A certificate of somebody else.
    #[error(
        "the certificate that `{host}` showed is for another name; check the URL, for this may be another server"
    )]
    CertificateName {
        /// Who was meant.
        host: String,
    },
    /// No secure connection for another reason.
    #[error(
        "no secure connection to `{host}` could be made ({why}); check that the port speaks TLS"
    )]
    Tls {
        /// With whom.
        host: String,
        /// What failed.
        why: String,
    },
    /// A file of certificates that cannot be used.
    #[error("`network.extraRoots`: {path} {why}")]
    Roots {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Too slow.
    #[error("{stage} took longer than {after:?}; try again later, or raise the limit")]
    Timeout {
        /// What took so long.
        stage: Stage,
        /// The limit.
        after: Duration,
    },
    /// Too much of something.
    #[error("{what} is larger than {limit} bytes; ask for less, or raise the limit")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A head that is not read to its end.
    #[error(
        "the head of the answer has more than {bytes} bytes or {headers} headers; nothing can be had from a server that sends so much"
    )]
    Head {
        /// The most bytes.
        bytes: u64,
        /// The most headers.
        headers: usize,
    },
    /// The answer unpacks to far more than was sent.
    #[error(
        "the answer unpacks to more than {ratio} times its size, as only a trap does; ask for it uncompressed"
    )]
    Bomb {
        /// The limit.
        ratio: u64,
    },
    /// More requests at a time than may be open.
    #[error("more than {0} requests are open at a time; finish some before the next")]
    TooMany(usize),
    /// Redirects without an end.
    #[error("the server redirected more than {0} times; fetch the last address by itself")]
    TooManyRedirects(usize),
    /// A redirect that cannot be followed.
    #[error("the server redirected to an address that is not followed: {0}")]
    Redirect(String),
    /// A redirect from TLS to the clear.
    #[error(
        "the server redirected from https to http, which would show the request to everybody; fetch it by https"
    )]
    Downgrade,
    /// A redirect that carries a secret in its URL.
    #[error(
        "the server redirected to an address that holds a secret which was sent to it; it is not followed"
    )]
    SecretInRedirect,
    /// A tunnel for something else than TLS: what is sent in it could not be judged.
    #[error(
        "a tunnel to `{0}` is for TLS alone, since a request in the clear is judged by its method and its path; send it \
         to the proxy as it is, without CONNECT"
    )]
    ClearTunnel(String),
    /// A TLS connection through a tunnel that asks for another host than the tunnel leads to, or for none.
    #[error(
        "the tunnel to `{host}` was closed: its TLS connection asks for {asked}; expected the host of the tunnel. Open a \
         tunnel to the host that is meant"
    )]
    TunnelName {
        /// The host of the tunnel.
        host: String,
        /// The name that the connection asks for.
        asked: String,
    },
    /// Bytes in a tunnel that are not TLS.
    #[error("the tunnel to `{host}` was closed: {why}; a tunnel carries TLS alone")]
    NotTls {
        /// The host of the tunnel.
        host: String,
        /// The fault in the bytes.
        why: &'static str,
    },
    /// An answer in a coding that is not known, or that does not hold what it says.
    #[error("the answer cannot be unpacked ({0}); ask for it uncompressed")]
    Encoding(String),
    /// A response that is not HTTP, or a connection that broke in the middle of one.
    #[error(
        "the server's response is not valid HTTP ({0}); try again, or check which server listens there"
    )]
    Protocol(String),
}

/// What a request was at when its time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking up the name.
    Dns,
    /// Connecting.
    Connect,
    /// Agreeing on a secure connection.
    Tls,
    /// Waiting for status and headers.
    Headers,
    /// Waiting for the next part of the body.
    Body,
    /// All of it together.
    Whole,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dns => "looking up the name",
            Self::Connect => "connecting to the server",
            Self::Tls => "agreeing on a secure connection",
            Self::Headers => "waiting for the server to answer",
            Self::Body => "waiting for more of the answer",
            Self::Whole => "the whole request",
        })
    }
}

impl Error {
    /// The stable name of this cause, finer than [`Self::code`].
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
                Stage::Dns => "timeout-dns",
                Stage::Connect => "timeout-connect",
                Stage::Tls => "timeout-tls",
                Stage::Headers => "timeout-headers",
                Stage::Body => "timeout-body",
                Stage::Whole => "timeout-whole",
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

    /// The code that a call fails with.
    pub const fn code(&self) -> Code {
        match self {
            Self::Url(_)
            | Self::Method(_)
            | Self::ForbiddenHeader(_)
            | Self::InvalidHeader(_)
            | Self::InvalidRequest(_) => Code::InvalidInput,
            // The settings are not the caller's.
            Self::Roots { .. } => Code::Unavailable,
            Self::Blocked(_)
            | Self::BlockedAddress(_)
            | Self::Downgrade
            | Self::SecretInRedirect
            | Self::ClearTunnel(_)
            | Self::TunnelName { .. }
            | Self::NotTls { .. } => Code::PolicyDenied,
            Self::Denied(error) => error.code,
            Self::Timeout { .. } => Code::Timeout,
            Self::TooLarge { .. }
            | Self::Head { .. }
            | Self::Bomb { .. }
            | Self::TooMany(_)
            | Self::TooManyRedirects(_) => Code::LimitExceeded,
            Self::Dns { .. }
            | Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Certificate { .. }
            | Self::CertificateName { .. }
            | Self::Tls { .. }
            | Self::Redirect(_)
            | Self::Encoding(_)
            | Self::Protocol(_) => Code::Network,
        }
    }

    /// Finds the error that this one was made of, behind what hyper puts round it.
    pub(crate) fn within(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(ours) = error.downcast_ref::<Self>() {
                return Some(ours.clone());
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
