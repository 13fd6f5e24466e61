use std::time::Duration;

use mimir_console::ConsoleEventKind;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{TEST_TIMEOUT, read_until, request, send, with_cookie};
use crate::console::TestConsole;

async fn open(console: &TestConsole, base: &str, cookie: &str, last: Option<&str>) -> TcpStream {
    let mut headers = with_cookie(console.local, cookie);
    headers.extend(last.map(|id| format!("Last-Event-ID: {id}")));
    send(
        console.local,
        "GET",
        &format!("{base}api/events"),
        &headers,
        "",
    )
    .await
}

/// Reads until the stream ends.
async fn read_to_end(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut rest)).await;
    let _ = read.expect("the stream stays open");
}

fn last_id(read: &str) -> String {
    let id = read
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .next_back();
    id.unwrap().to_owned()
}

#[tokio::test]
async fn stream_batches_calls_and_sends_questions_at_once() {
    // A batch that never becomes due by itself.
    let console = TestConsole::start(|limits| limits.batch = Duration::from_secs(3600)).await;
    let (base, cookie) = console.log_in().await;
    let mut stream = open(&console, &base, &cookie, None).await;
    let mut read = String::new();
    read_until(&mut stream, &mut read, "event: ping").await;
    console.emit(ConsoleEventKind::Call, &json!({"id": "1"}));
    console.emit(
        ConsoleEventKind::Call,
        &json!({"id": "2", "text": "\u{1b}\u{202e}\nevent: stop"}),
    );
    console.emit(ConsoleEventKind::Question, &json!({"id": "q"}));
    read_until(&mut stream, &mut read, r#"event: question"#).await;
    read_until(&mut stream, &mut read, r#"data: {"id":"q"}"#).await;
    let calls = r#"data: [{"id":"1"},{"id":"2","text":"\\u{1b}\\u{202e}\nevent: stop"}]"#;
    assert!(read.contains(calls), "{read}");
    // No text of a call begins an event of its own.
    assert!(!read.lines().any(|line| line == "event: stop"), "{read}");
    assert!(read.contains("content-type: text/event-stream"), "{read}");
}

#[tokio::test]
async fn stream_sends_batches_soon() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let mut stream = open(&console, &base, &cookie, None).await;
    let mut read = String::new();
    read_until(&mut stream, &mut read, "event: ping").await;
    console.emit(ConsoleEventKind::Call, &json!({"id": "1"}));
    read_until(&mut stream, &mut read, r#"data: [{"id":"1"}]"#).await;
}

#[tokio::test]
async fn stream_continues_after_the_last_event() {
    let console = TestConsole::start(|limits| limits.kept_messages = 3).await;
    let (base, cookie) = console.log_in().await;
    let mut stream = open(&console, &base, &cookie, None).await;
    let mut read = String::new();
    read_until(&mut stream, &mut read, "event: ping").await;
    console.emit(ConsoleEventKind::Stop, &json!({"n": 0}));
    read_until(&mut stream, &mut read, r#"{"n":0}"#).await;
    drop(stream);
    let id = last_id(&read);
    for n in 1..=3 {
        console.emit(ConsoleEventKind::Stop, &json!({"n": n}));
    }
    let mut stream = open(&console, &base, &cookie, Some(&id)).await;
    let mut read = String::new();
    read_until(&mut stream, &mut read, r#"{"n":3}"#).await;
    assert!(
        read.contains(r#"{"n":1}"#) && !read.contains(r#"{"n":0}"#),
        "{read}"
    );
    assert!(!read.contains("event: reset"), "{read}");
    // More was missed than is kept.
    console.emit(ConsoleEventKind::Stop, &json!({"n": 4}));
    read_until(&mut stream, &mut read, r#"{"n":4}"#).await;
    for id in [&id, "other-1", "", "1", &format!("{id}9999")] {
        let mut stream = open(&console, &base, &cookie, Some(id)).await;
        let mut read = String::new();
        read_until(&mut stream, &mut read, "event: reset").await;
        console.emit(ConsoleEventKind::Changed, &json!({"what": "undo"}));
        read_until(&mut stream, &mut read, "event: changed").await;
    }
}

#[tokio::test]
async fn stream_ends_with_its_session() {
    let console = TestConsole::start(|_| {}).await;
    let (base, cookie) = console.log_in().await;
    let (_, other) = console.log_in().await;
    let mut streams = vec![];
    for cookie in [&cookie, &other] {
        let mut stream = open(&console, &base, cookie, None).await;
        read_until(&mut stream, &mut String::new(), "event: ping").await;
        streams.push(stream);
    }
    let headers = with_cookie(console.local, &cookie);
    let path = format!("{base}api/logout");
    assert_eq!(
        request(console.local, "POST", &path, &headers, "")
            .await
            .status,
        204
    );
    read_to_end(&mut streams[0]).await;
    console.emit(ConsoleEventKind::Stop, &json!(null));
    read_until(&mut streams[1], &mut String::new(), "event: stop").await;
    // Without a session, or with one that has ended, nothing is streamed.
    let path = format!("{base}api/events");
    for cookie in [cookie.as_str(), "mimir_console=guess"] {
        let headers = with_cookie(console.local, cookie);
        let reply = request(console.local, "GET", &path, &headers, "").await;
        assert_eq!(reply.status, 401);
    }
}

#[tokio::test]
async fn stream_ends_when_the_session_has_expired() {
    let console = TestConsole::start(|limits| {
        limits.idle = Duration::from_millis(200);
        limits.ping = Duration::from_millis(20);
    })
    .await;
    let (base, cookie) = console.log_in().await;
    let mut stream = open(&console, &base, &cookie, None).await;
    read_to_end(&mut stream).await;
}

#[tokio::test]
async fn stream_number_is_bounded_and_freed() {
    let console = TestConsole::start(|limits| {
        limits.streams = 3;
        limits.session_streams = 2;
    })
    .await;
    let (base, first) = console.log_in().await;
    let (_, second) = console.log_in().await;
    let mut streams = vec![];
    for cookie in [&first, &first, &second] {
        let mut stream = open(&console, &base, cookie, None).await;
        read_until(&mut stream, &mut String::new(), "event: ping").await;
        streams.push(stream);
    }
    let path = format!("{base}api/events");
    for cookie in [&first, &second] {
        let headers = with_cookie(console.local, cookie);
        let reply = request(console.local, "GET", &path, &headers, "").await;
        assert_eq!(reply.status, 429);
    }
    drop(streams);
    // The server notices the disconnected pages.
    let reopened = async {
        loop {
            let mut stream = open(&console, &base, &first, None).await;
            let mut start = [0; 12];
            stream.read_exact(&mut start).await.unwrap();
            if start.ends_with(b"200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, reopened)
        .await
        .expect("the places are not freed");
}

#[tokio::test]
async fn stream_drops_a_slow_client_and_serves_the_others() {
    let console = TestConsole::start(|limits| {
        limits.stalled = Duration::from_millis(100);
        limits.streams = 2;
    })
    .await;
    let (base, cookie) = console.log_in().await;
    let slow = open(&console, &base, &cookie, None).await;
    let mut fast = open(&console, &base, &cookie, None).await;
    let mut read = String::new();
    read_until(&mut fast, &mut read, "event: ping").await;
    let text = "x".repeat(200 << 10);
    for n in 0..200 {
        console.emit(ConsoleEventKind::Stop, &json!({"n": n, "text": text}));
        let mut read = String::new();
        read_until(&mut fast, &mut read, &format!("{{\"n\":{n},")).await;
    }
    // The place of the slow one is free again, although it still holds its connection.
    let path = format!("{base}api/events");
    let freed = async {
        loop {
            let headers = with_cookie(console.local, &cookie);
            let mut stream = send(console.local, "GET", &path, &headers, "").await;
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
        .expect("the slow client is not dropped");
    drop(slow);
}
