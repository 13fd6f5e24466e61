//! People who ask for much at a time: it is limited, and others go on.

use std::sync::Arc;
use std::time::Duration;

use mimir_console::{ConsoleLimits, ConsoleRequest, ConsoleRole};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::client::{Reply, TEST_TIMEOUT, request, send, with_cookie};
use crate::console::{TestConsole, TestLogin};

const WHAT_IF: (&str, &str) = (
    "policy/what-if",
    r#"{"edit":{"file":"user","changes":[{"key":"policy.deny","value":["x"]}]}}"#,
);

/// A person with a session.
struct Browser<'a> {
    console: &'a TestConsole,
    headers: Vec<String>,
}

impl<'a> Browser<'a> {
    async fn log_in(console: &'a TestConsole, person: &str) -> Self {
        let begun = get_login(console, &[]).await;
        let done = call_back(console, &begun, person).await;
        assert_eq!(done.status, 303, "{}", done.body);
        Self {
            console,
            headers: with_cookie(console.local, &cookie_of(&done)),
        }
    }

    async fn post(&self, (path, body): (&str, &str)) -> Reply {
        let path = format!("/console/api/{path}");
        request(self.console.local, "POST", &path, &self.headers, body).await
    }

    /// Sends a request, and does not wait for its response.
    async fn begin(&self, (path, body): (&str, &str)) -> TcpStream {
        let path = format!("/console/api/{path}");
        send(self.console.local, "POST", &path, &self.headers, body).await
    }

    async fn get(&self, path: &str) -> Reply {
        let path = format!("/console/api/{path}");
        request(self.console.local, "GET", &path, &self.headers, "").await
    }

    /// Waits until a request is not refused because too many others wait.
    async fn get_when_possible(&self, path: &str) -> Reply {
        let tried = async {
            loop {
                let reply = self.get(path).await;
                if reply.status != 429 {
                    return reply;
                }
                yield_now().await;
            }
        };
        timeout(TEST_TIMEOUT, tried)
            .await
            .expect("the requests of clients that have left still wait")
    }
}

async fn start(change: impl FnOnce(&mut ConsoleLimits)) -> TestConsole {
    let roles = ["ann", "bob", "cid", "app"].map(|name| match name {
        "app" => (name, ConsoleRole::Approver),
        _ => (name, ConsoleRole::Viewer),
    });
    let login = TestLogin {
        roles: roles.to_vec().into(),
    };
    TestConsole::start_with(change, Some(Arc::new(login))).await
}

async fn get_login(console: &TestConsole, headers: &[String]) -> Reply {
    let mut all = vec![format!("Host: {}", console.local)];
    all.extend_from_slice(headers);
    request(console.local, "GET", "/console/login", &all, "").await
}

async fn call_back(console: &TestConsole, begun: &Reply, person: &str) -> Reply {
    assert_eq!(begun.status, 303, "{}", begun.body);
    let location = begun.header("location").unwrap();
    let state = location.split(['=', '&']).nth(1).unwrap();
    let path = format!("/console/login/callback?state={state}&code={person}");
    let headers = [
        format!("Host: {}", console.local),
        format!("Cookie: {}", cookie_of(begun)),
    ];
    request(console.local, "GET", &path, &headers, "").await
}

fn cookie_of(reply: &Reply) -> String {
    let cookie = reply.header("set-cookie").unwrap();
    cookie.split_once(';').unwrap().0.to_owned()
}

/// Returns the number of evaluations that have reached the backend.
fn evaluations(console: &TestConsole) -> usize {
    let seen = console.requests();
    let evaluations = seen.iter().filter(|request| {
        matches!(
            request,
            ConsoleRequest::WhatIf { .. } | ConsoleRequest::ExplainCall { .. }
        )
    });
    evaluations.count()
}

