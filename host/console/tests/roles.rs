use std::sync::Arc;
use std::time::Duration;

use mimir_console::{ConsoleLimits, ConsoleRequest, ConsoleRole};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::client::{Reply, TEST_TIMEOUT, read_until, request, send, with_cookie};
use crate::console::{TestConsole, TestLogin, log_in_with};

const ANSWER: &str = r#"{"fingerprint":"f1","answer":"once"}"#;
const PROPOSAL: &str = r#"{"edit":{"file":"user","changes":[{"key":"a","value":1}]}}"#;
const EDIT: &str = r#"{"edit":{"file":"user","changes":[{"key":"a","value":1}]},"digest":"d"}"#;

fn login() -> Arc<TestLogin> {
    let roles = vec![("vic", ConsoleRole::Viewer), ("app", ConsoleRole::Approver)];
    Arc::new(TestLogin {
        roles: roles.into(),
    })
}

/// Begins a login. Returns the state and the cookie of the step.
async fn begin(console: &TestConsole) -> (String, String) {
    let host = [format!("Host: {}", console.local)];
    let reply = request(console.local, "GET", "/console/login", &host, "").await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    let location = reply.header("location").unwrap();
    let state = location.split(['=', '&']).nth(1).unwrap().to_owned();
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let (cookie, _) = cookie.split_once(';').unwrap();
    (state, cookie.to_owned())
}

async fn call_back(console: &TestConsole, state: &str, code: &str, cookie: &str) -> Reply {
    let path = format!("/console/login/callback?state={state}&code={code}");
    // As a browser sends it that comes from the provider.
    let headers = [
        format!("Host: {}", console.local),
        format!("Cookie: {cookie}"),
        "Sec-Fetch-Site: cross-site".to_owned(),
    ];
    request(console.local, "GET", &path, &headers, "").await
}

/// Logs in as a person. Returns the cookie of the session.
async fn log_in(console: &TestConsole, name: &str) -> String {
    let (state, step) = begin(console).await;
    let reply = call_back(console, &state, name, &step).await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    assert_eq!(reply.header("location"), Some("/console/"));
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("SameSite=Strict"), "{cookie}");
    cookie.split_once(';').unwrap().0.to_owned()
}

