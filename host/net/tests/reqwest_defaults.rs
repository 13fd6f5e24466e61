//! Defaults of reqwest that the client of the host's own requests switches off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{AUTHORIZATION, HeaderValue};
use mimir_core::network::NetworkPolicy;
use mimir_net::{HostClient, PolicyGuard, PolicyOnly, RequestLimits, TlsRoots};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{
    Authority, Names, Site, allow_all, answer, client, client_with, fetch, get, pin_to_loopback,
};

/// Neither `send` nor reqwest below it follows a redirect.
#[tokio::test]
async fn send_returns_a_redirect_unfollowed() {
    let inside = Site::respond_with(|_| answer("200 OK", "", "inside")).await;
    let location = format!("location: {}\r\n", inside.url("/"));
    let site = Site::respond_with(move |_| answer("302 Found", &location, "")).await;
    let request = get(&site.url("/")).map(http_body_util::Full::new);
    let response = client(allow_all()).send(request).await.unwrap();
    assert_eq!(response.status(), 302);
    assert_eq!(inside.connections(), 0);
}

/// Only what the caller set is sent, besides `accept`: no agent, no referer, no cookie of an earlier response.
#[tokio::test]
async fn request_has_only_the_headers_of_its_caller() {
    let site = Site::respond_with(|_| answer("200 OK", "set-cookie: a=b\r\n", "")).await;
    let client = client(allow_all());
    for _ in 0..2 {
        let mut request = get(&site.url("/"));
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer token"));
        client.fetch(request).await.unwrap();
    }
    let expected = ["accept", "accept-encoding", "authorization", "host"];
    for head in site.request_heads() {
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut names: Vec<&str> = lines.map(|(name, _)| name).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{head}");
    }
}

/// A request that was perhaps received is not sent a second time.
#[tokio::test]
async fn request_is_not_repeated_after_a_lost_connection() {
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    let site = Site::of(move |mut stream| {
        let count = Arc::clone(&count);
        async move {
            let mut buffer = [0; 4096];
            // Answers the first request of a connection only, and closes it after the second.
            for answered in [true, false] {
                if !matches!(stream.read(&mut buffer).await, Ok(1..)) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                if answered {
                    let reply = answer("200 OK", "", "hello");
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        }
    })
    .await;
    let client = client(allow_all());
    assert_eq!(fetch(&client, &site.url("/")).await.unwrap().body, "hello");
    let error = fetch(&client, &site.url("/")).await.unwrap_err();
    assert_eq!(error.kind(), "protocol-error");
    assert_eq!(received.load(Ordering::SeqCst), 2);
}

/// A connection belongs to one origin: the same name at another port is looked up and judged again.
#[tokio::test]
async fn every_origin_is_looked_up_and_judged() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let other = Site::respond_with(|_| answer("200 OK", "", "inside")).await;
    let names = Names::of(&[("app.example", "127.0.0.1;169.254.169.254")]);
    let client = client_with(allow_all(), &names, RequestLimits::default());
    let url = site.named("http://app.example", "/");
    assert_eq!(fetch(&client, &url).await.unwrap().body, "hello");
    let url = other.named("http://app.example", "/");
    let error = fetch(&client, &url).await.unwrap_err();
    assert_eq!(error.kind(), "blocked-address");
    assert_eq!(names.lookups(), ["app.example", "app.example"]);
    assert_eq!(other.connections(), 0);
}

/// An unencrypted request needs no roots, and one over TLS reports why they are missing.
#[tokio::test]
async fn unavailable_roots_fail_only_tls_connections() {
    let authority = Authority::new();
    let missing = TlsRoots::with_extra(&[authority.folder().join("missing.pem")]).unwrap_err();
    let rules = pin_to_loopback(allow_all(), "safe.example");
    let client = HostClient::new(
        Arc::new(PolicyGuard::new(NetworkPolicy::new(rules))),
        Arc::new(PolicyOnly),
        TlsRoots::unavailable(missing),
        RequestLimits::default(),
        None,
    );
    let clear = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let url = clear.named("http://safe.example", "/");
    assert_eq!(fetch(&client, &url).await.unwrap().body, "hello");
    let safe = Site::https(authority.server(&["safe.example"], &[]), |_| async {
        crate::kit::text("hello")
    })
    .await;
    let url = safe.named("https://safe.example", "/");
    assert_eq!(
        fetch(&client, &url).await.unwrap_err().kind(),
        "extra-roots"
    );
}
