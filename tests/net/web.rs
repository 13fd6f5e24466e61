//! `web_fetch`: results and approval.

use std::io::Write;

use mimir_core::outcome::{Content, TrustLevel};
use mimir_kit::builtins;
use mimir_testkit::{Approve, Outcome, Testkit, ToolErrorCode, Value, json};

use super::site::{Site, reply};

mod forms;
mod gates;

/// A kit with the bundled tools, without a person. `site.example` and `other.example` are this machine, and the first
/// is an allowed host.
pub(super) fn kit(more: Value) -> Testkit {
    let mut settings = json!({
        "network": {"allowedHosts": ["site.example"],
            "hosts": {"site.example": "127.0.0.1", "other.example": "127.0.0.1"}},
        // Each response is untrusted content, which these tests are not about.
        "tools": {"web_fetch": {"labels": {"acceptsUntrusted": true}}},
    });
    merge(&mut settings, more);
    let kit = Testkit::with_bundled(builtins()).unwrap();
    kit.approve(Approve::Nobody).settings(settings).unwrap()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// The URL of a path on the site, under this host name.
pub(super) fn named(site: &Site, name: &str, path: &str) -> String {
    format!("http://{name}.example:{}{path}", site.address.port())
}

/// The structured result of a fetch.
pub(super) fn fetched(outcome: &Outcome) -> Value {
    let output = outcome.result().unwrap_or_else(|error| panic!("{error}"));
    output.structured.clone().unwrap()
}

/// A site that responds with this body and type.
pub(super) fn serves(kind: &'static str, body: impl AsRef<[u8]>) -> Site {
    let body = body.as_ref().to_vec();
    Site::new(move |_, stream| {
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-type: {kind}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body);
    })
}

#[test]
fn web_fetch_saved_page_becomes_readable_markdown() {
    // A page of The Rust Programming Language from its generator (MIT OR Apache-2.0).
    let page = include_str!("pages/installation.html");
    let site = serves("text/html; charset=utf-8", page);
    let kit = kit(json!({}));
    let url = named(&site, "site", "/book/ch01-01-installation.html#here");
    let outcome = kit.call("http_fetch", json!({ "url": url }));
    let text = outcome.text();
    let fetched = fetched(&outcome);
    assert_eq!(fetched["status"], 200);
    assert_eq!(
        fetched["title"],
        "Installation - The Rust Programming Language"
    );
    assert_eq!(fetched["form"], "markdown");
    let body = fetched["body"].as_str().unwrap();
    assert_eq!(
        body.trim_end(),
        include_str!("pages/installation.md").trim_end()
    );
    assert!(body.len() < page.len() / 3, "{}", body.len());
    assert!(text.ends_with(body), "{text}");
    assert!(text.starts_with(&format!("HTTP 200 {}", url.trim_end_matches("#here"))));
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
    assert!(kit.cards().is_empty(), "its host is on the list");
    let received = &site.received()[0];
    assert!(
        received
            .header("accept")
            .unwrap()
            .starts_with("text/markdown")
    );
    assert!(received.header("user-agent").unwrap().starts_with("mimir/"));
}

#[test]
fn web_fetch_infobox_keeps_its_labels() {
    // Written for this test, in the form of an encyclopedia article.
    let site = serves(
        "text/html; charset=utf-8",
        include_str!("pages/infobox.html"),
    );
    let url = named(&site, "site", "/wiki/Marrowdale");
    let outcome = kit(json!({})).call("web_fetch", json!({ "url": url }));
    let fetched = fetched(&outcome);
    let body = fetched["body"].as_str().unwrap();
    let port = format!("site.example:{}/", site.address.port());
    assert_eq!(
        body.trim_end().replace(&port, "site.example/"),
        include_str!("pages/infobox.md").trim_end()
    );
}

#[test]
fn web_fetch_error_status_is_a_result() {
    let site = Site::new(|_, stream| {
        reply(
            stream,
            "404 Not Found",
            "x-why: gone\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n",
            "no such page",
        );
    });
    let outcome = kit(json!({})).call("web_fetch", json!({"url": named(&site, "site", "/x")}));
    let fetched = fetched(&outcome);
    assert_eq!(
        (&fetched["status"], &fetched["body"]),
        (&json!(404), &json!("no such page"))
    );
    assert_eq!(fetched["headers"]["x-why"], "gone");
    assert_eq!(fetched["headers"]["set-cookie"], "a=1, b=2");
}

#[test]
fn web_fetch_sends_the_request_as_written() {
    let site = Site::says("ok");
    let kit = kit(json!({})).approve(Approve::Always);
    let url = named(&site, "site", "/things?a=b%20c");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let body = match method {
            "DELETE" => Value::Null,
            _ => json!("{\"ü\": 1}"),
        };
        kit.call(
            "web_fetch",
            json!({"url": url, "method": method, "headers": {"Content-Type": "application/json", "Accept": "a/b"}, "body": body}),
        );
    }
    let received = site.received();
    assert_eq!(received.len(), 4);
    for (received, method) in received.iter().zip(["POST", "PUT", "PATCH", "DELETE"]) {
        assert!(
            received
                .head
                .starts_with(&format!("{method} /things?a=b%20c ")),
            "{}",
            received.head
        );
        assert_eq!(received.header("content-type"), Some("application/json"));
        assert_eq!(received.header("accept"), Some("a/b"));
    }
    assert_eq!(
        (received[2].body.as_str(), received[3].bytes),
        ("{\"ü\": 1}", 0)
    );
}

