use std::sync::Arc;
use std::time::Duration;

use mimir_console::ConsoleRole;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{TEST_TIMEOUT, own_headers, read_until, request, send, with_cookie};
use crate::console::{TestConsole, TestLogin, log_in_with, parts_of, send_key};

fn provider() -> Arc<TestLogin> {
    let roles = vec![("vic", ConsoleRole::Viewer), ("app", ConsoleRole::Approver)];
    Arc::new(TestLogin {
        roles: roles.into(),
    })
}

/// A browser that logs in at the provider as a person. Returns the responses to the login and to its callback.
async fn log_in_at_provider(
    console: &TestConsole,
    person: &str,
) -> (crate::client::Reply, crate::client::Reply) {
    let host = format!("Host: {}", console.local);
    let begun = request(
        console.local,
        "GET",
        "/console/login",
        std::slice::from_ref(&host),
        "",
    )
    .await;
    assert_eq!(begun.status, 303, "{}", begun.body);
    let location = begun.header("location").unwrap();
    let state = location.split(['=', '&']).nth(1).unwrap();
    let cookie = begun.header("set-cookie").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    let path = format!("/console/login/callback?state={state}&code={person}");
    let headers = [host, format!("Cookie: {cookie}")];
    let done = request(console.local, "GET", &path, &headers, "").await;
    (begun, done)
}

#[tokio::test]
async fn console_records_links_and_pairings_with_the_client() {
    let console = TestConsole::start(|_| {}).await;
    let lan = console.listen_on_lan().await;
    let link = console.server.local_link().unwrap();
    let (base, key) = parts_of(&link.url);
    let mut headers = own_headers(console.local);
    headers.push("User-Agent: Browser/1.0".to_owned());
    let body = json!({"key": key}).to_string();
    let path = format!("{base}api/login");
    let login = request(console.local, "POST", &path, &headers, &body).await;
    assert_eq!(login.status, 204);
    assert_eq!(
        console.logins.take(),
        ["ann: opened a one-time link as admin, from 127.0.0.1, with Browser/1.0"]
    );
    // The link again, and a key that never was one.
    for key in [key.as_str(), "guess"] {
        assert_eq!(send_key(console.local, &base, key).await.status, 401);
    }
    let refused = console.logins.take();
    assert_eq!(
        refused,
        ["?: a one-time link was refused, from 127.0.0.1"; 2]
    );
    let (_, cookie) = console.log_in().await;
    console.logins.take();
    let admin = with_cookie(console.local, &cookie);
    let path = format!("{base}api/pair");
    let reply = request(console.local, "POST", &path, &admin, "").await;
    let pairing: Value = serde_json::from_str(&reply.body).unwrap();
    let url = pairing["url"].as_str().unwrap();
    log_in_with(lan, url).await;
    let recorded = console.logins.take();
    assert_eq!(
        recorded,
        [
            "ann: made a code that pairs a phone as admin, from 127.0.0.1",
            "ann (paired device): paired a phone as approver, from 127.0.0.1",
        ]
    );
    let (_, secret) = parts_of(url);
    assert!(!recorded.concat().contains(&secret), "{recorded:?}");
    // A phone cannot pair another one.
    let (lan_base, cookie) = {
        let (link, _) = console.server.pairing_link().unwrap();
        log_in_with(lan, &link.url).await
    };
    console.logins.take();
    let path = format!("{lan_base}api/pair");
    let reply = request(lan, "POST", &path, &with_cookie(lan, &cookie), "").await;
    assert_eq!(reply.status, 403);
    assert!(console.logins.take().is_empty());
}

#[tokio::test]
async fn console_records_few_of_many_refused_logins() {
    let console = TestConsole::start(|limits| limits.logins_per_second = 1000).await;
    let (base, _) = parts_of(&console.server.local_link().unwrap().url);
    for _ in 0..60 {
        assert_eq!(send_key(console.local, &base, "guess").await.status, 401);
    }
    let recorded = console.logins.take().len();
    assert!((20..60).contains(&recorded), "{recorded}");
    // What succeeds is always recorded.
    console.log_in().await;
    assert_eq!(console.logins.take().len(), 1);
}

#[tokio::test]
async fn console_records_logins_at_the_provider() {
    let console = TestConsole::start_with(|_| {}, Some(provider())).await;
    let (_, done) = log_in_at_provider(&console, "vic").await;
    assert_eq!(done.status, 303);
    let (_, done) = log_in_at_provider(&console, "eve").await;
    assert_eq!(done.status, 403);
    assert_eq!(
        console.logins.take(),
        [
            "vic: logged in as viewer, from 127.0.0.1",
            "eve: the login has failed, or has no role here, from 127.0.0.1",
        ]
    );
}

