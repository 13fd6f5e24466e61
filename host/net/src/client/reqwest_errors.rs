//! Conversion of reqwest's errors into errors of this crate. reqwest's own texts are not shown: they contain URLs.

use std::error::Error as StdError;
use std::io;

use hyper_util::client::legacy::Error as PoolError;
use mimir_core::network::{RequestTarget, UrlScheme};

use crate::connector::unreachable;
use crate::error::Error;
use crate::hyper_errors;
use crate::tls::tls_error;

/// Converts the error of a request that got no response.
pub(super) fn from_request_error(
    error: &reqwest::Error,
    target: &RequestTarget,
    header_limit: u32,
) -> Error {
    if let Some(own_error) = Error::find_source(error) {
        return own_error;
    }
    match sources(error).find_map(|source| source.downcast_ref::<PoolError>()) {
        Some(inner) if inner.is_connect() => connect_error(inner, target),
        Some(inner) => hyper_errors::from_client_error(inner, header_limit),
        None => Error::Protocol(hyper_errors::innermost_text(error)),
    }
}

/// Returns true if reqwest's limit for connections was exceeded. A timeout of the system is an [`io::Error`].
pub(super) fn is_connect_timeout(error: &reqwest::Error) -> bool {
    error.is_connect()
        && error.is_timeout()
        && Error::find_source(error).is_none()
        && !sources(error).any(|source| source.is::<io::Error>())
}

/// Converts the error of a connection. That of TCP is inside an error of hyper's connector, that of TLS is not.
fn connect_error(error: &PoolError, target: &RequestTarget) -> Error {
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    let host = || target.host().to_string();
    if let Some(cause) = cause {
        return tls_error(&host(), innermost_io(cause));
    }
    match sources(error).find_map(|source| source.downcast_ref::<io::Error>()) {
        Some(cause) => unreachable(target, cause),
        None if target.scheme() == UrlScheme::Https => Error::Tls {
            host: host(),
            why: hyper_errors::innermost_text(error),
        },
        None => Error::Unreachable {
            origin: target.origin().to_string(),
            why: hyper_errors::innermost_text(error),
        },
    }
}

/// Returns the error inside of errors that only wrap it.
fn innermost_io(error: &io::Error) -> &io::Error {
    let mut innermost = error;
    while let Some(inner) = innermost.get_ref().and_then(|inner| inner.downcast_ref()) {
        innermost = inner;
    }
    innermost
}

/// Returns the error and all its sources, the outermost first.
fn sources<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
