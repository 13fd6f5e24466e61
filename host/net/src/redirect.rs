//! Redirects: the target, and the request to send there.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mimir_core::network::{RequestTarget, UrlScheme};

use crate::error::Error;
use crate::secret_swap::SwappedSecrets;

/// Headers that may follow a redirect to another origin: they describe the requested content, not the caller. Any other
/// header may carry a key, since each service names its key header differently.
const CROSS_ORIGIN_HEADERS: [HeaderName; 4] = [
    header::ACCEPT,
    header::ACCEPT_LANGUAGE,
    header::ACCEPT_ENCODING,
    header::USER_AGENT,
];

/// Headers that describe a body and are dropped with it (Fetch Standard, section 4.4, "HTTP-redirect fetch").
const BODY_HEADERS: [HeaderName; 6] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
];

/// The parts of a request that a redirect changes.
pub(crate) struct RedirectableRequest {
    pub(crate) target: RequestTarget,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) has_body: bool,
}

/// Returns the target of a redirect, or `None` if the response is not a redirect. Fails if the redirect must not be
/// followed.
pub(crate) fn redirect_target(
    from: &RequestTarget,
    status: StatusCode,
    headers: &HeaderMap,
    swapped: &SwappedSecrets,
) -> Result<Option<RequestTarget>, Error> {
    let (301..=303 | 307 | 308) = status.as_u16() else {
        return Ok(None);
    };
    let mut values = headers.get_all(header::LOCATION).iter();
    let Some(location) = values.next() else {
        return Ok(None);
    };
    if values.any(|other| other != location) {
        return Err(Error::Redirect(
            "it has conflicting `location` headers".to_owned(),
        ));
    }
    let text = std::str::from_utf8(location.as_bytes())
        .map_err(|_| Error::Redirect("its `location` header is not valid text".to_owned()))?;
    if swapped.appears_in(text) {
        return Err(Error::SecretInRedirect);
    }
    let target = from
        .join(text)
        .map_err(|e| Error::Redirect(e.to_string()))?;
    if from.scheme() == UrlScheme::Https && target.scheme() == UrlScheme::Http {
        return Err(Error::Downgrade);
    }
    Ok(Some(target))
}

impl RedirectableRequest {
    /// Changes the request for a redirect to `target`, as specified by the Fetch Standard.
    pub(crate) fn redirect_to(
        &mut self,
        target: RequestTarget,
        status: StatusCode,
        swapped: &SwappedSecrets,
    ) {
        let becomes_get = match status.as_u16() {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::GET && self.method != Method::HEAD,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.has_body = false;
            BODY_HEADERS
                .iter()
                .for_each(|name| drop(self.headers.remove(name)));
        }
        if target.origin() != self.target.origin() {
            let is_dropped = |(name, value): (&HeaderName, &HeaderValue)| {
                let may_follow = CROSS_ORIGIN_HEADERS.contains(name)
                    || (self.has_body && BODY_HEADERS.contains(name));
                let is_secret = value.is_sensitive() || swapped.names.contains(name);
                !may_follow || is_secret
            };
            let dropped = self.headers.iter().filter(|header| is_dropped(*header));
            let dropped: Vec<HeaderName> = dropped.map(|(name, _)| name.clone()).collect();
            for name in dropped {
                self.headers.remove(name);
            }
        }
        self.target = target;
    }
}
