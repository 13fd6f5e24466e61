//! Checks for headers set by a caller, and parsing of headers from plain text.

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mimir_core::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

use crate::error::{Error, OversizedPart};
use crate::limits::RequestLimits;

/// Headers that belong to the connection or select the target of the request: HTTP's hop-by-hop headers (RFC 9110
/// section 7.6.1), `Host`, and headers for proxies, which are not used.
const FORBIDDEN: [HeaderName; 14] = [
    header::CONNECTION,
    header::HOST,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // Some servers read the method or the path from these headers, which would bypass the rules about them.
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
];

/// Maximum size in bytes of all request headers together; most servers accept less.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Parses headers from plain text, such as the arguments of a call. Refuses a name or value with a line break, or with
/// other characters that HTTP does not allow.
///
/// ```
/// use mimir_net::headers;
///
/// assert!(headers::parse([("Accept", "text/html")]).is_ok());
/// let broken = headers::parse([("Accept", "text/html\r\nHost: evil.example")]);
/// assert_eq!(broken.unwrap_err().kind(), "invalid-header");
/// ```
pub fn parse<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let visible_name = || mimir_core::text::visible(mimir_core::text::prefix(name, 100));
        let invalid = || Error::InvalidHeader(visible_name());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        map.try_append(name, value).map_err(|_| too_many())?;
    }
    Ok(map)
}

/// Returns the headers that carry a W3C trace context.
///
/// ```
/// # use mimir_core::trace_context::TraceContext;
/// let context = TraceContext::new_trace(true);
/// let headers = mimir_net::headers::trace_headers(&context);
/// assert_eq!(headers.len(), 1);
/// assert_eq!(headers[0].0, "traceparent");
/// ```
pub fn trace_headers(context: &TraceContext) -> Vec<(HeaderName, HeaderValue)> {
    let fields = [
        (TRACEPARENT, Some(context.traceparent())),
        (TRACESTATE, context.tracestate().map(str::to_owned)),
    ];
    let headers = fields.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::try_from(value?).ok()?;
        Some((HeaderName::from_static(name), value))
    });
    headers.collect()
}

/// Checks the headers set by a caller, before anything is sent and before any approval.
pub(crate) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Error> {
    // CONNECT opens a tunnel past every check; TRACE and TRACK echo data that the caller must not see.
    if *method == Method::CONNECT || *method == Method::TRACE || method.as_str() == "TRACK" {
        return Err(Error::Method(method.to_string()));
    }
    let mut bytes = 0;
    for (name, value) in headers {
        let is_unsupported_te = *name == header::TE && value != "trailers";
        if is_unsupported_te || FORBIDDEN.contains(name) {
            return Err(Error::ForbiddenHeader(name.to_string()));
        }
        // The size is counted as in RFC 7541 section 4.1.
        bytes += name.as_str().len() + value.len() + 32;
    }
    if headers.len() > RequestLimits::HEADERS {
        return Err(too_many());
    }
    if bytes > MAX_HEADER_BYTES {
        return Err(Error::TooLarge {
            part: OversizedPart::RequestHeaders,
            limit: MAX_HEADER_BYTES as u64,
        });
    }
    Ok(())
}

fn too_many() -> Error {
    Error::InvalidRequest(format!("more than {} headers", RequestLimits::HEADERS))
}

/// Returns the body length announced by the caller in `content-length`.
pub(crate) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let text = first.to_str().unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(length) if is_number && values.next().is_none() => Ok(Some(length)),
        _ => Err(Error::InvalidHeader("content-length".to_owned())),
    }
}
