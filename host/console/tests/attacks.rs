use std::time::Duration;

use mimir_console::ConsoleRequest;

use crate::client::{own_headers, request, with_cookie};
use crate::console::{FINGERPRINT, TestConsole, log_in_with, parts_of, send_key};

/// Replaces a header.
fn replaced(headers: &[String], name: &str, value: Option<&str>) -> Vec<String> {
    let start = format!("{name}: ");
    let mut headers = headers.to_vec();
    headers.retain(|header| !header.starts_with(&start));
    headers.extend(value.map(|value| format!("{start}{value}")));
    headers
}

#[tokio::test]
async fn console_refuses_rebound_names() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let port = console.local.port();
    let headers = with_cookie(console.local, &cookie);
    let path = format!("{base}api/state");
    let own = request(console.local, "GET", &path, &headers, "").await;
    assert_eq!(own.status, 200, "{}", own.body);
    for host in [
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("0.0.0.0:{port}"),
        "evil.example".to_owned(),
    ] {
        for path in [&path, &base, "/", &format!("{base}console.js")] {
            let headers = replaced(&headers, "Host", Some(&host));
            let reply = request(console.local, "GET", path, &headers, "").await;
            // Outside of the base, nothing is served at all.
            let expected = if path == "/" { 404 } else { 403 };
            assert_eq!(reply.status, expected, "{host} {path}: {}", reply.body);
        }
    }
    let headers = replaced(&headers, "Host", None);
    let reply = request(console.local, "GET", &path, &headers, "").await;
    assert!(matches!(reply.status, 400 | 403), "{}", reply.status);
    let absolute = format!("http://evil.example{path}");
    let headers = with_cookie(console.local, &cookie);
    let reply = request(console.local, "GET", &absolute, &headers, "").await;
    assert_eq!(reply.status, 403, "{}", reply.body);
}

#[tokio::test]
async fn console_refuses_changes_by_other_pages() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let good = with_cookie(console.local, &cookie);
    let path = format!("{base}api/stop");
    let revoke = format!("{base}api/approvals/a1/revoke");
    let form = "application/x-www-form-urlencoded";
    for (name, value, status) in [
        ("Origin", None, 403),
        ("Origin", Some("null"), 403),
        ("Origin", Some("http://evil.example"), 403),
        ("Origin", Some("http://127.0.0.1:1"), 403),
        ("X-Mimir-Console", None, 403),
        ("X-Mimir-Console", Some("2"), 403),
        ("Sec-Fetch-Site", Some("same-site"), 403),
        ("Sec-Fetch-Site", Some("cross-site"), 403),
        ("Content-Type", Some(form), 415),
        ("Content-Type", Some("text/plain"), 415),
        ("Content-Type", None, 415),
    ] {
        let headers = replaced(&good, name, value);
        for path in [&path, &revoke] {
            let reply = request(console.local, "POST", path, &headers, "{}").await;
            assert_eq!(reply.status, status, "{name}: {value:?}: {}", reply.body);
        }
    }
    // A form of another site, as a browser sends it.
    let headers = [
        format!("Host: {}", console.local),
        "Origin: https://evil.example".to_owned(),
        format!("Content-Type: {form}"),
        "Sec-Fetch-Site: cross-site".to_owned(),
        format!("Cookie: {cookie}"),
    ];
    let reply = request(console.local, "POST", &path, &headers, "reason=x").await;
    assert_eq!(reply.status, 403, "{}", reply.body);
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let reply = request(console.local, method, &path, &good, "").await;
        assert_eq!(reply.status, 405, "{method}");
        let allows = reply
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control"));
        assert!(!allows, "{method}");
    }
    assert_eq!(console.requests(), []);
    let reply = request(console.local, "POST", &path, &good, "{}").await;
    assert_eq!(reply.status, 204, "{}", reply.body);
    assert_eq!(
        console.requests(),
        [ConsoleRequest::StopAll { reason: None }]
    );
}

