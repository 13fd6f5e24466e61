//! Validation of requests: URL, port, method and headers.

use bytes::Bytes;
use http::{Method, Request};
use mimir_core::ToolErrorCode;
use mimir_net::{RequestLimits, headers};

use crate::kit::{
    Names, Site, allow_all, allow_hosts, answer, client, client_with, fetch, get, kind,
};

#[tokio::test]
async fn invalid_url_has_its_own_kind() {
    let client = client(allow_all());
    for (url, kind) in [
        ("ftp://example.com/", "unsupported-scheme"),
        ("file://localhost/etc/passwd", "unsupported-scheme"),
        ("gopher://127.0.0.1/", "unsupported-scheme"),
        ("ws://example.com/", "unsupported-scheme"),
        ("/path", "invalid-url"),
        ("example.com", "invalid-url"),
        ("http://1.2.3.256/", "invalid-url"),
        ("http://a..b/", "invalid-url"),
        ("http://user:hunter2@example.com/", "url-credentials"),
        ("http://safe.example@127.0.0.1/", "url-credentials"),
    ] {
        let error = fetch(&client, url).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (kind, ToolErrorCode::InvalidInput),
            "{url}: {error}"
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn host_spelling_does_not_bypass_the_list() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let client = client(allow_hosts(&["safe.example"]));
    let port = site.address.port();
    for url in [
        format!("http://127.0.0.1:{port}\\@safe.example/"),
        format!("http://safe.example\\@127.0.0.1:{port}/"),
        format!("http://safe.example@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}#@safe.example/"),
        format!("http://127.0.0.1:{port}?@safe.example/"),
        format!("http://１２７.０.０.１:{port}/"),
        format!("http://127。0。0。1:{port}/"),
        format!("http://127%2e0%2e0%2e1:{port}/"),
        format!("http://safe.example.127.0.0.1:{port}/"),
        "http://safe.example.evil.example/".to_owned(),
        "http://notsafe.example/".to_owned(),
        "http://sub.safe.example/".to_owned(),
    ] {
        assert_ne!(kind(&client, &url).await, "", "{url}");
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn host_ignores_case_and_trailing_dot() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let names = Names::of(&[
        ("safe.example", "127.0.0.1"),
        ("xn--bcher-kva.example", "127.0.0.1"),
    ]);
    let mut rules = allow_hosts(&["safe.example", "bücher.example"]);
    rules.block_private = false;
    let client = client_with(rules, &names, RequestLimits::default());
    for host in [
        "http://safe.example",
        "HTTP://SAFE.Example.",
        "http://xn--bcher-kva.example",
    ] {
        assert_eq!(kind(&client, &site.named(host, "/")).await, "", "{host}");
    }
    let hosts: Vec<_> = site
        .request_heads()
        .iter()
        .map(|head| header_line(head, "host"))
        .collect();
    let port = site.address.port();
    let safe = format!("safe.example:{port}");
    assert_eq!(
        hosts,
        [safe.clone(), safe, format!("xn--bcher-kva.example:{port}")]
    );
    // All except the last share one connection.
    assert_eq!(site.connections(), 2);
}

fn header_line(head: &str, name: &str) -> String {
    let value = head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
    value.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn ports_of_other_protocols_are_refused() {
    let names = Names::of(&[("mail.example", "127.0.0.1")]);
    let client = client_with(allow_all(), &names, RequestLimits::default());
    for port in [22, 23, 25, 465, 587, 3389, 4222, 6379, 8222, 11211] {
        let error = fetch(&client, &format!("http://mail.example:{port}/"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), "blocked");
        assert!(
            error.to_string().contains("network.blockedPorts"),
            "{error}"
        );
    }
    assert_eq!(
        names.lookups(),
        [""; 0],
        "a refused request caused a lookup"
    );
}

#[tokio::test]
async fn header_cannot_break_out_of_its_line() {
    for (name, value) in [
        ("x", "a\r\nHost: evil.example"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x\r\nHost", "evil.example"),
        ("x: y", "z"),
        ("", "z"),
        ("host ", "z"),
    ] {
        let error = headers::parse([(name, value)]).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            ("invalid-header", ToolErrorCode::InvalidInput),
            "{name:?}: {value:?}"
        );
        assert!(
            !error.to_string().contains('\r') && !error.to_string().contains("evil.example\n"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn headers_of_the_connection_are_refused() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let client = client(allow_all());
    for (name, value) in [
        ("host", "evil.example"),
        ("Host", "127.0.0.1"),
        ("connection", "keep-alive, x-real-ip"),
        ("keep-alive", "timeout=99"),
        ("proxy-connection", "close"),
        ("proxy-authorization", "Basic x"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("http2-settings", "AAMAAABkAAQAAP__"),
        ("x-http-method-override", "DELETE"),
        ("x-original-url", "/admin"),
    ] {
        let mut request = get(&site.url("/"));
        *request.headers_mut() = headers::parse([(name, value)]).unwrap();
        let error = client.fetch(request).await.expect_err(name);
        assert_eq!(
            (error.kind(), error.code()),
            ("forbidden-header", ToolErrorCode::InvalidInput),
            "{name}"
        );
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn body_must_match_its_announced_length() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let client = client(allow_all());
    for (lengths, fits) in [
        (vec!["5"], true),
        (vec!["4"], false),
        (vec!["6"], false),
        (vec!["5", "5"], false),
        (vec!["+5"], false),
        (vec!["5, 5"], false),
        (vec!["0x5"], false),
        (vec![""], false),
    ] {
        let pairs = lengths.iter().map(|length| ("content-length", *length));
        let mut request = Request::post(site.url("/"))
            .body(Bytes::from("hello"))
            .unwrap();
        *request.headers_mut() = headers::parse(pairs).unwrap();
        let sent = client.fetch(request).await;
        assert_eq!(sent.is_ok(), fits, "{lengths:?}: {sent:?}");
        assert!(
            sent.err()
                .is_none_or(|error| error.code() == ToolErrorCode::InvalidInput)
        );
    }
}

#[tokio::test]
async fn methods_for_tunnels_and_echoes_are_refused() {
    let site = Site::respond_with(|_| answer("200 OK", "", "hello")).await;
    let client = client(allow_all());
    for method in ["CONNECT", "TRACE", "TRACK"] {
        let mut request = get(&site.url("/"));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(
            client.fetch(request).await.unwrap_err().kind(),
            "forbidden-method"
        );
    }
    assert_eq!(site.connections(), 0);
}

/// All characters that a URL may contain arrive encoded, with their meaning unchanged.
#[tokio::test]
async fn url_with_odd_characters_arrives_encoded() {
    let site = Site::respond_with(|_| answer("200 OK", "", "")).await;
    let client = client(allow_all());
    fetch(&client, &site.url("/a%20b{c}|d^e`f\"?g=<h>&i='j'`#k"))
        .await
        .unwrap();
    let head = site.request_heads().remove(0);
    let line = head.lines().next().unwrap();
    assert!(
        line.starts_with("GET /a%20b%7Bc%7D|d^e%60f%22?g=%3Ch%3E&i=%27j%27` HTTP/1.1"),
        "{line}"
    );
}
