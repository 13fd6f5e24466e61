//! What hyper reports, as errors of ours.

use std::error::Error as StdError;

use crate::error::Error;

/// A request that got no answer.
pub(crate) fn of_client(error: &hyper_util::client::legacy::Error, header_limit: u32) -> Error {
    if let Some(ours) = Error::within(error) {
        return ours;
    }
    let source = error.source();
    match source.and_then(|source| source.downcast_ref::<hyper::Error>()) {
        Some(inner) if inner.is_parse_too_large() => Error::Head {
            bytes: header_limit.into(),
            headers: HEADERS,
        },
        Some(inner) => of_exchange(inner),
        // Its own words name a part of the library, and say nothing of the server.
        None if source.is_none() => {
            Error::Protocol("the connection closed before there was an answer".to_owned())
        }
        None => Error::Protocol(reason(error)),
    }
}

/// Refuses an answer with more headers than are read over HTTP/1, which is for HTTP/2 to ask for.
pub(crate) fn bounded(headers: &http::HeaderMap, header_limit: u32) -> Result<(), Error> {
    match headers.len() > HEADERS {
        true => Err(Error::Head {
            bytes: header_limit.into(),
            headers: HEADERS,
        }),
        false => Ok(()),
    }
}

/// The most headers that hyper reads of an answer. It would read more if it were told how many, but then makes room for
/// them in memory of its own at each answer, which every request would pay for.
const HEADERS: usize = 100;

/// What hyper says of chunk extensions and trailers without an end; a test has it say so.
const OVER: [&str; 3] = [
    "chunk trailers bytes over limit",
    "chunk trailers count overflow",
    "chunk extensions over limit",
];

/// hyper's own bound for these, in bytes.
const FRAMING: u64 = 16 << 10;

/// An exchange that broke.
pub(crate) fn of_exchange(error: &hyper::Error) -> Error {
    if let Some(ours) = Error::within(error) {
        return ours;
    }
    if OVER.contains(&reason(error).as_str()) {
        return Error::TooLarge {
            what: "what the server says beside the answer's body",
            limit: FRAMING,
        };
    }
    let why = if error.is_incomplete_message() || error.is_canceled() {
        "the connection closed before the answer was complete".to_owned()
    } else {
        reason(error)
    };
    Error::Protocol(why)
}

/// The innermost words: those round it say only which part of hyper has seen it.
fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    mimir_core::text::visible(mimir_core::text::prefix(&innermost.to_string(), 200))
}
