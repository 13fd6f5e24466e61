//! Conversion of hyper's errors into errors of this crate.

use std::error::Error as StdError;

use crate::error::{Error, OversizedPart};

/// Converts the error of a request that got no response.
pub(crate) fn from_client_error(
    error: &hyper_util::client::legacy::Error,
    header_limit: u32,
) -> Error {
    if let Some(own_error) = Error::find_source(error) {
        return own_error;
    }
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<hyper::Error>()) {
        Some(inner) if inner.is_parse_too_large() => Error::Head {
            bytes: header_limit.into(),
            headers: MAX_HEADERS,
        },
        Some(inner) => from_hyper_error(inner),
        // hyper's own text names a part of the library and does not describe the server.
        None if source.is_none() => {
            Error::Protocol("the connection closed before a response arrived".to_owned())
        }
        None => Error::Protocol(innermost_text(error)),
    }
}

/// Refuses a response with more than [`MAX_HEADERS`] headers. hyper enforces this limit itself only for HTTP/1.
pub(crate) fn check_header_count(
    headers: &http::HeaderMap,
    header_limit: u32,
) -> Result<(), Error> {
    if headers.len() > MAX_HEADERS {
        Err(Error::Head {
            bytes: header_limit.into(),
            headers: MAX_HEADERS,
        })
    } else {
        Ok(())
    }
}

/// Refuses a response whose headers together exceed the limit, for a client whose buffer is larger.
pub(crate) fn check_header_size(headers: &http::HeaderMap, header_limit: u32) -> Result<(), Error> {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD);
    if sizes.sum::<usize>() as u64 > u64::from(header_limit) {
        return Err(Error::Head {
            bytes: header_limit.into(),
            headers: MAX_HEADERS,
        });
    }
    Ok(())
}

/// Bytes of a header line besides name and value: colon, space and line break.
const LINE_OVERHEAD: usize = 4;

/// Maximum number of response headers, hyper's default. With a higher limit, hyper would allocate space for the headers
/// of every response.
const MAX_HEADERS: usize = 100;

/// hyper's error texts for excessive chunk extensions and trailers; each is triggered by a test.
const FRAMING_ERRORS: [&str; 3] = [
    "chunk trailers bytes over limit",
    "chunk trailers count overflow",
    "chunk extensions over limit",
];

/// hyper's own limit for chunk extensions and trailers, in bytes.
const MAX_FRAMING_BYTES: u64 = 16 << 10;

/// Converts the error of an exchange that failed midway.
pub(crate) fn from_hyper_error(error: &hyper::Error) -> Error {
    if let Some(own_error) = Error::find_source(error) {
        return own_error;
    }
    if FRAMING_ERRORS.contains(&innermost_text(error).as_str()) {
        return Error::TooLarge {
            part: OversizedPart::ResponseFraming,
            limit: MAX_FRAMING_BYTES,
        };
    }
    let why = if error.is_incomplete_message() || error.is_canceled() {
        "the connection closed before the response was complete".to_owned()
    } else {
        innermost_text(error)
    };
    Error::Protocol(why)
}

/// Converts the error of a body of reqwest, which wraps hyper's.
pub(crate) fn from_body_error(error: &(dyn StdError + 'static)) -> Error {
    let mut next = Some(error);
    while let Some(source) = next {
        if let Some(inner) = source.downcast_ref::<hyper::Error>() {
            return from_hyper_error(inner);
        }
        next = source.source();
    }
    Error::find_source(error).unwrap_or_else(|| Error::Protocol(innermost_text(error)))
}

/// Returns the innermost error text: the outer ones only name the part of hyper that saw the error.
pub(crate) fn innermost_text(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    mimir_core::text::visible(mimir_core::text::prefix(&innermost.to_string(), 200))
}
