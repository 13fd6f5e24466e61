//! Messages that servers initiate, and the delivery of results.

use std::sync::Arc;

use mimir_core::call::{CallObserver, CallProgress, LogLine};
use mimir_core::outcome::TrustLevel;
use mimir_core::{Content, ToolErrorCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{CallReaction, Script, Upstream, call, outcome_text, text};

#[derive(Default)]
struct Seen(Mutex<Vec<CallProgress>>);

impl CallObserver for Seen {
    fn progress(&self, progress: CallProgress) {
        self.0.lock().push(progress);
    }
    fn log(&self, _: LogLine) {}
}

#[tokio::test]
async fn progress_reaches_the_observer() {
    let upstream = Upstream::one(&Script::new(CallReaction::Reports(50)))
        .open()
        .await;
    let seen = Arc::new(Seen::default());
    let mut call = call("mcp_s_go", json!({}));
    call.observer = seen.clone();
    let outcome = upstream.test_server.pipeline.call(call).await;
    assert_eq!(outcome_text(&outcome), "done");
    let seen = seen.0.lock();
    assert_eq!(seen.len(), 50);
    assert!(seen.iter().all(|one| one.total == Some(50)));
    let message = seen[0].message.as_deref().unwrap();
    assert!(!message.contains('\u{1b}'), "{message:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_right_before_the_end_is_delivered() {
    let upstream = Upstream::one(&Script::new(CallReaction::Reports(2)))
        .open()
        .await;
    for _ in 0..200 {
        let seen = Arc::new(Seen::default());
        let mut call = call("mcp_s_go", json!({}));
        call.observer = seen.clone();
        let outcome = upstream.test_server.pipeline.call(call).await;
        assert_eq!(outcome_text(&outcome), "done");
        let seen = seen.0.lock();
        let steps: Vec<_> = seen.iter().map(|one| one.done).collect();
        assert_eq!(steps, [1, 2]);
    }
}

#[tokio::test]
async fn result_is_complete_labelled_and_recorded() {
    let script = Script::new(CallReaction::Answers(json!({
        "content": [
            {"type": "text", "text": "words"},
            {"type": "image", "data": "AAEC", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "file"}},
            {"type": "resource_link", "uri": "https://example.com/x", "name": "x"},
        ],
        "structuredContent": {"a": 1},
    })));
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({"n": 1})).await;
    let output = outcome.result().unwrap();
    assert_eq!(output.content.len(), 4);
    let image = Content::Image {
        data: vec![0, 1, 2],
        mime_type: "image/png".into(),
    };
    assert_eq!(output.content[1], image);
    assert!(matches!(&output.content[2], Content::File { name, .. } if name == "b.txt"));
    assert_eq!(output.structured, Some(json!({"a": 1})));
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
    assert_eq!(outcome.label().origin, "mcp:mcp_s_go");
    assert_eq!(upstream.test_server.audit.codes(), [Value::Null]);
    let received = &script.received("tools/call")[0]["params"];
    assert_eq!(
        (&received["name"], &received["arguments"]),
        (&json!("go"), &json!({"n": 1}))
    );
}

#[tokio::test]
async fn result_errors_and_invalid_data_are_failures() {
    let mut failed = text("it broke");
    failed["isError"] = json!(true);
    let none = json!({"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]});
    for (result, part) in [(failed, "it broke"), (none, "base64")] {
        let upstream = Upstream::one(&Script::new(CallReaction::Answers(result)))
            .open()
            .await;
        let outcome = upstream.call("mcp_s_go", json!({})).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ExecutionError);
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn call_invalid_arguments_never_reach_the_server() {
    let script = Script::new(CallReaction::Answers(text("hello")));
    script.tools.lock()[0]["inputSchema"] =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let upstream = Upstream::one(&script).open().await;
    let outcome = upstream.call("mcp_s_go", json!({"n": "x"})).await;
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::InvalidInput
    );
    assert!(script.received("tools/call").is_empty());
}

#[tokio::test]
async fn call_answers_match_with_a_thousand_in_parallel() {
    // It returns the params that it received.
    let script = Script::new(CallReaction::Rounds(vec![json!({"content": "told"})]));
    let upstream = Upstream::one(&script).open().await;
    let calls = (0..1000).map(|n| upstream.call("mcp_s_go", json!({ "n": n })));
    let outcomes = futures::future::join_all(calls).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        let text = outcome_text(outcome);
        let own = format!("\"arguments\":{{\"n\":{n}}}");
        assert!(text.contains(&own), "{n}: {text}");
    }
    assert_eq!(script.received("tools/call").len(), 1000);
    assert_eq!(script.started.load(std::sync::atomic::Ordering::SeqCst), 1);
}
