//! Redirects: allowed targets, and the headers and bodies sent to them.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderValue};
use http::{HeaderName, Method, Request};
use mimir_core::ToolErrorCode;
use mimir_net::RequestLimits;

use crate::kit::{
    Authority, Names, Site, allow_all, allow_hosts, answer, client, client_with, fetch, get,
    guarded, pin_to_loopback,
};

fn to(status: &str, location: &str) -> String {
    answer(status, &format!("location: {location}\r\n"), "")
}

/// Each hop is checked like the first request: an allowed server cannot redirect to a refused one.
#[tokio::test]
async fn redirect_target_is_checked_like_a_request() {
    let inside = Site::respond_with(|_| answer("200 OK", "", "inside")).await;
    let port = inside.address.port();
    for (location, kind) in [
        (format!("http://127.0.0.1:{port}/"), "blocked"),
        (format!("http://0x7f.1:{port}/"), "blocked"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "blocked"),
        (format!("http://localhost:{port}/"), "blocked"),
        (format!("//127.0.0.1:{port}/"), "blocked"),
        ("http://169.254.169.254/latest/".to_owned(), "blocked"),
        (format!("http://private.example:{port}/"), "blocked-address"),
        ("http://else.test/".to_owned(), "blocked"),
        ("http://allowed.example:25/".to_owned(), "blocked"),
        ("file:///etc/passwd".to_owned(), "invalid-redirect"),
        ("gopher://127.0.0.1:70/x".to_owned(), "invalid-redirect"),
        (
            format!("http://u:p@allowed.example:{port}/"),
            "invalid-redirect",
        ),
        (format!("http:\\\\127.0.0.1:{port}\\"), "invalid-redirect"),
        ("http://a..b/".to_owned(), "invalid-redirect"),
    ] {
        let shown = location.clone();
        let outside = Site::respond_with(move |_| to("302 Found", &location)).await;
        let names = Names::of(&[("private.example", "127.0.0.1")]);
        let client = client_with(
            pin_to_loopback(allow_hosts(&["*.example"]), "allowed.example"),
            &names,
            RequestLimits::default(),
        );
        let error = fetch(&client, &outside.named("http://allowed.example", "/"))
            .await
            .expect_err(&shown);
        assert_eq!(error.kind(), kind, "{shown}: {error}");
        assert_eq!(outside.connections(), 1);
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn redirect_from_https_to_http_is_not_followed() {
    let authority = Authority::new();
    let clear = Site::respond_with(|_| answer("200 OK", "", "in the clear")).await;
    let location = clear.named("http://safe.example", "/");
    let site = Site::https(authority.server(&["safe.example"], &[]), move |_| {
        let location = location.clone();
        async move {
            let mut answer = crate::kit::text("");
            *answer.status_mut() = http::StatusCode::FOUND;
            answer
                .headers_mut()
                .insert("location", location.parse().unwrap());
            answer
        }
    })
    .await;
    let guard = mimir_net::PolicyGuard::new(mimir_core::network::NetworkPolicy::new(
        pin_to_loopback(allow_all(), "safe.example"),
    ));
    let client = guarded(
        guard.into(),
        &Names::none(),
        RequestLimits::default(),
        authority.roots(),
    );
    let error = fetch(&client, &site.named("https://safe.example", "/"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("downgrade", ToolErrorCode::PolicyDenied),
        "{error}"
    );
    assert_eq!(clear.connections(), 0);
}

#[tokio::test]
async fn redirects_are_limited() {
    let site = Site::respond_with(|head| {
        let here: usize = head[5..].split(' ').next().unwrap().parse().unwrap();
        match here {
            5 => answer("200 OK", "", "at last"),
            9 => to("302 Found", "/9"),
            here => to("301 Moved", &format!("/{}", here + 1)),
        }
    })
    .await;
    let client = client(allow_all());
    let fetched = fetch(&client, &site.url("/0")).await.unwrap();
    assert_eq!((fetched.redirects, &fetched.body[..]), (5, &b"at last"[..]));
    assert_eq!(fetched.target.to_string(), site.url("/5"));
    assert_eq!(site.request_heads().len(), 6);
    let error = fetch(&client, &site.url("/9")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        ("too-many-redirects", ToolErrorCode::LimitExceeded)
    );
    assert_eq!(site.request_heads().len(), 12);
    let fewer = client.with_limits(RequestLimits {
        redirects: 0,
        ..RequestLimits::default()
    });
    assert_eq!(
        fetch(&fewer, &site.url("/4")).await.unwrap_err().kind(),
        "too-many-redirects"
    );
}

/// Methods change as specified by the Fetch Standard.
#[tokio::test]
async fn redirect_changes_method_and_body_per_fetch_standard() {
    for (status, method, after) in [
        ("301 x", "POST", "GET"),
        ("302 x", "POST", "GET"),
        ("302 x", "PUT", "PUT"),
        ("303 x", "POST", "GET"),
        ("303 x", "DELETE", "GET"),
        ("303 x", "HEAD", "HEAD"),
        ("307 x", "POST", "POST"),
        ("308 x", "PUT", "PUT"),
    ] {
        let site = Site::respond_with(move |head| {
            if head.contains(" /there ") {
                answer("200 OK", "", "")
            } else {
                to(status, "/there")
            }
        })
        .await;
        let mut request = Request::post(site.url("/here"))
            .body(Bytes::from("payload"))
            .unwrap();
        *request.method_mut() = method.parse().unwrap();
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/x"));
        if *request.method() == Method::HEAD {
            *request.body_mut() = Bytes::new();
        }
        // Responses to HEAD have no body, so the connection stays in sync.
        client(allow_all()).fetch(request).await.unwrap();
        let last = site.request_heads().pop().unwrap();
        assert!(
            last.starts_with(&format!("{after} /there ")),
            "{status} {method}: {last}"
        );
        let kept = after != "GET" && after != "HEAD";
        assert_eq!(last.contains("payload"), kept, "{status} {method}: {last}");
        assert_eq!(
            last.contains("text/x"),
            after != "GET",
            "{status} {method}: {last}"
        );
    }
}

/// Header names in which services accept keys; such a list is never complete.
const NAMES: [&str; 6] = [
    "x-api-key",
    "private-token",
    "x-subscription-token",
    "x-vault-token",
    "x-amz-security-token",
    "x-nobody-knows-it",
];

#[tokio::test]
async fn redirect_keeps_credentials_at_their_origin() {
    let other = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let elsewhere = other.named("http://b.example", "/");
    let site = Site::respond_with(move |head| {
        if head.starts_with("GET /away ") {
            to("302 Found", &elsewhere)
        } else if head.starts_with("GET /near ") {
            to("302 Found", "/here")
        } else {
            answer("200 OK", "", "")
        }
    })
    .await;
    let client = client(pin_to_loopback(
        pin_to_loopback(allow_all(), "a.example"),
        "b.example",
    ));
    let token = HeaderName::from_static("x-my-token");
    for (path, kept) in [("/near", true), ("/away", false)] {
        let mut request = get(&site.named("http://a.example", path));
        let mut secret = HeaderValue::from_static("hidden-by-its-caller");
        secret.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer credential"));
        headers.insert(COOKIE, HeaderValue::from_static("session=credential"));
        for name in NAMES {
            headers.insert(name, HeaderValue::from_static("credential"));
        }
        headers.insert(token.clone(), secret);
        headers.insert("accept", HeaderValue::from_static("text/html"));
        client.fetch(request).await.unwrap();
        let heads = if kept {
            site.request_heads()
        } else {
            other.request_heads()
        };
        let last = heads.last().unwrap();
        assert_eq!(
            last.matches("credential").count(),
            if kept { 2 + NAMES.len() } else { 0 },
            "{last}"
        );
        assert_eq!(last.contains("hidden-by-its-caller"), kept, "{last}");
        assert!(last.contains("accept: text/html"), "{last}");
        assert!(!last.contains("referer"), "{last}");
    }
    // Another port is another origin.
    assert_eq!(other.request_heads().len(), 1);
}

#[tokio::test]
async fn redirect_status_without_location_is_returned() {
    for status in [
        "404 Not Found",
        "500 Oops",
        "304 Not Modified",
        "302 Found",
        "299 Odd",
    ] {
        let site =
            Site::respond_with(move |_| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
                .await;
        let fetched = fetch(&client(allow_all()), &site.url("/")).await.unwrap();
        assert_eq!(fetched.status.as_str(), &status[..3]);
    }
}