#[tokio::test]
async fn console_is_not_read_by_other_pages() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let good = with_cookie(console.local, &cookie);
    for path in ["api/calls", "api/events", "api/record/export"] {
        let path = format!("{base}{path}");
        for (name, value) in [
            ("Origin", "https://evil.example"),
            ("Origin", "http://127.0.0.1:1"),
            ("Sec-Fetch-Site", "same-site"),
            ("Sec-Fetch-Site", "cross-site"),
        ] {
            let headers = replaced(&good, name, Some(value));
            let reply = request(console.local, "GET", &path, &headers, "").await;
            assert_eq!(reply.status, 403, "{path} {value}");
            let allows = reply
                .headers
                .iter()
                .any(|(name, _)| name.starts_with("access-control"));
            assert!(!allows, "{path}");
        }
    }
    // Another server on this machine gets the cookie only for the same path, which it does not know.
    for path in ["/api/calls", "/other/api/calls", "/"] {
        let reply = request(console.local, "GET", path, &good, "").await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(
            !reply.body.contains(base.trim_matches('/')),
            "{}",
            reply.body
        );
    }
    assert!(base.len() > 20, "{base}");
}

#[tokio::test]
async fn console_responses_have_security_headers_and_cannot_be_framed() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    for (path, status) in [
        (base.clone(), 200),
        (format!("{base}console.js"), 200),
        (format!("{base}api/state"), 200),
        (format!("{base}api/unknown"), 404),
        (format!("{base}unknown"), 404),
        ("/".to_owned(), 404),
    ] {
        let reply = request(console.local, "GET", &path, &headers, "").await;
        assert_eq!(reply.status, status, "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
    }
}

#[tokio::test]
async fn console_links_work_once_for_a_short_time_at_their_place() {
    let console = TestConsole::start(|limits| {
        limits.link_lifetime = Duration::from_millis(300);
        limits.logins_per_second = 100;
    })
    .await;
    let link = console.server.local_link().unwrap();
    let (base, key) = parts_of(&link.url);
    assert!(key.len() >= 43, "{key}");
    let (_, cookie) = log_in_with(console.local, &link.url).await;
    for used in [key.as_str(), "", "x", &cookie] {
        let reply = send_key(console.local, &base, used).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (401, "LOGIN_REQUIRED")
        );
        assert_eq!(reply.header("set-cookie"), None);
    }
    let (_, key) = parts_of(&console.server.local_link().unwrap().url);
    tokio::time::sleep(Duration::from_millis(310)).await;
    let reply = send_key(console.local, &base, &key).await;
    assert_eq!(reply.status, 401);
    // A link for a phone does not work on this machine, where it would get more rights, and the reverse.
    let lan = console.listen_on_lan().await;
    let (link, _) = console.server.pairing_link().unwrap();
    let (lan_base, key) = parts_of(&link.url);
    assert_eq!(send_key(console.local, &base, &key).await.status, 401);
    assert_eq!(send_key(lan, &lan_base, &key).await.status, 401);
    let (_, key) = parts_of(&console.server.local_link().unwrap().url);
    assert_eq!(send_key(lan, &lan_base, &key).await.status, 401);
}

#[tokio::test]
async fn console_cookie_is_closed_to_scripts_and_other_sites() {
    let console = TestConsole::start(|_| {}).await;
    let link = console.server.local_link().unwrap();
    let (base, key) = parts_of(&link.url);
    let reply = send_key(console.local, &base, &key).await;
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", &format!("Path={base};")] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    let secret = cookie.split(['=', ';']).nth(1).unwrap();
    assert!(secret.len() >= 43, "{cookie}");
    assert!(!reply.body.contains(secret));
    // A person who logs out leaves nothing behind.
    let (cookie, _) = cookie.split_once(';').unwrap();
    let headers = with_cookie(console.local, cookie);
    let path = format!("{base}api/logout");
    let reply = request(console.local, "POST", &path, &headers, "").await;
    assert_eq!(reply.status, 204);
    assert!(reply.header("set-cookie").unwrap().contains("Max-Age=0"));
    let path = format!("{base}api/state");
    let reply = request(console.local, "GET", &path, &headers, "").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (401, "LOGIN_REQUIRED")
    );
}