async fn wait_for_evaluations(console: &TestConsole, count: usize) {
    let reached = async {
        while evaluations(console) < count {
            yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, reached)
        .await
        .expect("an evaluation does not begin");
}

#[tokio::test]
async fn console_evaluates_few_edits_at_a_time_and_answers_others() {
    let console = start(|_| {}).await;
    console.backend.held.send_replace(true);
    let viewers = [
        Browser::log_in(&console, "ann").await,
        Browser::log_in(&console, "bob").await,
        Browser::log_in(&console, "cid").await,
    ];
    let explain = ("policy/explain", r#"{"tool":"t"}"#);
    let mut streams = Vec::new();
    for viewer in &viewers {
        for request in [WHAT_IF, explain, WHAT_IF, explain] {
            streams.push(viewer.begin(request).await);
        }
    }
    wait_for_evaluations(&console, 2).await;
    let approver = Browser::log_in(&console, "app").await;
    let stop = ("agents/stop", r#"{"pid":1,"session":"s"}"#);
    assert_eq!(approver.post(stop).await.status, 204);
    let answer = json!({"fingerprint": "f1", "answer": "no"}).to_string();
    let answered = approver.post(("questions/q1/answer", &answer)).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    // Also what the same people ask for besides.
    for viewer in &viewers {
        assert_eq!(viewer.get("state").await.status, 200);
    }
    assert_eq!(evaluations(&console), 2);
    console.backend.held.send_replace(false);
    for mut stream in streams {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 204"), "{reply}");
    }
    assert_eq!(evaluations(&console), 12);
}

#[tokio::test]
async fn console_forgets_waiting_requests_of_clients_that_leave() {
    // Room for one that runs and one that waits.
    let console = start(|limits| limits.user_requests = 2).await;
    console.backend.held.send_replace(true);
    let viewer = Browser::log_in(&console, "ann").await;
    let running = viewer.begin(WHAT_IF).await;
    wait_for_evaluations(&console, 1).await;
    let mut waiting = Vec::new();
    let filled = async {
        loop {
            waiting.push(viewer.begin(WHAT_IF).await);
            let reply = viewer.get("state").await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    let reply = timeout(TEST_TIMEOUT, filled)
        .await
        .expect("the requests of one person are not limited");
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (429, "LIMIT_EXCEEDED")
    );
    // Others are not affected.
    let other = Browser::log_in(&console, "bob").await;
    assert_eq!(other.get("state").await.status, 200);
    drop((running, waiting));
    assert_eq!(viewer.get_when_possible("state").await.status, 200);
    console.backend.held.send_replace(false);
    assert_eq!(viewer.post(WHAT_IF).await.status, 204);
    assert_eq!(evaluations(&console), 2);
}

#[tokio::test]
async fn console_orders_do_not_wait_for_other_requests_of_the_person() {
    let console = start(|limits| limits.user_requests = 1).await;
    console.backend.held.send_replace(true);
    let approver = Browser::log_in(&console, "app").await;
    let running = approver.begin(WHAT_IF).await;
    wait_for_evaluations(&console, 1).await;
    assert_eq!(approver.get("state").await.status, 429);
    let agent = r#"{"pid":1,"session":"s"}"#;
    for order in ["agents/stop", "agents/start"] {
        let reply = approver.post((order, agent)).await;
        assert_eq!(reply.status, 204, "{order}: {}", reply.body);
    }
    drop(running);
    console.backend.held.send_replace(false);
}

#[tokio::test]
async fn console_gives_up_requests_that_wait_for_too_long() {
    let console = start(|limits| limits.request_time = Duration::from_millis(200)).await;
    console.backend.held.send_replace(true);
    let viewer = Browser::log_in(&console, "ann").await;
    let running = viewer.post(WHAT_IF).await;
    assert_eq!((running.status, running.code().as_str()), (504, "TIMEOUT"));
    // The first one still runs.
    let waited = viewer.post(WHAT_IF).await;
    assert_eq!(
        (waited.status, waited.code().as_str()),
        (503, "UNAVAILABLE")
    );
    console.backend.held.send_replace(false);
    assert_eq!(viewer.get("state").await.status, 200);
    assert_eq!(evaluations(&console), 1);
}

#[tokio::test]
async fn console_handles_few_requests_of_one_person_at_a_time() {
    let console = start(|limits| limits.user_concurrent = 3).await;
    console.backend.held.send_replace(true);
    let viewer = Browser::log_in(&console, "ann").await;
    let mut streams = Vec::new();
    let path = "/console/api/record/charts";
    for _ in 0..10 {
        streams.push(send(console.local, "GET", path, &viewer.headers, "").await);
    }
    let count = || console.requests().len();
    let reached = async {
        while count() < 3 {
            yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, reached).await.unwrap();
    let other = Browser::log_in(&console, "bob").await;
    assert_eq!(other.get("state").await.status, 200);
    assert_eq!(count(), 4);
    console.backend.held.send_replace(false);
    assert_eq!(viewer.get("state").await.status, 200);
}

#[tokio::test]
async fn console_refuses_edits_with_large_values() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    let names: Vec<String> = (0..10_000).map(|n| format!("a{n}")).collect();
    let large = json!({"key": "policy.deny", "value": names});
    let half = json!({"key": "policy.deny", "value": names[..5_000]});
    let text = json!({"key": "policy.deny", "yaml": "x".repeat(40_000)});
    for changes in [vec![large], vec![half.clone(), half, text]] {
        let edit = json!({"file": "user", "changes": changes});
        for (path, body) in [
            ("explain", json!({"tool": "t", "edit": edit})),
            ("what-if", json!({"edit": edit})),
            ("propose", json!({"edit": edit})),
            ("apply", json!({"edit": edit, "digest": "d"})),
        ] {
            let path = format!("{base}api/policy/{path}");
            let body = body.to_string();
            let reply = request(console.local, "POST", &path, &headers, &body).await;
            assert_eq!(reply.status, 400, "{path}: {}", reply.body);
            assert!(reply.body.contains("at most 65536"), "{}", reply.body);
        }
    }
    assert_eq!(console.requests(), []);
}

#[tokio::test]
async fn console_logins_of_a_stranger_do_not_remove_those_of_others() {
    let many = 100_000;
    let console = start(|limits| {
        limits.logins_per_second = many;
        limits.forwarded_logins_per_second = many;
    })
    .await;
    let from = |address: &str| [format!("X-Forwarded-For: {address}")];
    let begun = get_login(&console, &from("203.0.113.1")).await;
    for _ in 0..300 {
        let reply = get_login(&console, &from("203.0.113.2")).await;
        assert_eq!(reply.status, 303);
    }
    let done = call_back(&console, &begun, "ann").await;
    assert_eq!(done.status, 303, "{}", done.body);
}

#[tokio::test]
async fn console_logins_of_a_stranger_leave_room_for_others() {
    let console = start(|limits| {
        limits.logins_per_second = 20;
        limits.forwarded_logins_per_second = 1;
    })
    .await;
    let from = |address: &str| [format!("X-Forwarded-For: {address}")];
    let mut refused = 0;
    for _ in 0..200 {
        let reply = get_login(&console, &from("203.0.113.2")).await;
        refused += usize::from(reply.status == 429);
    }
    assert!(refused > 0, "a stranger may try without limit");
    let begun = get_login(&console, &from("203.0.113.1")).await;
    let done = call_back(&console, &begun, "ann").await;
    assert_eq!(done.status, 303, "{}", done.body);
}

#[tokio::test]
async fn console_of_a_server_says_how_to_get_a_link() {
    let console = TestConsole::start_served().await;
    let link = console.server.local_link().unwrap();
    let headers = [format!("Host: {}", console.local)];
    for path in ["/console", "/console/", "/console/old-base/"] {
        let reply = request(console.local, "GET", path, &headers, "").await;
        assert_eq!(reply.status, 404, "{path}");
        for part in ["Open the link", "restart `mimir serve`", "`mimir console`"] {
            assert!(reply.body.contains(part), "{path}: {}", reply.body);
        }
        let (base, _) = crate::console::parts_of(&link.url);
        assert!(!reply.body.contains(&base), "{}", reply.body);
    }
    let (base, cookie) = crate::console::log_in_with(console.local, &link.url).await;
    let headers = with_cookie(console.local, &cookie);
    let path = format!("{base}api/state");
    let reply = request(console.local, "GET", &path, &headers, "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(
        request(console.local, "GET", &base, &headers, "")
            .await
            .status,
        200
    );
}