#[test]
fn web_fetch_without_body_sends_length_zero_where_usual() {
    let site = Site::says("ok");
    let kit = kit(json!({})).approve(Approve::Always);
    for (method, length) in [
        ("POST", Some("0")),
        ("PUT", Some("0")),
        ("PATCH", Some("0")),
        ("DELETE", None),
        ("GET", None),
    ] {
        let outcome = kit.call(
            "web_fetch",
            json!({"url": named(&site, "site", "/"), "method": method}),
        );
        assert_eq!(fetched(&outcome)["status"], 200);
        let received = site.received();
        assert_eq!(
            received.last().unwrap().header("content-length"),
            length,
            "{method}"
        );
    }
}

#[test]
fn web_fetch_rejects_transport_headers() {
    let site = Site::says("ok");
    let kit = kit(json!({}));
    for name in [
        "Content-Length",
        "host",
        "Transfer-Encoding",
        "connection",
        "TE",
    ] {
        let arguments = json!({"url": named(&site, "site", "/"), "headers": {name: "5"}});
        let outcome = kit.call("web_fetch", arguments);
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput, "{error}");
        assert!(
            error
                .message
                .contains(&format!("`{name}` is set by the host")),
            "{error}"
        );
        assert_eq!(error.details.as_ref().unwrap()["kind"], "forbidden-header");
    }
    assert!(site.received().is_empty());
}

#[test]
fn web_fetch_unreadable_extra_roots_affect_only_tls() {
    let site = Site::says("ok");
    let kit = kit(json!({"network": {"extraRoots": ["gone.pem"]}}));
    let plain = named(&site, "site", "/");
    assert_eq!(
        fetched(&kit.call("web_fetch", json!({"url": plain})))["status"],
        200
    );
    let outcome = kit.call(
        "web_fetch",
        json!({"url": plain.replace("http:", "https:")}),
    );
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable, "{error}");
    assert!(error.message.contains("gone.pem cannot be read"), "{error}");
}

#[test]
fn web_fetch_follows_and_reports_redirects() {
    let site = Site::new(|received, stream| {
        let (status, to) = match received.path() {
            "/a" => ("301 Moved", "/b"),
            "/b" => ("302 Found", "c#part"),
            "/loop" => ("302 Found", "/loop"),
            "/odd" => ("302 Found", "http:\\\\evil.example"),
            "/file" => ("302 Found", "file:///etc/passwd"),
            _ => return reply(stream, "200 OK", "", "there"),
        };
        reply(stream, status, &format!("location: {to}\r\n"), "");
    });
    let kit = kit(json!({})).approve(Approve::Always);
    let at = |path| named(&site, "site", path);
    let headers = json!({"Authorization": "Bearer x", "Content-Type": "text/plain"});
    let outcome = kit.call(
        "web_fetch",
        json!({"url": at("/a"), "method": "POST", "body": "data", "headers": headers}),
    );
    let fetched = fetched(&outcome);
    assert_eq!(fetched["url"], at("/c"));
    assert_eq!(fetched["redirects"], json!([at("/a"), at("/b")]));
    assert!(
        outcome
            .text()
            .contains(&format!("redirected from {}", at("/a")))
    );
    let received = site.received();
    assert!(received[1].head.starts_with("GET /b "), "as browsers do");
    assert_eq!(
        (received[1].header("content-type"), received[1].bytes),
        (None, 0)
    );
    assert_eq!(
        received[1].header("authorization"),
        Some("Bearer x"),
        "the same origin"
    );
    for (path, code, part) in [
        ("/loop", ToolErrorCode::LimitExceeded, "more than 5 times"),
        ("/odd", ToolErrorCode::Network, "not followed"),
        ("/file", ToolErrorCode::Network, "not followed"),
    ] {
        let outcome = kit.call("web_fetch", json!({"url": at(path)}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn web_fetch_returns_binary_data_as_a_file() {
    let data: Vec<u8> = (0..=255).collect();
    let site = serves("image/png", &data);
    let outcome = kit(json!({})).call(
        "web_fetch",
        json!({"url": named(&site, "site", "/pictures/../..%2f..%2fa%20b.png?x")}),
    );
    let fetched = fetched(&outcome);
    assert_eq!(
        (&fetched["form"], &fetched["length"]),
        (&json!("file"), &json!(256))
    );
    let output = outcome.result().unwrap();
    let file = output.content.iter().find_map(|part| match part {
        Content::File {
            name,
            mime_type,
            data,
        } => Some((name, mime_type, data)),
        _ => None,
    });
    let (name, kind, sent) = file.unwrap();
    assert_eq!(kind, "image/png");
    assert_eq!(*sent, data);
    assert!(
        !name.contains(['/', '\\', '%']) && name.ends_with("b.png"),
        "{name}"
    );
}
