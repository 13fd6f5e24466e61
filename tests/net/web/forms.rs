//! Forms of a body, partial reads, and size limits.

use std::io::Write;
use std::time::Duration;

use mimir_testkit::{ToolErrorCode, Value, json};

use super::{Site, fetched, kit, named, reply, serves};

/// The result for a body, with more arguments.
fn body_of(kind: &'static str, body: impl AsRef<[u8]>, more: Value) -> Value {
    let site = serves(kind, body);
    let mut arguments = json!({"url": named(&site, "site", "/")});
    super::merge(&mut arguments, more);
    fetched(&kit(json!({})).call("web_fetch", arguments))
}

#[test]
fn web_fetch_returns_the_requested_format() {
    let html = "<title>T</title><h1>Head</h1><p>Some <a href=/x>words</a>";
    for (format, form, body) in [
        (
            "markdown",
            "markdown",
            "# Head\n\nSome [words](http://site.example",
        ),
        ("text", "text", "Head\n\nSome words"),
        ("raw", "raw", html),
    ] {
        let fetched = body_of("text/html", html, json!({"format": format}));
        assert_eq!(fetched["form"], form);
        assert!(
            fetched["body"].as_str().unwrap().starts_with(body),
            "{fetched}"
        );
    }
    let fetched = body_of("application/json", "{\"<a>\": 1}", json!({}));
    assert_eq!(
        (&fetched["form"], &fetched["body"]),
        (&json!("raw"), &json!("{\"<a>\": 1}"))
    );
    let fetched = body_of("", "<!doctype html><p>x", json!({}));
    assert_eq!(
        fetched["form"], "markdown",
        "without a type, it is looked at"
    );
    let fetched = body_of("application/octet-stream", "plain words", json!({}));
    assert_eq!(fetched["body"], "plain words");
}

#[test]
fn web_fetch_decodes_text_by_its_charset() {
    let fetched = body_of(
        "text/plain; charset=ISO-8859-7",
        b"\xca\xe1\xeb\xe7\xec\xdd\xf1\xe1",
        json!({}),
    );
    assert_eq!(
        (&fetched["body"], &fetched["charset"]),
        (&json!("Καλημέρα"), &json!("ISO-8859-7"))
    );
    let page = b"<meta charset=shift_jis><p>\x93\xfa\x96\x7b";
    let fetched = body_of("text/html", page, json!({}));
    assert_eq!(
        (&fetched["body"], &fetched["charset"]),
        (&json!("日本"), &json!("Shift_JIS"))
    );
}

#[test]
fn web_fetch_pages_through_a_long_text() {
    let whole: String = (0..400).map(|n| format!("line {n} ü\n")).collect();
    let site = serves("text/plain", &whole);
    let kit = kit(json!({}));
    let (mut all, mut offset) = (String::new(), json!(0));
    let mut parts = 0;
    while !offset.is_null() {
        let outcome = kit.call(
            "web_fetch",
            json!({"url": named(&site, "site", "/"), "offset": offset, "maxLength": 1000}),
        );
        let part = fetched(&outcome);
        let body = part["body"].as_str().unwrap();
        assert!(body.ends_with('\n'), "between lines: {body:?}");
        assert!(body.chars().count() <= 1000);
        assert_eq!(part["length"], whole.chars().count());
        if let Some(next) = part["nextOffset"].as_u64() {
            assert!(
                outcome
                    .text()
                    .contains(&format!("the next part has offset {next}"))
            );
        }
        all.push_str(body);
        offset = part["nextOffset"].clone();
        parts += 1;
    }
    assert_eq!(all, whole);
    assert!(parts > 4);
    let beyond = kit.call(
        "web_fetch",
        json!({"url": named(&site, "site", "/"), "offset": 1_000_000}),
    );
    assert_eq!(fetched(&beyond)["body"], "");
}

#[test]
fn web_fetch_decompresses_within_limits() {
    // The output of `printf packed | gzip`.
    let packed = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 43, 72, 76, 206, 78, 77, 1, 0, 16, 180, 246, 33, 6, 0, 0,
        0,
    ];
    let site = Site::new(move |received, stream| {
        let (coding, body) = match received.path() {
            "/gzip" => ("gzip", packed.to_vec()),
            "/bomb" => ("gzip", bomb()),
            "/odd" => ("br", b"x".to_vec()),
            _ => ("gzip", b"no gzip".to_vec()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body);
    });
    let kit = kit(json!({}));
    let call = |path| kit.call("web_fetch", json!({"url": named(&site, "site", path)}));
    assert_eq!(fetched(&call("/gzip"))["body"], "packed");
    for (path, code, part) in [
        (
            "/bomb",
            ToolErrorCode::LimitExceeded,
            "decompresses to more than 16 MiB",
        ),
        ("/odd", ToolErrorCode::Network, "which was not requested"),
        ("/broken", ToolErrorCode::Network, "cannot be decompressed"),
    ] {
        let outcome = call(path);
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, code, "{path}: {error}");
        assert!(error.message.contains(part), "{path}: {error}");
    }
}

