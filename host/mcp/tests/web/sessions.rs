//! The limit of sessions, and the choice of the session that is ended for a new one.

use super::*;

/// The limit of sessions.
const SESSIONS: usize = 256;

/// Lists the tools in a session.
async fn listed(http: &HttpService, session: &str) -> Answer {
    let list = message("tools/list", json!({}));
    send(http, Method::POST, &session_headers(session), list).await
}

/// Opens the event stream of a session, which stays open until the value is dropped.
async fn stream(http: &HttpService, session: &str) -> impl Sized + use<> {
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
async fn sessions_end_the_longest_idle_one_for_a_new_one() {
    let (one, gate) = waits();
    let (test_server, http) = web(vec![one]);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(begin(&http).await);
    }
    // The first has an open stream, the second a running call without a reader, and the third was just used.
    let stream = stream(&http, &sessions[0]).await;
    let params = json!({"name": "waits", "arguments": {"n": 2}});
    let second = session_headers(&sessions[1]);
    let pending_call = send(&http, Method::POST, &second, message("tools/call", params));
    let pending_call = tokio::time::timeout(Duration::from_secs(1), pending_call).await;
    assert!(pending_call.is_err(), "it waits");
    under_way(&http, 1).await;
    assert_eq!(listed(&http, &sessions[2]).await.status, StatusCode::OK);

    let new = begin(&http).await;
    let gone = listed(&http, &sessions[3]).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND, "{}", gone.body);
    for session in sessions[..3].iter().chain([&sessions[4], &new]) {
        assert_eq!(listed(&http, session).await.status, StatusCode::OK);
    }
    assert!(test_server.audit.codes().is_empty(), "the call continues");
    gate.add_permits(1);
    assert_eq!(test_server.recorded(1).await, [Value::Null]);
    drop(stream);
}

#[tokio::test]
async fn sessions_are_limited_until_one_ends() {
    let quick = tool("quick", fake(|_| async { text_result("done") }));
    let (_room, http) = web(vec![quick]);
    let mut sessions = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..SESSIONS {
        let session = begin(&http).await;
        streams.push(stream(&http, &session).await);
        sessions.push(session);
    }
    let refused = handshake(&http).await.unwrap_err();
    busy(&refused);
    assert!(refused.body.contains("DELETE /mcp"), "{}", refused.body);
    // Existing sessions continue.
    let of = [
        ("mcp-session-id", sessions[9].as_str()),
        ("mcp-protocol-version", LEGACY),
    ];
    let answer = send(&http, Method::POST, &of, message("tools/list", json!({}))).await;
    assert_eq!(answer.message()["result"]["tools"][0]["name"], "quick");
    // Clients without sessions are unaffected, but claiming so does not create a session.
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
    busy(&handshake(&http).await.unwrap_err());
    // A stream without a reader does not count.
    drop(one_more);
    begin(&http).await;
    assert_eq!(listed(&http, &session).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn sessions_survive_requests_that_start_none() {
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
async fn sessions_limit_holds_for_parallel_handshakes() {
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
