//! Allowed requests and their responses.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use mimir_core::needs::HostNeed;
use mimir_testkit::{Approve, Testkit, ToolErrorCode, json};

use super::site::{Site, reply};
use super::{change, fetch, grant, granted};
use crate::guests;

#[test]
fn http_granted_request_returns_the_response() {
    let site = Site::new(|_, stream| reply(stream, "418 I'm a teapot", "x-kind: pot\r\n", "short"));
    let kit = granted(json!({}));
    let step = json!({"url": site.url("/a?b=c"), "headers": {"x-own": "1"}});
    let results = fetch(&kit, json!([step]));
    assert_eq!(results[0]["status"], 418);
    assert_eq!(results[0]["body"], "short");
    assert_eq!(results[0]["headers"]["x-kind"], "pot");
    let received = &site.received()[0];
    assert_eq!(received.path(), "/a?b=c");
    assert_eq!(received.header("x-own"), Some("1"));
    assert_eq!(
        received.header("host"),
        Some(site.address.to_string().as_str())
    );
    assert!(kit.cards().is_empty(), "the grant is the answer");
}

#[test]
fn http_bodies_and_trailers_stream_both_ways() {
    let site = Site::new(|received, stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n");
        // More than any buffer on the path.
        for _ in 0..received.bytes / 4096 {
            let _ = stream.write_all(format!("1000\r\n{}\r\n", "y".repeat(4096)).as_bytes());
        }
        let _ = stream.write_all(b"0\r\nx-sum: 7\r\n\r\n");
    });
    let kit = granted(json!({}));
    let step = json!({
        "url": site.url("/"), "method": "POST", "chunks": 64,
        "headers": {"trailer": "x-own"}, "trailers": {"x-own": "9"},
    });
    let results = fetch(&kit, json!([step]));
    assert_eq!(results[0]["bytes"], 64 * 65536, "{:?}", results[0]);
    assert_eq!(results[0]["trailers"]["x-sum"], "7");
    let received = &site.received()[0];
    assert_eq!(received.bytes, 64 * 65536);
    assert!(received.trailers.contains("x-own: 9"), "{received:?}");
}

#[test]
fn http_connections_are_reused_by_calls_of_one_tool() {
    let site = Site::says("ok");
    let kit = granted(json!({}));
    for _ in 0..3 {
        fetch(
            &kit,
            json!([{"url": site.url("/")}, {"url": site.url("/")}]),
        );
    }
    let received = site.received();
    assert_eq!(received.len(), 6);
    assert!(
        received.iter().all(|received| received.connection == 0),
        "{received:?}"
    );
}

#[test]
fn http_timeouts_of_guest_and_settings_apply() {
    let silent = Site::new(|_, _| std::thread::sleep(std::time::Duration::from_secs(20)));
    let kit = granted(json!({}));
    let step = json!({"url": silent.url("/"), "firstByteMs": 100});
    assert_eq!(
        fetch(&kit, json!([step]))[0]["error"],
        "HttpResponseTimeout"
    );

    let kit = granted(json!({"limits": {"httpTimeMs": 100}}));
    let steps = json!({"strict": true, "steps": [{"url": silent.url("/")}]});
    let outcome = kit.call("fetch", steps);
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Timeout);
    assert!(error.message.contains("HttpResponseTimeout"), "{error}");
}

#[test]
fn http_tool_timeout_is_claimed_by_its_code_and_not_by_its_details() {
    let site = Site::says("ok");
    let kit = granted(json!({}));
    let details = json!({"code": "TIMEOUT", "page": 7});
    let fails = |code: &str| {
        let failure = json!({"code": code, "details": details});
        let steps = json!([{"url": site.url("/")}]);
        let outcome = kit.call("fetch", json!({"steps": steps, "fails": failure}));
        outcome.result().unwrap_err().clone()
    };
    for (code, expected) in [
        ("EXECUTION_ERROR", ToolErrorCode::ExecutionError),
        ("TIMEOUT", ToolErrorCode::Timeout),
    ] {
        let error = fails(code);
        assert_eq!(error.code, expected, "{error}");
        assert_eq!(error.details.as_ref(), Some(&details), "{error}");
    }
}

#[test]
fn http_bodies_are_limited_both_ways() {
    let site = Site::new(|received, stream| {
        let body = "z".repeat(if received.path() == "/large" {
            5000
        } else {
            10
        });
        reply(stream, "200 OK", "", &body);
    });
    let kit = granted(json!({"tools": {"fetch": {"limits": {"httpBodyBytes": 4096}}}}));
    let post = json!({"url": site.url("/"), "method": "POST", "chunks": 1});
    for (step, code, part) in [
        (
            json!({"url": site.url("/large")}),
            "HttpResponseBodySize",
            "the body of the response",
        ),
        (post, "HttpRequestBodySize", "the body of the request"),
    ] {
        let outcome = kit.call("fetch", json!({"strict": true, "steps": [step]}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{error}");
        assert!(error.message.contains(part), "{error}");
        assert!(error.message.contains("limits.httpBodyBytes"), "{error}");
        assert!(error.message.contains(code), "{error}");
    }
    assert_eq!(
        fetch(&kit, json!([{"url": site.url("/")}]))[0]["status"],
        200
    );
    assert!(site.received().iter().all(|received| received.bytes == 0));
}

#[test]
fn http_host_grant_opens_no_raw_socket_or_dns() {
    let site = Site::says("ok");
    let kit = Testkit::new(guests::NETWORK.path)
        .unwrap()
        .approve(Approve::Nobody);
    change(&kit, |tool| {
        tool.definition.needs.hosts = vec![HostNeed {
            host: "127.0.0.1".to_owned(),
            methods: vec!["GET".to_owned()],
            reason: String::new(),
        }];
        grant(tool);
    });
    let outcome = kit.call("network", json!({"port": site.address.port()}));
    assert_eq!(outcome.text(), r#"reached: ["http"]"#);
}

#[test]
fn http_connection_closes_when_the_call_is_stopped() {
    let (told, closed) = std::sync::mpsc::channel();
    let site = Site::new(move |_, stream| {
        // The connection is silent until the other side closes it.
        let ended = stream.read(&mut [0; 1]);
        let _ = told.send(matches!(ended, Ok(0) | Err(_)));
    });
    let kit = granted(json!({"limits": {"timeMs": 3_000}}));
    let start = Instant::now();
    let outcome = kit.call("fetch", json!({"steps": [{"url": site.url("/")}]}));
    assert_eq!(outcome.result().unwrap_err().code, ToolErrorCode::Timeout);
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(closed.recv_timeout(Duration::from_secs(30)), Ok(true));
}