#[tokio::test]
async fn console_state_says_whether_phones_can_be_paired() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let headers = with_cookie(console.local, &cookie);
    let path = format!("{base}api/state");
    for expected in [false, true] {
        let reply = request(console.local, "GET", &path, &headers, "").await;
        let state: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(state["lan"], expected, "{}", reply.body);
        if !expected {
            console.listen_on_lan().await;
        }
    }
}

#[tokio::test]
async fn console_login_is_announced_to_its_program() {
    let console = TestConsole::start(|_| {}).await;
    let login = console.server.next_local_login();
    let mut login = std::pin::pin!(login);
    let lan = console.listen_on_lan().await;
    let (pairing, _) = console.server.pairing_link().unwrap();
    log_in_with(lan, &pairing.url).await;
    let early = futures::future::poll_immediate(&mut login).await;
    assert!(early.is_none(), "a phone is not this machine");
    console.log_in().await;
    timeout(TEST_TIMEOUT, login).await.unwrap();
}

#[tokio::test]
async fn console_behind_a_path_prefix_stays_below_it() {
    let console = TestConsole::start_behind("https", "/mimir", |_| {}, Some(provider())).await;
    let (begun, done) = log_in_at_provider(&console, "app").await;
    let location = begun.header("location").unwrap();
    let callback = format!("https://{}/mimir/console/login/callback", console.local);
    assert!(location.ends_with(&callback), "{location}");
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(done.header("location"), Some("/mimir/console/"));
    // Other servers of the host get no cookie of the console.
    for reply in [&begun, &done] {
        let cookie = reply.header("set-cookie").unwrap();
        assert!(cookie.starts_with("__Secure-mimir_console"), "{cookie}");
        assert!(
            cookie.contains("; Path=/mimir/console/; Secure"),
            "{cookie}"
        );
    }
    let cookie = done.header("set-cookie").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    let headers = [
        format!("Host: {}", console.local),
        format!("Cookie: {cookie}"),
    ];
    let get = |path: &'static str| request(console.local, "GET", path, &headers, "");
    assert_eq!(get("/console/api/state").await.status, 200);
    // Without the slash, as a person types it.
    let reply = get("/console").await;
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, Some("/mimir/console/"))
    );
    // The cookie of a console with a host of its own is another one.
    let own = TestConsole::start_behind("https", "", |_| {}, Some(provider())).await;
    let (_, done) = log_in_at_provider(&own, "app").await;
    let cookie = done.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-mimir_console=") && cookie.contains("; Path=/; Secure"),
        "{cookie}"
    );
}

async fn open_export(console: &TestConsole, cookie: &str) -> TcpStream {
    let path = "/console/api/record/export?text=endless";
    let headers = with_cookie(console.local, cookie);
    send(console.local, "GET", path, &headers, "").await
}

#[tokio::test]
async fn console_exports_of_slow_clients_end_and_leave_room_for_others() {
    let change = |limits: &mut mimir_console::ConsoleLimits| {
        limits.export_stalled = Duration::from_millis(200);
        limits.exports = 3;
    };
    let console = TestConsole::start_with(change, Some(provider())).await;
    let mut cookies = Vec::new();
    for person in ["vic", "app"] {
        let (_, done) = log_in_at_provider(&console, person).await;
        let cookie = done.header("set-cookie").unwrap();
        cookies.push(cookie.split_once(';').unwrap().0.to_owned());
    }
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = open_export(&console, &cookies[0]).await;
        read_until(&mut stream, &mut String::new(), "200 OK").await;
        slow.push(stream);
    }
    let path = "/console/api/record/export?text=endless";
    let headers = with_cookie(console.local, &cookies[0]);
    let third = request(console.local, "GET", path, &headers, "").await;
    assert_eq!(
        (third.status, third.code().as_str()),
        (429, "LIMIT_EXCEEDED")
    );
    // Another person is not affected.
    let mut other = open_export(&console, &cookies[1]).await;
    read_until(&mut other, &mut String::new(), "200 OK").await;
    drop(other);
    // The slow clients still hold their connections, and read nothing.
    let freed = async {
        loop {
            let mut stream = open_export(&console, &cookies[0]).await;
            let mut start = [0; 12];
            stream.read_exact(&mut start).await.unwrap();
            if start.ends_with(b"200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, freed)
        .await
        .expect("the exports of slow clients do not end");
    // What they have is not taken for the whole record: the last chunk of the response is missing.
    let mut rest = Vec::new();
    let _ = timeout(TEST_TIMEOUT, slow[0].read_to_end(&mut rest))
        .await
        .unwrap();
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}
