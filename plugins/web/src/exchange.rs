//! A whole exchange: redirects followed, the body unpacked.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use mimir_sdk::{Error, Result};
use url::Url;

use crate::http::{Request, Response, Transport};

/// Redirects that are followed. Servers need one or two.
pub(crate) const REDIRECTS: usize = 5;

/// Bytes that a body may unpack to: what a host lets in packed, and half as much again.
const UNPACKED_MAX: u64 = 16 << 20;

/// Headers that go along to another origin: they say what is wanted and not who wants it.
const HARMLESS: [&str; 4] = ["accept", "accept-language", "accept-encoding", "user-agent"];

/// Headers about a body, which stay behind with it.
const ABOUT_BODY: [&str; 3] = ["content-type", "content-encoding", "content-language"];

/// An answer and how it was come by.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Where the answer came from.
    pub(crate) url: Url,
    /// Where was asked before, in order.
    pub(crate) redirects: Vec<Url>,
    pub(crate) response: Response,
}

/// Reads an address. What readers of addresses disagree about is refused, not repaired.
pub(crate) fn parse(text: &str) -> Result<Url> {
    let bad = |why: &str| Error::invalid_input(format_args!("url: {why}"));
    let odd = text.chars().any(char::is_control) || text.contains('\\') || text.trim() != text;
    if odd {
        return Err(bad(
            "it has a backslash, a control character or a space at an end; write it without, or percent-encoded",
        ));
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            bad("it is not absolute; begin it with https://")
        }
        error => bad(&error.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = mimir_sdk::text::brief(url.scheme()).into_owned();
        return Err(bad(&format!(
            "`{scheme}` cannot be fetched; use http or https"
        )));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "it has a user name or password before its host; put credentials into a header",
        ));
    }
    Ok(url)
}

/// Sends a request, and again wherever the answer says. Each hop is a request of its own, which the host judges.
pub(crate) fn run(transport: &impl Transport, mut request: Request) -> Result<Exchange> {
    request.url.set_fragment(None);
    let mut redirects = Vec::new();
    loop {
        let mut response = transport
            .send(&request)
            .map_err(|error| told(error, &redirects))?;
        let Some(next) = location(&request.url, &response).map_err(|e| told(e, &redirects))? else {
            unpack(&mut response).map_err(|e| told(e, &redirects))?;
            return Ok(Exchange {
                url: request.url,
                redirects,
                response,
            });
        };
        if redirects.len() == REDIRECTS {
            let message = format!(
                "it redirects more than {REDIRECTS} times; fetch the last address by itself"
            );
            let error = of_kind("too-many-redirects", Error::limit_exceeded(message));
            return Err(told(error, &redirects));
        }
        let timeout = request.timeout.map(|timeout| timeout.after(response.spent));
        request.timeout = timeout.transpose().map_err(|e| told(e, &redirects))?;
        redirects.push(request.url.clone());
        turn(&mut request, next, response.status);
    }
}

/// An error of a kind: the stable names that the host gives the same causes.
pub(crate) fn of_kind(kind: &str, error: Error) -> Error {
    error.with_details(serde_json::json!({ "kind": kind }))
}

/// The same error, with the addresses before.
fn told(error: Error, redirects: &[Url]) -> Error {
    if redirects.is_empty() {
        return error;
    }
    let chain: Vec<&str> = redirects.iter().map(Url::as_str).collect();
    let mut details = serde_json::json!({ "redirects": chain });
    if let Some(kind) = error.details().and_then(|details| details.get("kind")) {
        details["kind"] = kind.clone();
    }
    let message = format!("{}, after a redirect", error.message());
    Error::new(error.code().clone(), message).with_details(details)
}

/// Where a redirect leads.
fn location(from: &Url, response: &Response) -> Result<Option<Url>> {
    let (301..=303 | 307 | 308) = response.status else {
        return Ok(None);
    };
    let Some(text) = response.header("location") else {
        return Ok(None);
    };
    let refused = |why: &str| {
        let to = mimir_sdk::text::brief(text);
        format!("it redirects to {to}, which is not followed: {why}")
    };
    let followed = match text.contains('\\') {
        true => Err("it has a backslash".to_owned()),
        false => from.join(text).map_err(|error| error.to_string()),
    };
    let followed = followed.and_then(|url| match parse(url.as_str()) {
        Ok(url) => Ok(url),
        Err(error) => Err(error.message().trim_start_matches("url: ").to_owned()),
    });
    let mut url =
        followed.map_err(|why| of_kind("invalid-redirect", Error::network(refused(&why))))?;
    if from.scheme() == "https" && url.scheme() == "http" {
        let why = "from https to http it would show the request to everybody; fetch it by https";
        let error = Error::permission_denied(refused(why));
        return Err(of_kind("downgrade", error));
    }
    url.set_fragment(None);
    Ok(Some(url))
}

/// Turns to another address, as the Fetch Standard says (section 4.4, "HTTP-redirect fetch").
fn turn(request: &mut Request, to: Url, status: u16) {
    let rewritten = match status {
        301 | 302 => request.method == "POST",
        303 => !matches!(request.method, "GET" | "HEAD"),
        _ => false,
    };
    let is =
        |names: &[&str], name: &str| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if rewritten {
        request.method = "GET";
        request.body.clear();
        request.headers.retain(|(name, _)| !is(&ABOUT_BODY, name));
    }
    if to.origin() != request.url.origin() {
        let with_body = !request.body.is_empty();
        request
            .headers
            .retain(|(name, _)| is(&HARMLESS, name) || (with_body && is(&ABOUT_BODY, name)));
    }
    request.url = to;
}

/// Unpacks the body, if it is packed in a way that was asked for.
fn unpack(response: &mut Response) -> Result<()> {
    let coding = response.header("content-encoding").unwrap_or_default();
    let coding = coding.trim().to_ascii_lowercase();
    let packed = std::mem::take(&mut response.body);
    response.body = match coding.as_str() {
        _ if packed.is_empty() => packed,
        "gzip" | "x-gzip" => unpacked(MultiGzDecoder::new(&packed[..]))?,
        "deflate" => unpacked(ZlibDecoder::new(&packed[..]))?,
        "" | "identity" => packed,
        other => {
            let coding = mimir_sdk::text::brief(other).into_owned();
            let message = format_args!(
                "the answer is packed as {coding}, which was not asked for; send the header `accept-encoding: identity`"
            );
            return Err(of_kind("invalid-encoding", Error::network(message)));
        }
    };
    Ok(())
}

fn unpacked(packed: impl Read) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut limited = packed.take(UNPACKED_MAX + 1);
    limited.read_to_end(&mut all).map_err(|_| {
        let message = "the answer cannot be unpacked; send the header `accept-encoding: identity`";
        of_kind("invalid-encoding", Error::network(message))
    })?;
    if all.len() as u64 > UNPACKED_MAX {
        let most = UNPACKED_MAX >> 20;
        let message = format_args!(
            "the answer unpacks to more than {most} MiB, the most that web_fetch unpacks whatever the settings; ask for less of it"
        );
        return Err(of_kind(
            "decompression-bomb",
            Error::limit_exceeded(message),
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
