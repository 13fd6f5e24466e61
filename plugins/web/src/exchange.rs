//! A complete HTTP exchange: follows redirects and decompresses the body.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use mimir_sdk::{Error, Result};
use url::Url;

use crate::http::{Request, Response, Transport};

/// Maximum number of redirects to follow. Servers usually need one or two.
pub(crate) const MAX_REDIRECTS: usize = 5;

/// Maximum size of a decompressed body in bytes: one and a half times the host's limit for compressed bodies.
const MAX_DECOMPRESSED: u64 = 16 << 20;

/// Headers that may be sent to another origin, because they do not identify the sender.
const CROSS_ORIGIN_HEADERS: [&str; 4] =
    ["accept", "accept-language", "accept-encoding", "user-agent"];

/// Headers that describe the body and are dropped together with it.
const BODY_HEADERS: [&str; 3] = ["content-type", "content-encoding", "content-language"];

/// A response and its redirects.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// URL of the final response.
    pub(crate) url: Url,
    /// URLs of the redirects, in order.
    pub(crate) redirects: Vec<Url>,
    pub(crate) response: Response,
}

/// Parses a URL. URLs that parsers disagree about are refused, not repaired.
pub(crate) fn parse(text: &str) -> Result<Url> {
    let invalid = |reason: &str| Error::invalid_input(format_args!("url: {reason}"));
    let malformed =
        text.chars().any(char::is_control) || text.contains('\\') || text.trim() != text;
    if malformed {
        return Err(invalid(
            "it contains a backslash, a control character, or a space at its start or end: remove or percent-encode it",
        ));
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            invalid("it is not absolute; begin it with https://")
        }
        error => invalid(&error.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = mimir_sdk::text::brief(url.scheme()).into_owned();
        return Err(invalid(&format!(
            "`{scheme}` cannot be fetched; use http or https"
        )));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "it has a user name or password before its host; put credentials into a header",
        ));
    }
    Ok(url)
}

/// Sends a request and follows redirects. Each hop is a separate request, which the host checks.
pub(crate) fn run(transport: &impl Transport, mut request: Request) -> Result<Exchange> {
    request.url.set_fragment(None);
    let mut redirects = Vec::new();
    loop {
        let mut response = transport
            .send(&request)
            .map_err(|error| with_redirects(error, &redirects))?;
        let Some(next) =
            redirect_target(&request.url, &response).map_err(|e| with_redirects(e, &redirects))?
        else {
            decompress(&mut response).map_err(|e| with_redirects(e, &redirects))?;
            return Ok(Exchange {
                url: request.url,
                redirects,
                response,
            });
        };
        if redirects.len() == MAX_REDIRECTS {
            let message = format!(
                "the server redirects more than {MAX_REDIRECTS} times; fetch the last address directly"
            );
            let error = with_kind("too-many-redirects", Error::limit_exceeded(message));
            return Err(with_redirects(error, &redirects));
        }
        let timeout = request
            .timeout
            .map(|timeout| timeout.after(response.elapsed));
        request.timeout = timeout
            .transpose()
            .map_err(|e| with_redirects(e, &redirects))?;
        redirects.push(request.url.clone());
        redirect_request(&mut request, next, response.status);
    }
}

/// Sets the kind of an error: a stable name, which the host uses as well.
pub(crate) fn with_kind(kind: &str, error: Error) -> Error {
    error.with_details(serde_json::json!({ "kind": kind }))
}

/// Adds the URLs of the redirects to an error.
fn with_redirects(error: Error, redirects: &[Url]) -> Error {
    if redirects.is_empty() {
        return error;
    }
    let chain: Vec<&str> = redirects.iter().map(Url::as_str).collect();
    let mut details = serde_json::json!({ "redirects": chain });
    if let Some(kind) = error.details().and_then(|details| details.get("kind")) {
        details["kind"] = kind.clone();
    }
    let message = format!("after a redirect: {}", error.message());
    Error::new(error.code().clone(), message).with_details(details)
}

/// Resolves the target of a redirect.
fn redirect_target(from: &Url, response: &Response) -> Result<Option<Url>> {
    let (301..=303 | 307 | 308) = response.status else {
        return Ok(None);
    };
    let Some(text) = response.header("location") else {
        return Ok(None);
    };
    let refused = |why: &str| {
        let to = mimir_sdk::text::brief(text);
        format!("the server redirects to {to}, which is not followed: {why}")
    };
    let target = if text.contains('\\') {
        Err("it contains a backslash".to_owned())
    } else {
        from.join(text).map_err(|error| error.to_string())
    };
    let target = target.and_then(|url| match parse(url.as_str()) {
        Ok(url) => Ok(url),
        Err(error) => Err(error.message().trim_start_matches("url: ").to_owned()),
    });
    let mut url =
        target.map_err(|why| with_kind("invalid-redirect", Error::network(refused(&why))))?;
    if from.scheme() == "https" && url.scheme() == "http" {
        let why = "a redirect from https to http would expose the request; fetch the https address";
        let error = Error::permission_denied(refused(why));
        return Err(with_kind("downgrade", error));
    }
    url.set_fragment(None);
    Ok(Some(url))
}

/// Updates the request for a redirect, as in the Fetch Standard (section 4.4, "HTTP-redirect fetch").
fn redirect_request(request: &mut Request, to: Url, status: u16) {
    let becomes_get = match status {
        301 | 302 => request.method == "POST",
        303 => !matches!(request.method, "GET" | "HEAD"),
        _ => false,
    };
    let is =
        |names: &[&str], name: &str| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if becomes_get {
        request.method = "GET";
        request.body.clear();
        request.headers.retain(|(name, _)| !is(&BODY_HEADERS, name));
    }
    if to.origin() != request.url.origin() {
        let with_body = !request.body.is_empty();
        request.headers.retain(|(name, _)| {
            is(&CROSS_ORIGIN_HEADERS, name) || (with_body && is(&BODY_HEADERS, name))
        });
    }
    request.url = to;
}

/// Decompresses the body. Fails if the server has used an encoding that was not requested.
fn decompress(response: &mut Response) -> Result<()> {
    let coding = response.header("content-encoding").unwrap_or_default();
    let coding = coding.trim().to_ascii_lowercase();
    let compressed = std::mem::take(&mut response.body);
    response.body = match coding.as_str() {
        _ if compressed.is_empty() => compressed,
        "gzip" | "x-gzip" => decompress_limited(MultiGzDecoder::new(&compressed[..]))?,
        "deflate" => decompress_limited(ZlibDecoder::new(&compressed[..]))?,
        "" | "identity" => compressed,
        other => {
            let coding = mimir_sdk::text::brief(other).into_owned();
            let message = format_args!(
                "the response is compressed with {coding}, which was not requested; send the header `accept-encoding: identity`"
            );
            return Err(with_kind("invalid-encoding", Error::network(message)));
        }
    };
    Ok(())
}

fn decompress_limited(compressed: impl Read) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut limited = compressed.take(MAX_DECOMPRESSED + 1);
    limited.read_to_end(&mut all).map_err(|_| {
        let message =
            "the response cannot be decompressed; send the header `accept-encoding: identity`";
        with_kind("invalid-encoding", Error::network(message))
    })?;
    if all.len() as u64 > MAX_DECOMPRESSED {
        let max_mib = MAX_DECOMPRESSED >> 20;
        let message = format_args!(
            "the response decompresses to more than {max_mib} MiB, a fixed limit of web_fetch; request a smaller part"
        );
        return Err(with_kind(
            "decompression-bomb",
            Error::limit_exceeded(message),
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
