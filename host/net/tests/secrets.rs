//! Secrets: insertion of values for placeholders, and absence of the value everywhere else.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use mimir_core::network::UrlOrigin;
use mimir_net::{HttpClient, SecretSwap};

use crate::kit::{Site, answer, client, fixed, get, lax};

const PLACEHOLDER: &str = "placeholder-0123";
const VALUE: &str = "s3cret/value+42";

/// One secret, for one header of one host.
struct OneSecret;

impl SecretSwap for OneSecret {
    fn swap(
        &self,
        origin: &UrlOrigin,
        name: &HeaderName,
        value: &HeaderValue,
    ) -> Option<HeaderValue> {
        let text = value.to_str().ok()?;
        let is_declared = origin.host.to_string() == "a.example" && *name == AUTHORIZATION;
        let value = text.replace(PLACEHOLDER, VALUE);
        (is_declared && value != text).then(|| value.parse().unwrap())
    }
}

fn client_with_secret() -> HttpClient {
    client(fixed(fixed(lax(), "a.example"), "b.example")).with_secrets(Arc::new(OneSecret))
}

fn request(url: &str, header: &str) -> http::Request<bytes::Bytes> {
    let mut request = get(url);
    let name = HeaderName::from_bytes(header.as_bytes()).unwrap();
    let value = format!("Bearer {PLACEHOLDER}").parse().unwrap();
    request.headers_mut().insert(name, value);
    request
}

#[tokio::test]
async fn secret_is_sent_only_in_its_header_to_its_host() {
    let site = Site::responding(|_| answer("200 OK", "", "")).await;
    for (origin, header, swapped) in [
        ("http://a.example", "authorization", true),
        ("http://A.EXAMPLE.", "Authorization", true),
        ("http://a.example", "x-authorization", false),
        ("http://b.example", "authorization", false),
    ] {
        let url = site.named(origin, &format!("/?q={PLACEHOLDER}"));
        client_with_secret()
            .fetch(request(
                mimir_net::uri(&url).unwrap().to_string().as_str(),
                header,
            ))
            .await
            .unwrap();
        let head = site.heads().pop().unwrap();
        assert_eq!(
            head.matches(VALUE).count(),
            usize::from(swapped),
            "{origin}, {header}: {head}"
        );
        assert_eq!(
            head.matches(PLACEHOLDER).count(),
            usize::from(!swapped) + 1,
            "{origin}, {header}: {head}"
        );
    }
}

#[tokio::test]
async fn redirect_to_another_origin_drops_secret_and_placeholder() {
    let other = Site::responding(|_| answer("200 OK", "", "")).await;
    let elsewhere = other.named("http://b.example", "/");
    let site = Site::responding(move |head| match head.starts_with("GET /away ") {
        true => answer("307 x", &format!("location: {elsewhere}\r\n"), ""),
        false if head.starts_with("GET /near ") => answer("307 x", "location: /here\r\n", ""),
        false => answer("200 OK", "", ""),
    })
    .await;
    client_with_secret()
        .fetch(request(
            &site.named("http://a.example", "/near"),
            "authorization",
        ))
        .await
        .unwrap();
    let heads = site.heads();
    assert!(
        heads.iter().all(|head| head.contains(VALUE)),
        "its own origin: {heads:?}"
    );
    client_with_secret()
        .fetch(request(
            &site.named("http://a.example", "/away"),
            "authorization",
        ))
        .await
        .unwrap();
    let head = other.heads().pop().unwrap();
    assert!(
        !head.contains(VALUE) && !head.contains(PLACEHOLDER),
        "{head}"
    );
}

/// A server that received the secret returns it in a URL, in every spelling that a URL allows.
#[tokio::test]
async fn redirect_with_a_secret_in_its_url_is_not_followed() {
    let other = Site::responding(|_| answer("200 OK", "", "")).await;
    for shown in [VALUE, "s3cret%2Fvalue%2B42", "%733cret%2fvalue%2b42"] {
        let location = other.named("http://b.example", &format!("/?k={shown}"));
        let site = Site::responding(move |_| {
            answer("302 Found", &format!("location: {location}\r\n"), "")
        })
        .await;
        let sent = client_with_secret()
            .fetch(request(
                &site.named("http://a.example", "/"),
                "authorization",
            ))
            .await;
        let error = sent.unwrap_err();
        assert_eq!(error.kind(), "secret-in-redirect");
        assert!(
            !format!("{error} {error:?}").contains("s3cret"),
            "{error:?}"
        );
    }
    assert_eq!(other.connections(), 0);
}

/// Errors after the insertion do not show the value, and neither does the printed response.
#[tokio::test]
async fn secret_is_absent_from_errors_and_logs() {
    let broken = Site::responding(|head| format!("NOT HTTP {head}\r\n\r\n")).await;
    let url = broken.named("http://a.example", "/");
    let error = client_with_secret()
        .fetch(request(&url, "authorization"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "protocol-error");
    assert!(!format!("{error} {error:?}").contains(VALUE), "{error:?}");
    let echo =
        Site::responding(|head| answer("200 OK", &format!("set-cookie: {VALUE}\r\n"), head)).await;
    let fetched = client_with_secret()
        .fetch(request(
            &echo.named("http://a.example", "/?token=x"),
            "authorization",
        ))
        .await
        .unwrap();
    let shown = format!("{fetched:?} {:?}", fetched.headers);
    assert!(
        !shown.contains(VALUE) && !shown.contains("token"),
        "{shown}"
    );
}
