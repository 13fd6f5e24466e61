//! Conversion of URLs to hyper's [`Uri`].

use http::Uri;
use mimir_core::network::RequestTarget;

use crate::error::Error;

/// Parses the URL of a request as strictly as [`RequestTarget::parse`] does.
///
/// ```
/// assert_eq!(mimir_net::uri("HTTPS://BÜCHER.example/a%20b")?, "https://xn--bcher-kva.example/a%20b");
/// assert_eq!(mimir_net::uri("file:///etc/passwd").unwrap_err().kind(), "unsupported-scheme");
/// # Ok::<(), mimir_net::Error>(())
/// ```
pub fn uri(text: &str) -> Result<Uri, Error> {
    wire_uri(&RequestTarget::parse(text)?)
}

/// Converts a target for hyper. Percent-encodes characters that are valid in a URL but not in a request line.
pub(crate) fn wire_uri(target: &RequestTarget) -> Result<Uri, Error> {
    let text = target.url().as_str();
    if let Ok(uri) = Uri::try_from(text) {
        return Ok(uri);
    }
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | ..=b' ' | 0x7f.. => {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            _ => encoded.push(char::from(byte)),
        }
    }
    Uri::try_from(encoded)
        .map_err(|_| Error::InvalidRequest("the URL has characters that cannot be sent".to_owned()))
}
