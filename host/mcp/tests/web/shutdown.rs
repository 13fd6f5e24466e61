//! The end of a server: the responses to running requests, and the refusal of later ones.

use super::*;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls the tool `waits` in the generation without sessions and in a session.
async fn start_both(http: &HttpService) -> [tokio::task::JoinHandle<Answer>; 2] {
    let session = begin(http).await;
    let modern = tokio::spawn({
        let http = http.clone();
        async move { call(&http, "waits", 1, MODERN).await }
    });
    let legacy = tokio::spawn({
        let http = http.clone();
        async move {
            let headers = session_headers(&session);
            let params = json!({"name": "waits", "arguments": {"n": 1}});
            send(&http, Method::POST, &headers, message("tools/call", params)).await
        }
    });
    under_way(http, 2).await;
    [modern, legacy]
}

/// Drains the server in a task.
fn start_drain(http: &HttpService) -> tokio::task::JoinHandle<bool> {
    let http = http.clone();
    tokio::spawn(async move { http.drain(TEST_TIMEOUT).await })
}

async fn ready(http: &HttpService) -> StatusCode {
    let request = Request::builder()
        .uri("/readyz")
        .header("host", "localhost");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    http.clone().call(request).await.unwrap().status()
}

#[tokio::test]
async fn shutdown_waits_for_running_calls_of_both_generations() {
    let (one, gate) = waits();
    let (test_server, http) = web(vec![one]);
    let calls = start_both(&http).await;
    let drained = start_drain(&http);
    while ready(&http).await == StatusCode::OK {
        tokio::task::yield_now().await;
    }
    assert_eq!(http.unanswered(), 2);
    // Answers for which calls wait are requests, too.
    begin(&http).await;
    gate.add_permits(2);
    for call in calls {
        let answer = call.await.unwrap().message();
        assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
    }
    assert!(drained.await.unwrap());
    let refused = call(&http, "waits", 2, MODERN).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers["retry-after"], "1");
    http.close(TEST_TIMEOUT).await;
    assert_eq!(test_server.audit.codes(), [Value::Null, Value::Null]);
}

#[tokio::test]
async fn shutdown_waits_until_responses_are_read() {
    let quick = tool("quick", fake(|_| async { text_result("done") }));
    let (test_server, http) = web(vec![quick]);
    let session = begin(&http).await;
    let params = json!({"name": "quick", "arguments": {"n": 1}});
    let (headers, call) = (session_headers(&session), message("tools/call", params));
    let response = respond(&http, Method::POST, &headers, call).await;
    assert_eq!(test_server.recorded(1).await, [Value::Null]);
    assert!(
        !http.drain(Duration::ZERO).await,
        "the response is not read"
    );
    let drained = start_drain(&http);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("done"), "{body:?}");
    assert!(drained.await.unwrap());
}

#[tokio::test]
async fn shutdown_answers_unfinished_calls_with_unavailable() {
    let (one, _gate) = waits();
    let (test_server, http) = web(vec![one]);
    let calls = start_both(&http).await;
    assert!(!http.drain(Duration::ZERO).await);
    http.close(TEST_TIMEOUT).await;
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let answer = answer.message();
        let outcome = &answer["result"]["_meta"]["mimir/outcome"];
        assert_eq!(outcome["code"], "UNAVAILABLE", "{answer}");
        assert_eq!(outcome["details"]["mayHaveRun"], true, "{answer}");
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    assert_eq!(test_server.audit.codes(), ["CANCELLED", "CANCELLED"]);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_subscriptions() {
    let (_room, http) = web(Vec::new());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "subscriptions/listen"),
    ];
    let listen = message("subscriptions/listen", params);
    let subscription = respond(&http, Method::POST, &headers, listen).await;
    assert_eq!(subscription.status(), StatusCode::OK);
    assert!(http.drain(TEST_TIMEOUT).await);
    drop(subscription);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_cancelled_call() {
    let (one, _gate) = waits();
    let (test_server, http) = web(vec![one]);
    let session = begin(&http).await;
    let headers = session_headers(&session);
    let params = json!({"name": "waits", "arguments": {"n": 1}});
    let running = send(&http, Method::POST, &headers, message("tools/call", params));
    let mut running = std::pin::pin!(running);
    let cancel = async {
        under_way(&http, 1).await;
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}});
        send(&http, Method::POST, &headers, cancelled.to_string()).await;
        assert_eq!(test_server.recorded(1).await, ["CANCELLED"]);
        assert!(http.drain(TEST_TIMEOUT).await);
    };
    // The client waits for the response until the server has ended.
    tokio::select! {
        () = cancel => {}
        _ = &mut running => {}
    }
}

#[tokio::test]
async fn shutdown_leaves_time_to_ask_for_the_result_of_a_task() {
    let (one, gate) = waits();
    let (_room, http) = web(vec![one]);
    let about = json!({"clientInfo": {"name": "test", "version": "1"},
        "clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let more = json!({"arguments": {"n": 1}});
    let created = call_as(&http, "waits", more, MODERN, about.clone()).await;
    let created = created.message();
    let task = created["result"]["taskId"].as_str().unwrap();
    let state = async || {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": about["clientInfo"],
            "io.modelcontextprotocol/clientCapabilities": about["clientCapabilities"],
        });
        let params = json!({"taskId": task, "_meta": meta});
        let headers = [
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tasks/get"),
            ("mcp-name", task),
        ];
        let answer = send(&http, Method::POST, &headers, message("tasks/get", params)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.message()["result"].take()
    };
    let drained = start_drain(&http);
    gate.add_permits(1);
    while state().await["status"] != "completed" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(drained.await.unwrap());
}