#[tokio::test]
async fn console_counts_an_answer_once_and_only_for_its_card() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    let answer = |id: &str, fingerprint: &str| {
        let path = format!("{base}api/questions/{id}/answer");
        let body = serde_json::json!({"fingerprint": fingerprint, "answer": "once"}).to_string();
        let headers = headers.clone();
        async move { request(console.local, "POST", &path, &headers, &body).await }
    };
    let other = answer("q1", "f2").await;
    assert_eq!((other.status, other.code().as_str()), (409, "UNAVAILABLE"));
    let late = answer("q2", FINGERPRINT).await;
    assert_eq!((late.status, late.code().as_str()), (409, "NOT_FOUND"));
    let first = answer("q1", FINGERPRINT).await;
    assert_eq!(
        (first.status, first.body.as_str()),
        (200, "{\"counted\":true}")
    );
    let replayed = answer("q1", FINGERPRINT).await;
    assert_eq!(
        (replayed.status, replayed.code().as_str()),
        (409, "UNAVAILABLE")
    );
    // Without a session, nothing is said about questions.
    let path = format!("{base}api/questions/q1/answer");
    let reply = request(
        console.local,
        "POST",
        &path,
        &own_headers(console.local),
        "{}",
    )
    .await;
    assert_eq!(reply.status, 401);
}

#[tokio::test]
async fn console_paths_do_not_leave_the_page() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    for path in [
        "../Cargo.toml",
        "..%2f..%2fCargo.toml",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "console.js/../../Cargo.toml",
        "console.js%00.html",
        "dist/console.js",
        "SHA256SUMS",
        "api/../console.js",
        "api/undo/..%2f..%2f..%2fetc%2fpasswd",
        "api/undo/%2e%2e",
        "api/record/calls/a%5c..%5cb",
        "api/tools/%00",
    ] {
        let path = format!("{base}{path}");
        let reply = request(console.local, "GET", &path, &headers, "").await;
        assert_eq!(reply.status, 404, "{path}: {}", reply.body);
    }
    assert_eq!(console.requests(), []);
}

#[tokio::test]
async fn console_limits_bodies_requests_and_sessions() {
    let console = TestConsole::start(|limits| {
        limits.sessions = 2;
        limits.request_burst = 5;
        limits.requests_per_second = 1;
        limits.logins_per_second = 2;
    })
    .await;
    let (base, first) = console.log_in().await;
    let headers = with_cookie(console.local, &first);
    let path = format!("{base}api/stop");
    let large = format!("{{\"reason\":\"{}\"}}", "x".repeat(1 << 20));
    let reply = request(console.local, "POST", &path, &headers, &large).await;
    assert_eq!(reply.status, 413, "{}", reply.body);
    let deep = "[".repeat(100_000);
    let reply = request(console.local, "POST", &path, &headers, &deep).await;
    assert_eq!(reply.status, 400);
    let path = format!("{base}api/state");
    let mut statuses = vec![];
    for _ in 0..5 {
        statuses.push(
            request(console.local, "GET", &path, &headers, "")
                .await
                .status,
        );
    }
    assert_eq!(statuses[..3], [200; 3]);
    assert_eq!(statuses[4], 429, "{statuses:?}");
    // Further sessions end the one that was unused for the longest time.
    let (_, second) = console.log_in().await;
    let (_, third) = console.log_in().await;
    let mut statuses = vec![];
    for cookie in [&first, &second, &third] {
        let headers = with_cookie(console.local, cookie);
        statuses.push(
            request(console.local, "GET", &path, &headers, "")
                .await
                .status,
        );
    }
    assert_eq!(statuses, [401, 200, 200]);
    // Guessing keys is slow.
    let mut statuses = vec![];
    for _ in 0..12 {
        statuses.push(send_key(console.local, &base, "guess").await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn console_survives_faults_of_the_backend_and_hides_control_characters() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    let path = format!("{base}api/undo/u1");
    let reply = request(console.local, "POST", &path, &headers, "").await;
    assert_eq!((reply.status, reply.code().as_str()), (500, "INTERNAL"));
    let path = format!("{base}api/state");
    let reply = request(console.local, "GET", &path, &headers, "").await;
    let state: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(state["workspace"], "w\\u{202e}\\u{1b}[31m");
    assert_eq!(state["role"], "admin");
    assert_eq!(state["local"], true);
    assert_eq!(state["user"], "ann");
    let path = format!("{base}api/record/export?tool=x");
    let reply = request(console.local, "GET", &path, &headers, "").await;
    assert!(
        reply
            .header("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
    assert!(reply.body.contains("{\"a\":1}\n"), "{}", reply.body);
    // A filter that is not valid is no download that breaks off.
    let path = format!("{base}api/record/export?outcome=great");
    let reply = request(console.local, "GET", &path, &headers, "").await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "INVALID_INPUT")
    );
    assert!(reply.header("content-disposition").is_none());
}
