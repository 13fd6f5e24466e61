//! What a session has read decides what it is asked about.

use super::*;
use crate::needs::HostNeed;
use crate::outcome::{DataClass, Label};

fn sender() -> Tool {
    let mut tool = tool("sender");
    tool.trust = Trust::Trusted;
    tool.definition.needs.hosts = vec![HostNeed {
        host: "api.example.com".into(),
        methods: vec!["POST".into()],
        reason: String::new(),
    }];
    tool
}

fn room(config: Value) -> Bench {
    bench(
        vec![tool("reader"), tool("quiet"), sender()],
        config,
        Answer::No,
    )
}

async fn after_reading(bench: &Bench, then: &str) -> Option<Code> {
    assert!(bench.pipeline.call(call("reader", json!({}))).await.is_ok());
    code(&bench.pipeline.call(call(then, json!({}))).await)
}

#[tokio::test]
async fn content_of_strangers_is_asked_about_before_anything_leaves() {
    let plain = room(json!({}));
    assert_eq!(
        code(&plain.pipeline.call(call("sender", json!({}))).await),
        None
    );
    assert_eq!(
        after_reading(&plain, "sender").await,
        Some(Code::ApprovalDenied)
    );
    assert_eq!(after_reading(&plain, "quiet").await, None);
    let mut other = call("sender", json!({}));
    other.context.session_id = "another".into();
    assert_eq!(
        code(&plain.pipeline.call(other).await),
        None,
        "another session has read nothing"
    );
    plain.pipeline.end_session("session");
    assert_eq!(
        code(&plain.pipeline.call(call("sender", json!({}))).await),
        None
    );
}

#[tokio::test]
async fn a_session_that_goes_on_has_read_what_it_had_read() {
    let before = room(json!({}));
    let read = before.pipeline.call(call("reader", json!({}))).await;
    assert!(read.is_ok());
    let label = before.pipeline.read_by("session");
    before.pipeline.end_session("session");
    let clean = before.pipeline.read_by("session");
    for (label, then) in [
        (label, Some(Code::ApprovalDenied)),
        (clean, None),
        (Label::worst("somewhere"), Some(Code::ApprovalDenied)),
    ] {
        let after = room(json!({}));
        after.pipeline.resume("session", &label);
        let sent = after.pipeline.call(call("sender", json!({}))).await;
        assert_eq!(code(&sent), then, "{label:?}");
    }
}

#[tokio::test]
async fn a_person_says_what_a_tool_may_be_given() {
    let strict = room(json!({"tools": {"quiet": {"labels": {"acceptsUntrusted": false}}}}));
    assert_eq!(
        after_reading(&strict, "quiet").await,
        Some(Code::ApprovalDenied)
    );
    let open = room(json!({"tools": {"sender": {"labels": {"acceptsUntrusted": true}}}}));
    assert_eq!(after_reading(&open, "sender").await, None);
    let vouched = room(json!({"tools": {"reader": {"labels": {"outputTrust": "verified"}}}}));
    assert_eq!(after_reading(&vouched, "sender").await, None);
}

#[tokio::test]
async fn sensitive_data_is_asked_about_before_anything_leaves() {
    let labels = json!({"outputTrust": "user", "outputDataClass": "sensitive"});
    let sensitive = room(json!({"tools": {"reader": {"labels": labels}}}));
    let outcome = sensitive.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(outcome.label().data_class, DataClass::Sensitive);
    assert_eq!(outcome.label().trust, TrustLevel::User);
    assert_eq!(
        after_reading(&sensitive, "sender").await,
        Some(Code::ApprovalDenied)
    );
    assert_eq!(after_reading(&sensitive, "quiet").await, None);
}

#[tokio::test]
async fn a_result_is_no_better_than_what_it_was_made_of() {
    let backend = Fake {
        nested: Some("reader"),
        ..Fake::default()
    };
    let mut outer = with("outer", backend);
    outer.trust = Trust::Trusted;
    outer.definition.needs.tools = vec!["reader".into()];
    outer.granted = outer.definition.needs.clone();
    let bench = bench(
        vec![tool("reader"), outer, tool("quiet")],
        json!({}),
        Answer::No,
    );
    let outcome = bench.pipeline.call(call("outer", json!({}))).await;
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
}

#[tokio::test]
async fn a_model_a_server_and_a_team_are_somewhere_else() {
    let change: [fn(&mut Tool); 4] = [
        |_| {},
        |tool| tool.definition.needs.model = true,
        |tool| tool.source = Source::Mcp,
        |tool| tool.source = Source::Teams,
    ];
    for (at, change) in change.into_iter().enumerate() {
        let mut other = tool("other");
        other.trust = Trust::Trusted;
        change(&mut other);
        let bench = bench(vec![tool("reader"), other], json!({}), Answer::No);
        let refused = after_reading(&bench, "other").await;
        assert_eq!(refused, (at > 0).then_some(Code::ApprovalDenied), "{at}");
    }
}