/// Deflate blocks that each expand to many runs of 258 zeros, as a gzip stream without a valid end.
fn bomb() -> Vec<u8> {
    let mut stored = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    // A block of fixed codes: one literal zero, then length 258 at distance 1 repeatedly. Bits, least significant
    // first.
    let mut bits = vec![1_u8, 1, 0];
    let literal_zero = [0, 0, 1, 1, 0, 0, 0, 0];
    bits.extend(literal_zero);
    // Length code 285 is 11000101, distance code 0 is 00000.
    let run = [1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    for _ in 0..100_000 {
        bits.extend(run);
    }
    bits.extend([0; 7]);
    stored.extend(bits.chunks(8).map(|byte| {
        let bits = byte.iter().enumerate();
        bits.fold(0, |all, (at, bit)| all | (bit << at))
    }));
    stored.extend([0; 8]);
    stored
}

#[test]
fn web_fetch_size_and_time_errors_name_the_setting() {
    let site = Site::new(|received, stream| match received.path() {
        "/slow" => std::thread::sleep(Duration::from_secs(20)),
        "/hangs" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive!");
            std::thread::sleep(Duration::from_secs(20));
        }
        "/drips" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
            while stream.write_all(b".").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        "/cut" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive!");
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        _ => reply(stream, "200 OK", "", &"z".repeat(5000)),
    });
    let settings = json!({"tools": {"web_fetch": {"limits": {"httpBodyBytes": 4096}}}});
    let kit = kit(settings);
    // Both limits are one second, so either may be reached first.
    let hangs = json!({"url": named(&site, "site", "/hangs"), "timeout": 1});
    let error = kit.call("web_fetch", hangs);
    let error = error.result().unwrap_err();
    assert!(error.message.contains("`timeout`"), "{error}");
    for (path, code, part) in [
        (
            "/large",
            ToolErrorCode::LimitExceeded,
            "limits.httpBodyBytes",
        ),
        (
            "/slow",
            ToolErrorCode::Timeout,
            "waiting for the response of the server",
        ),
        ("/slow", ToolErrorCode::Timeout, "(`timeout`: 1 s)"),
        ("/drips", ToolErrorCode::Timeout, "the `timeout` of 1 s"),
        (
            "/cut",
            ToolErrorCode::Network,
            "before message length reached",
        ),
    ] {
        // Where the time is not tested, it must suffice on a busy machine.
        let timeout = if code == ToolErrorCode::Timeout {
            1
        } else {
            30
        };
        let outcome = kit.call(
            "web_fetch",
            json!({"url": named(&site, "site", path), "timeout": timeout}),
        );
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, code, "{path}: {error}");
        assert!(error.message.contains(part), "{path}: {error}");
        if code == ToolErrorCode::Timeout {
            assert!(!error.message.contains("httpTimeMs"), "{path}: {error}");
        }
    }
}

#[test]
fn web_fetch_timeout_names_the_configured_limit() {
    let site = Site::new(|_, _| std::thread::sleep(Duration::from_secs(20)));
    let limits = json!({"tools": {"web_fetch": {"limits": {"httpTimeMs": 700}}}});
    let kit = kit(limits);
    let url = named(&site, "site", "/");
    let outcome = kit.call("web_fetch", json!({ "url": url }));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Timeout);
    assert!(error.message.contains("limits.httpTimeMs"), "{error}");
    assert!(!error.message.contains("`timeout`"), "{error}");
}

#[test]
fn web_fetch_offsets_reveal_no_parts_of_a_secret() {
    const TOKEN: &str = "ghp_8aZq2WvX7kL1sD9fGhB3nM5cR6tY0uE4iO2p";
    let lines = "1aQ9zX8wS7eD6cR5fV4tG3bY2hN1uJ0mI9kO8lP7aQ6zX5wS4eD3cR2fV1tG0bY9\n".repeat(4);
    let whole = format!(
        "a\n-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n{}\"token\": \"{TOKEN}\", {}",
        "\"m\": 1, ".repeat(200),
        "\"n\": 2, ".repeat(200)
    );
    let site = serves("text/plain", &whole);
    let kit = kit(json!({})).approve(mimir_testkit::Approve::Always);
    let at = whole.find(TOKEN).unwrap();
    let offsets = (0..340).step_by(17).chain(at - 120..at + 60);
    for offset in offsets {
        let asked = json!({"url": named(&site, "site", "/"), "offset": offset, "maxLength": 100});
        let shown = fetched(&kit.call("web_fetch", asked)).to_string();
        for piece in [&TOKEN[4..12], &TOKEN[20..28], &TOKEN[32..40], "zX8wS7eD"] {
            assert!(!shown.contains(piece), "{offset}: {shown}");
        }
    }
}
