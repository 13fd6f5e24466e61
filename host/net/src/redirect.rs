//! Where a redirect leads, and what of the request goes along.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mimir_core::network::{Scheme, Target};

use crate::error::Error;
use crate::secrets::Swapped;

/// Headers that go along to another origin: they say what is wanted and not who wants it. Any other may be a key, and
/// every service has a name of its own for that.
const HARMLESS: [HeaderName; 4] = [
    header::ACCEPT,
    header::ACCEPT_LANGUAGE,
    header::ACCEPT_ENCODING,
    header::USER_AGENT,
];

/// Headers about a body, which go with it; the Fetch Standard, section 4.4 ("HTTP-redirect fetch").
const ABOUT_BODY: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
];

/// A request, as far as redirects change it.
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) has_body: bool,
}

/// The target of an answer that is a redirect.
pub(crate) fn location(
    from: &Target,
    status: StatusCode,
    headers: &HeaderMap,
    swapped: &Swapped,
) -> Result<Option<Target>, Error> {
    let (301..=303 | 307 | 308) = status.as_u16() else {
        return Ok(None);
    };
    let mut all = headers.get_all(header::LOCATION).iter();
    let Some(location) = all.next() else {
        return Ok(None);
    };
    if all.any(|other| other != location) {
        return Err(Error::Redirect("it names two".to_owned()));
    }
    let text = std::str::from_utf8(location.as_bytes())
        .map_err(|_| Error::Redirect("it is no text".to_owned()))?;
    if swapped.shows_in(text) {
        return Err(Error::SecretInRedirect);
    }
    let target = from
        .join(text)
        .map_err(|e| Error::Redirect(e.to_string()))?;
    if from.scheme() == Scheme::Https && target.scheme() == Scheme::Http {
        return Err(Error::Downgrade);
    }
    Ok(Some(target))
}

impl Request {
    /// Turns to `target`, as the Fetch Standard says.
    pub(crate) fn turn(&mut self, target: Target, status: StatusCode, swapped: &Swapped) {
        let rewritten = match status.as_u16() {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::GET && self.method != Method::HEAD,
            _ => false,
        };
        if rewritten {
            self.method = Method::GET;
            self.has_body = false;
            ABOUT_BODY
                .iter()
                .for_each(|name| drop(self.headers.remove(name)));
        }
        if target.origin() != self.target.origin() {
            let stays = |(name, value): (&HeaderName, &HeaderValue)| {
                let wanted =
                    HARMLESS.contains(name) || (self.has_body && ABOUT_BODY.contains(name));
                let secret = value.is_sensitive() || swapped.names.contains(name);
                !wanted || secret
            };
            let stay = self.headers.iter().filter(|header| stays(*header));
            let stay: Vec<HeaderName> = stay.map(|(name, _)| name.clone()).collect();
            for name in stay {
                self.headers.remove(name);
            }
        }
        self.target = target;
    }
}