#[tokio::test]
async fn console_stops_calls_while_all_other_requests_wait() {
    let console = TestConsole::start_with(|limits| limits.concurrent = 0, Some(login())).await;
    let cookie = log_in(&console, "app").await;
    let headers = with_cookie(console.local, &cookie);
    for (path, body) in [
        ("calls/c1/cancel", ""),
        ("agents/stop", r#"{"pid":1,"session":"s"}"#),
    ] {
        let path = format!("/console/api/{path}");
        let reply = request(console.local, "POST", &path, &headers, body).await;
        assert!(reply.status < 300, "{path}: {}", reply.body);
    }
}

#[tokio::test]
async fn console_viewers_cannot_answer_and_approvers_cannot_edit() {
    let console = TestConsole::start_with(|_| {}, Some(login())).await;
    let viewer = with_cookie(console.local, &log_in(&console, "vic").await);
    let approver = with_cookie(console.local, &log_in(&console, "app").await);
    for (path, body, roles) in [
        ("questions/q1/answer", ANSWER, [403, 200]),
        ("calls/c1/cancel", "", [403, 204]),
        ("agents/stop", r#"{"pid":7,"session":"s"}"#, [403, 204]),
        ("agents/start", r#"{"pid":7,"session":"s"}"#, [403, 204]),
        ("approvals/a1/revoke", "", [403, 204]),
        ("policy/propose", PROPOSAL, [403, 403]),
        ("policy/apply", EDIT, [403, 403]),
        ("tools/t/switch", r#"{"on":true}"#, [403, 403]),
        ("tools/t/trust", r#"{"digest":"d"}"#, [403, 403]),
        ("servers/s/stop", "", [403, 403]),
        ("undo/u1", "", [403, 403]),
        ("stop", "{}", [403, 403]),
        ("start", "", [403, 403]),
        ("pair", "", [403, 403]),
        ("questions/q1/matches", "{}", [204, 204]),
    ] {
        let path = format!("/console/api/{path}");
        for (headers, status) in [&viewer, &approver].into_iter().zip(roles) {
            let reply = request(console.local, "POST", &path, headers, body).await;
            assert_eq!(reply.status, status, "{path}: {}", reply.body);
        }
    }
    for path in [
        "calls",
        "agents",
        "questions",
        "record",
        "tools",
        "policy",
        "undo/u1",
    ] {
        let path = format!("/console/api/{path}");
        let reply = request(console.local, "GET", &path, &viewer, "").await;
        assert_eq!(reply.status, 204, "{path}");
    }
    let forbidden = console.requests().into_iter().find(|request| {
        matches!(
            request,
            ConsoleRequest::ProposeEdit { .. }
                | ConsoleRequest::ApplyEdit { .. }
                | ConsoleRequest::StopAll { .. }
                | ConsoleRequest::Undo { .. }
        )
    });
    assert_eq!(forbidden, None);
}

#[tokio::test]
async fn console_roles_are_those_of_now() {
    let login = login();
    let change = |limits: &mut ConsoleLimits| limits.ping = Duration::from_millis(20);
    let console = TestConsole::start_with(change, Some(Arc::clone(&login) as _)).await;
    let cookie = log_in(&console, "app").await;
    let headers = with_cookie(console.local, &cookie);
    let get = || request(console.local, "GET", "/console/api/calls", &headers, "");
    assert_eq!(get().await.status, 204);
    let mut stream = send(console.local, "GET", "/console/api/events", &headers, "").await;
    read_until(&mut stream, &mut String::new(), "event: ping").await;
    login.roles.lock().clear();
    let reply = get().await;
    assert_eq!(reply.status, 403, "{}", reply.body);
    // A page that was open sees nothing more.
    timeout(TEST_TIMEOUT, stream.read_to_end(&mut Vec::new()))
        .await
        .expect("the stream stays open")
        .unwrap();
    // A person without a role gets no session.
    let (state, step) = begin(&console).await;
    let reply = call_back(&console, &state, "nobody", &step).await;
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("set-cookie"), None);
}

#[tokio::test]
async fn console_login_belongs_to_the_browser_that_began_it_and_works_once() {
    let console =
        TestConsole::start_with(|limits| limits.logins_per_second = 100, Some(login())).await;
    let reply = request(
        console.local,
        "GET",
        "/console/api/state",
        &[format!("Host: {}", console.local)],
        "",
    )
    .await;
    let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(reply.status, 401);
    assert_eq!(body["error"]["login"], "login");
    let (state, _) = begin(&console).await;
    let reply = call_back(&console, &state, "app", "other=1").await;
    assert_eq!(reply.status, 400);
    let (state, step) = begin(&console).await;
    assert_eq!(call_back(&console, "other", "app", &step).await.status, 400);
    let twice = format!("{state}&state={state}");
    assert_eq!(call_back(&console, &twice, "app", &step).await.status, 400);
    assert_eq!(call_back(&console, &state, "app", &step).await.status, 303);
    assert_eq!(call_back(&console, &state, "app", &step).await.status, 400);
    // One-time links are not made here, and a console without a login has no login pages.
    assert!(console.server.local_link().is_err());
    let local = TestConsole::start(|_| {}).await;
    let (base, _) = local.log_in().await;
    let path = format!("{base}login");
    let host = [format!("Host: {}", local.local)];
    assert_eq!(
        request(local.local, "GET", &path, &host, "").await.status,
        404
    );
}

#[tokio::test]
async fn console_paired_devices_approve_and_do_not_administer() {
    let console = TestConsole::start(|_| {}).await;
    let (base, admin) = console.log_in().await;
    let admin = with_cookie(console.local, &admin);
    let path = format!("{base}api/pair");
    let reply = request(console.local, "POST", &path, &admin, "").await;
    assert_eq!((reply.status, reply.code().as_str()), (409, "UNAVAILABLE"));
    let lan = console.listen_on_lan().await;
    let reply = request(console.local, "POST", &path, &admin, "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let pairing: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    let rows = pairing["qr"].as_array().unwrap();
    assert!(
        rows.len() > 20
            && rows
                .iter()
                .all(|row| row.as_array().unwrap().len() == rows.len())
    );
    let (lan_base, cookie) = log_in_with(lan, pairing["url"].as_str().unwrap()).await;
    let phone = with_cookie(lan, &cookie);
    for (path, body, status) in [
        ("questions/q1/answer", ANSWER, 200),
        ("policy/apply", EDIT, 403),
        ("stop", "{}", 403),
        ("pair", "", 403),
    ] {
        let path = format!("{lan_base}api/{path}");
        let reply = request(lan, "POST", &path, &phone, body).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.body);
    }
    let path = format!("{lan_base}api/state");
    let reply = request(lan, "GET", &path, &phone, "").await;
    let state: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(state["role"], "approver");
    assert_eq!(state["local"], false);
    // The cookie of one listener is worth nothing at the other.
    let path = format!("{base}api/state");
    let stolen = with_cookie(console.local, &cookie);
    assert_eq!(
        request(console.local, "GET", &path, &stolen, "")
            .await
            .status,
        401
    );
    let user = console
        .backend
        .seen
        .lock()
        .first()
        .map(|(user, _)| user.name.clone());
    assert_eq!(user.as_deref(), Some("ann (paired device)"));
    assert_eq!(json!(rows[0][0]), 0);
}
