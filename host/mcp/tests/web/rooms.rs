//! For how many sessions there is room, and which of them makes room for another.

use super::*;

/// As many as there is room for.
const SESSIONS: usize = 256;

/// A session that has begun.
async fn begin(http: &Http) -> String {
    hello(http).await.map_err(|answer| answer.body).unwrap()
}

fn of(session: &str) -> [(&str, &str); 2] {
    [
        ("mcp-session-id", session),
        ("mcp-protocol-version", LEGACY),
    ]
}

/// What a session says its tools are.
async fn listed(http: &Http, session: &str) -> Answer {
    let list = message("tools/list", json!({}));
    send(http, Method::POST, &of(session), list).await
}

/// The stream on which a session is told what nobody asked for, as long as it is held.
async fn stream(http: &Http, session: &str) -> impl Sized + use<> {
    let request = Request::builder()
        .uri("/mcp")
        .header("host", "localhost")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", LEGACY)
        .body(Full::new(Bytes::new()));
    let answer = http.clone().call(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body()
}

#[tokio::test]
async fn the_session_that_is_idle_longest_makes_room_for_another() {
    let (one, gate) = waits();
    let (room, http) = web(vec![one]);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(begin(&http).await);
    }
    // The first one is read along, the second has a call under way that nobody reads along, the third was used.
    let stream = stream(&http, &sessions[0]).await;
    let params = json!({"name": "waits", "arguments": {"n": 2}});
    let second = of(&sessions[1]);
    let asked = send(&http, Method::POST, &second, message("tools/call", params));
    let asked = tokio::time::timeout(Duration::from_millis(300), asked).await;
    assert!(asked.is_err(), "it waits");
    under_way(&http, 1).await;
    assert_eq!(listed(&http, &sessions[2]).await.status, StatusCode::OK);

    let new = begin(&http).await;
    let gone = listed(&http, &sessions[3]).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND, "{}", gone.body);
    for session in sessions[..3].iter().chain([&sessions[4], &new]) {
        assert_eq!(listed(&http, session).await.status, StatusCode::OK);
    }
    assert!(room.audit.codes().is_empty(), "the call goes on");
    gate.add_permits(1);
    assert_eq!(room.recorded(1).await, [Value::Null]);
    drop(stream);
}

#[tokio::test]
async fn there_is_room_for_so_many_sessions_and_for_one_more_when_one_ends() {
    let quick = tool("quick", fake(|_| async { said("done") }));
    let (_room, http) = web(vec![quick]);
    let mut sessions = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..SESSIONS {
        let session = begin(&http).await;
        streams.push(stream(&http, &session).await);
        sessions.push(session);
    }
    let refused = hello(&http).await.unwrap_err();
    busy(&refused);
    assert!(refused.body.contains("DELETE /mcp"), "{}", refused.body);
    // Those that are there go on.
    let of = [
        ("mcp-session-id", sessions[9].as_str()),
        ("mcp-protocol-version", LEGACY),
    ];
    let answer = send(&http, Method::POST, &of, message("tools/list", json!({}))).await;
    assert_eq!(answer.message()["result"]["tools"][0]["name"], "quick");
    // Who needs none finds room, and nobody gets one by saying so.
    let done = call(&http, "quick", 1, MODERN).await.message();
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    for (method, says, means) in [
        ("tools/call", MODERN, LEGACY),
        ("tools/call", MODERN, MODERN),
        ("", MODERN, MODERN),
        ("Initialize", "2027-01-01", "2027-01-01"),
        ("tools/call", LEGACY, LEGACY),
        ("tools/call", "z", LEGACY),
    ] {
        let params = json!({"protocolVersion": means, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let headers = [("mcp-method", method), ("mcp-protocol-version", says)];
        let answer = send(&http, Method::POST, &headers, message("initialize", params)).await;
        let no_session = !answer.headers.contains_key("mcp-session-id");
        assert!(
            !answer.status.is_success() && no_session,
            "{method} {says} {means}: {}",
            answer.body
        );
    }
    let ended = send(&http, Method::DELETE, &of, String::new()).await;
    assert!(ended.status.is_success(), "{}", ended.body);
    let session = begin(&http).await;
    let one_more = stream(&http, &session).await;
    busy(&hello(&http).await.unwrap_err());
    // A stream that nobody reads any more is none.
    drop(one_more);
    begin(&http).await;
    assert_eq!(listed(&http, &session).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_begins_no_session_ends_none() {
    let (_room, http) = web(Vec::new());
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(begin(&http).await);
    }
    let params = |version: &str| {
        json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}})
    };
    let list = message("tools/list", json!({}));
    let contradicts = [
        ("mcp-method", "tools/call"),
        ("mcp-protocol-version", MODERN),
    ];
    let modern = [("mcp-protocol-version", MODERN)];
    for (method, headers, body) in [
        (Method::GET, &[][..], String::new()),
        (Method::DELETE, &[], String::new()),
        (Method::PUT, &[], String::new()),
        (Method::POST, &[], "{".to_owned()),
        (Method::POST, &[], "garbage".to_owned()),
        (Method::POST, &[], list.clone()),
        (Method::POST, &[], message("initialize", json!({}))),
        (Method::POST, &modern, list),
        (
            Method::POST,
            &contradicts,
            message("initialize", params(MODERN)),
        ),
    ] {
        let shown = format!("{method} {headers:?} {body}");
        let answer = send(&http, method, headers, body).await;
        assert!(!answer.status.is_success(), "{shown}: {}", answer.body);
        let first = listed(&http, &sessions[0]).await;
        assert_eq!(first.status, StatusCode::OK, "{shown}");
        sessions.rotate_left(1);
    }
    let text = metrics(&http).await;
    let line = format!("mimir_sessions {SESSIONS}");
    assert!(text.lines().any(|other| other == line), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_at_the_same_time_make_no_more_sessions_than_there_is_room_for() {
    let (_room, http) = web(Vec::new());
    for _ in 0..SESSIONS - 6 {
        begin(&http).await;
    }
    let each = (0..60).map(|_| {
        let http = http.clone();
        tokio::spawn(async move { begin(&http).await })
    });
    let each: Vec<_> = each.collect();
    let mut last = String::new();
    for one in each {
        last = one.await.unwrap();
    }
    let text = metrics(&http).await;
    let line = format!("mimir_sessions {SESSIONS}");
    assert!(text.lines().any(|other| other == line), "{text}");
    assert_eq!(listed(&http, &last).await.status, StatusCode::OK);
}
