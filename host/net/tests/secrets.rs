//! Secrets: values replace placeholders, and appear nowhere else.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use mimir_core::network::UrlOrigin;
use mimir_net::{HttpClient, SecretSwap};

use crate::kit::{Site, allow_all, answer, client, get, pin_to_loopback};

const PLACEHOLDER: &str = "placeholder-0123";
const VALUE: &str = "s3cret/value+42";

/// Swaps one secret, for one header of one host.
struct One;

impl SecretSwap for One {
    fn swap(
        &self,
        origin: &UrlOrigin,
        name: &HeaderName,
        value: &HeaderValue,
    ) -> Option<HeaderValue> {
        let text = value.to_str().ok()?;
        let ours = origin.host.to_string() == "a.example" && *name == AUTHORIZATION;
        let value = text.replace(PLACEHOLDER, VALUE);
        (ours && value != text).then(|| value.parse().unwrap())
    }
}

fn swapping() -> HttpClient {
    client(pin_to_loopback(
        pin_to_loopback(allow_all(), "a.example"),
        "b.example",
    ))
    .with_secrets(Arc::new(One))
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
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
    for (origin, header, swapped) in [
        ("http://a.example", "authorization", true),
        ("http://A.EXAMPLE.", "Authorization", true),
        ("http://a.example", "x-authorization", false),
        ("http://b.example", "authorization", false),
    ] {
        let url = site.named(origin, &format!("/?q={PLACEHOLDER}"));
        swapping()
            .fetch(request(
                mimir_net::uri(&url).unwrap().to_string().as_str(),
                header,
            ))
            .await
            .unwrap();
        let head = site.request_heads().pop().unwrap();
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
    let other = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let elsewhere = other.named("http://b.example", "/");
    let site = Site::respond_with(move |head| {
        if head.starts_with("GET /away ") {
            answer("307 x", &format!("location: {elsewhere}\r\n"), "")
        } else if head.starts_with("GET /near ") {
            answer("307 x", "location: /here\r\n", "")
        } else {
            answer("200 OK", "", "")
        }
    })
    .await;
    swapping()
        .fetch(request(
            &site.named("http://a.example", "/near"),
            "authorization",
        ))
        .await
        .unwrap();
    let heads = site.request_heads();
    assert!(
        heads.iter().all(|head| head.contains(VALUE)),
        "its own origin: {heads:?}"
    );
    swapping()
        .fetch(request(
            &site.named("http://a.example", "/away"),
            "authorization",
        ))
        .await
        .unwrap();
    let head = other.request_heads().pop().unwrap();
    assert!(
        !head.contains(VALUE) && !head.contains(PLACEHOLDER),
        "{head}"
    );
}

/// A server that received the secret returns it in a URL, in every spelling that URLs allow.
#[tokio::test]
async fn redirect_with_a_secret_in_its_url_is_not_followed() {
    let other = Site::respond_with(|_| answer("200 OK", "", "")).await;
    for shown in [VALUE, "s3cret%2Fvalue%2B42", "%733cret%2fvalue%2b42"] {
        let location = other.named("http://b.example", &format!("/?k={shown}"));
        let site = Site::respond_with(move |_| {
            answer("302 Found", &format!("location: {location}\r\n"), "")
        })
        .await;
        let sent = swapping()
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

/// Neither errors after the insertion nor the printed response show the value.
#[tokio::test]
async fn secret_is_absent_from_errors_and_logs() {
    let broken = Site::respond_with(|head| format!("NOT HTTP {head}\r\n\r\n")).await;
    let url = broken.named("http://a.example", "/");
    let error = swapping()
        .fetch(request(&url, "authorization"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "protocol-error");
    assert!(!format!("{error} {error:?}").contains(VALUE), "{error:?}");
    let echo =
        Site::respond_with(|head| answer("200 OK", &format!("set-cookie: {VALUE}\r\n"), head))
            .await;
    let fetched = swapping()
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
