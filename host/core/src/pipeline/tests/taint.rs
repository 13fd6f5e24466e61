//! Tests of the approvals that the content read by a session requires.

use super::*;
use crate::needs::HostNeed;
use crate::network::RequestTarget;
use crate::outcome::{ContentLabel, DataClass};
use crate::pipeline::OutgoingRequest;
use crate::policy::PolicyFile;

/// Submits the requests in its arguments, or else a POST, to the effect gate. Fails with the error of the first refused
/// request.
struct Sends;

impl Backend for Sends {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let requests = match call.arguments().get("requests") {
                Some(requests) => requests.clone(),
                None => json!([["POST", "https://api.example.com/"]]),
            };
            for request in requests.as_array().unwrap() {
                let (method, url) = (request[0].as_str().unwrap(), request[1].as_str().unwrap());
                let header = request[2].as_str().unwrap_or_default();
                let (effects, target) = (call.effects(), RequestTarget::parse(url).unwrap());
                let egress = OutgoingRequest {
                    target: &target,
                    method,
                    headers: &[b"x-note".as_slice(), header.as_bytes()],
                    body: method == "POST",
                };
                if let Err(error) = effects.request(egress).await {
                    return RawResult::failed(error);
                }
            }
            RawResult::from(Ok(ToolOutput::default()))
        })
    }
}

fn sender() -> Tool {
    let mut tool = tool("sender");
    tool.trust = ToolTrust::Trusted;
    tool.definition.needs.hosts = vec![HostNeed {
        host: "api.example.com".into(),
        methods: vec!["GET".into(), "POST".into()],
        reason: String::new(),
    }];
    tool.granted = tool.definition.needs.clone();
    tool.backend = Arc::new(Sends);
    tool
}

/// Creates a built-in tool that sends requests to any URL in its arguments.
fn web_fetch() -> Tool {
    let mut tool = sender();
    tool.definition.name = ToolName::new("web_fetch").unwrap();
    tool.definition.group = ToolGroup::Net;
    tool.source = ToolSource::BuiltIn;
    tool.definition.needs.hosts[0].host = "*".into();
    tool.granted = tool.definition.needs.clone();
    tool.backend = Arc::new(Fetches);
    tool
}

/// Sends the request of its arguments.
struct Fetches;

impl Backend for Fetches {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let url = call.arguments()["url"].as_str().unwrap();
            let (effects, target) = (call.effects(), RequestTarget::parse(url).unwrap());
            let egress = OutgoingRequest {
                target: &target,
                method: "GET",
                headers: &[],
                body: false,
            };
            RawResult::from(effects.request(egress).await.map(|_| ToolOutput {
                content: vec![Content::text(
                    "a page with https://docs.example/c/6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f",
                )],
                ..ToolOutput::default()
            }))
        })
    }
}

fn room(config: Value) -> Bench {
    bench(
        vec![tool("reader"), tool("quiet"), sender()],
        config,
        ApprovalAnswer::No,
    )
}

async fn after_reading(bench: &Bench, then: &str) -> Option<ToolErrorCode> {
    assert!(bench.pipeline.call(call("reader", json!({}))).await.is_ok());
    code(&bench.pipeline.call(call(then, json!({}))).await)
}

#[tokio::test]
async fn taint_of_untrusted_content_asks_before_sending() {
    let plain = room(json!({}));
    assert_eq!(
        code(&plain.pipeline.call(call("sender", json!({}))).await),
        None
    );
    assert_eq!(
        after_reading(&plain, "sender").await,
        Some(ToolErrorCode::ApprovalDenied)
    );
    assert_eq!(after_reading(&plain, "quiet").await, None);
    let mut other = call("sender", json!({}));
    other.context.session_id = "another".into();
    assert_eq!(
        code(&plain.pipeline.call(other).await),
        None,
        "the taint applies to another session"
    );
    plain.pipeline.end_session("session");
    assert_eq!(
        code(&plain.pipeline.call(call("sender", json!({}))).await),
        None
    );
}

#[tokio::test]
async fn taint_is_on_record_with_the_calls_that_were_read() {
    let bench = room(json!({}));
    let lines = |tool: &str| -> Vec<serde_json::Value> {
        let events = bench.audit.events.lock();
        let of_tool = events.iter().filter(|event| event["tool"] == tool);
        of_tool.cloned().collect()
    };
    for _ in 0..12 {
        assert!(bench.pipeline.call(call("reader", json!({}))).await.is_ok());
    }
    let reads: Vec<_> = lines("reader")
        .into_iter()
        .map(|line| line["id"].clone())
        .collect();
    let first = &lines("reader")[0];
    assert!(first.get("untrustedReads").is_none(), "{first}");
    let named = json!([reads[0], reads[1], reads[2], reads[11]]);
    bench.audit.events.lock().clear();
    bench.pipeline.call(call("sender", json!({}))).await;
    bench.pipeline.call(call("quiet", json!({}))).await;
    let sender = lines("sender");
    let tainted = sender.iter().find(|line| line["tainted"] == true).unwrap();
    assert_eq!(tainted["untrustedReads"], named);
    let quiet = &lines("quiet")[0];
    assert!(quiet.get("tainted").is_none(), "{quiet}");
    let sender_id = &tainted["id"];
    let named = json!([reads[0], reads[1], reads[2], sender_id]);
    assert_eq!(quiet["untrustedReads"], named);
}

#[tokio::test]
async fn taint_of_a_resumed_session_is_restored() {
    let before = room(json!({}));
    let read = before.pipeline.call(call("reader", json!({}))).await;
    assert!(read.is_ok());
    let label = before.pipeline.session_label("session");
    before.pipeline.end_session("session");
    let clean = before.pipeline.session_label("session");
    for (label, then) in [
        (label, Some(ToolErrorCode::ApprovalDenied)),
        (clean, None),
        (
            ContentLabel::worst("somewhere"),
            Some(ToolErrorCode::ApprovalDenied),
        ),
    ] {
        let after = room(json!({}));
        after.pipeline.restore_session_label("session", &label);
        let sent = after.pipeline.call(call("sender", json!({}))).await;
        assert_eq!(code(&sent), then, "{label:?}");
    }
}

#[tokio::test]
async fn taint_labels_in_the_config_decide_what_is_asked() {
    let strict = room(json!({"tools": {"quiet": {"labels": {"acceptsUntrusted": false}}}}));
    assert_eq!(
        after_reading(&strict, "quiet").await,
        Some(ToolErrorCode::ApprovalDenied)
    );
    let open = room(json!({"tools": {"sender": {"labels": {"acceptsUntrusted": true}}}}));
    assert_eq!(after_reading(&open, "sender").await, None);
    let vouched = room(json!({"tools": {"reader": {"labels": {"outputTrust": "verified"}}}}));
    assert_eq!(after_reading(&vouched, "sender").await, None);
}

#[tokio::test]
async fn taint_of_sensitive_data_asks_before_sending() {
    let labels = json!({"outputTrust": "user", "outputDataClass": "sensitive"});
    let sensitive = room(json!({"tools": {"reader": {"labels": labels}}}));
    let outcome = sensitive.pipeline.call(call("reader", json!({}))).await;
    assert_eq!(outcome.label().data_class, DataClass::Sensitive);
    assert_eq!(outcome.label().trust, TrustLevel::User);
    assert_eq!(
        after_reading(&sensitive, "sender").await,
        Some(ToolErrorCode::ApprovalDenied)
    );
    assert_eq!(after_reading(&sensitive, "quiet").await, None);
}

#[tokio::test]
async fn taint_of_a_nested_call_applies_to_the_result() {
    let backend = Fake {
        nested: Some("reader"),
        ..Fake::default()
    };
    let mut outer = with("outer", backend);
    outer.trust = ToolTrust::Trusted;
    outer.definition.needs.tools = vec!["reader".into()];
    outer.granted = outer.definition.needs.clone();
    let bench = bench(
        vec![tool("reader"), outer, tool("quiet")],
        json!({}),
        ApprovalAnswer::No,
    );
    let outcome = bench.pipeline.call(call("outer", json!({}))).await;
    assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
}

#[tokio::test]
async fn taint_counts_model_and_server_tools_as_egress() {
    let change: [fn(&mut Tool); 4] = [
        |_| {},
        // A component of a team runs in the sandbox, like a custom one.
        |tool| tool.source = ToolSource::Teams,
        |tool| tool.definition.needs.model = true,
        |tool| tool.source = ToolSource::Mcp,
    ];
    for (at, change) in change.into_iter().enumerate() {
        let mut other = tool("other");
        other.trust = ToolTrust::Trusted;
        change(&mut other);
        let bench = bench(vec![tool("reader"), other], json!({}), ApprovalAnswer::No);
        let refused = after_reading(&bench, "other").await;
        assert_eq!(
            refused,
            (at > 1).then_some(ToolErrorCode::ApprovalDenied),
            "{at}"
        );
    }
}

/// Encoded content, 39 characters.
const OPAQUE: &str = "TXkgYmFuayBhY2NvdW50IGlzIDEyMzQ1Njc4OTA";

#[tokio::test]
async fn taint_allows_reads_of_listed_hosts_without_a_question() {
    let listed = json!({"network": {"allowedHosts": ["docs.example", "wiki.example"]}});
    let bench = bench(vec![web_fetch()], listed, ApprovalAnswer::No);
    for page in 0..10 {
        let host = ["docs", "wiki"][page % 2];
        let url = format!("https://{host}.example/guide/page-{page}?lang=en");
        let outcome = bench
            .pipeline
            .call(call("web_fetch", json!({ "url": url })))
            .await;
        assert_eq!(code(&outcome), None, "{url}");
    }
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 0);
    for (url, asked) in [
        (format!("https://docs.example/{OPAQUE}"), true),
        (
            format!("https://docs.example/?q={}", "word+".repeat(60)),
            true,
        ),
        ("https://other.example/".to_owned(), true),
        (
            "https://docs.example/c/6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f".to_owned(),
            false,
        ),
    ] {
        let outcome = bench
            .pipeline
            .call(call("web_fetch", json!({ "url": url })))
            .await;
        let expected = asked.then_some(ToolErrorCode::ApprovalDenied);
        assert_eq!(code(&outcome), expected, "{url}");
    }
    let headers = json!({"url": "https://docs.example/", "headers": {"cookie": OPAQUE}});
    let outcome = bench.pipeline.call(call("web_fetch", headers)).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::ApprovalDenied));
}

#[tokio::test]
async fn taint_allows_reads_but_no_writes_to_granted_hosts() {
    let requests = |requests: Value| json!({ "requests": requests });
    for (sends, refused) in [
        (
            json!([
                ["GET", "https://api.example.com/a"],
                ["GET", "https://api.example.com/b"]
            ]),
            false,
        ),
        (json!([["POST", "https://api.example.com/a"]]), true),
        (json!([["GET", "https://api.example.com/a", OPAQUE]]), true),
        (
            json!([["GET", format!("https://api.example.com/{OPAQUE}")]]),
            true,
        ),
        (
            json!([
                ["GET", "https://api.example.com/a"],
                ["POST", "https://api.example.com/b"]
            ]),
            true,
        ),
    ] {
        let bench = room(json!({}));
        assert!(bench.pipeline.call(call("reader", json!({}))).await.is_ok());
        let outcome = bench
            .pipeline
            .call(call("sender", requests(sends.clone())))
            .await;
        assert_eq!(outcome.is_ok(), !refused, "{sends}: {}", outcome.text());
    }
    // A person's setting for the tool holds for all its requests.
    let strict = json!({"tools": {"sender": {"labels": {"acceptsUntrusted": false}}}});
    let bench = room(strict);
    assert!(bench.pipeline.call(call("reader", json!({}))).await.is_ok());
    let reads = requests(json!([["GET", "https://api.example.com/a"]]));
    assert!(!bench.pipeline.call(call("sender", reads)).await.is_ok());
}

#[tokio::test]
async fn taint_ignores_allowed_hosts_of_an_untrusted_file() {
    let user: Config = serde_json::from_value(json!({"network": {"mode": "any"}})).unwrap();
    let project = json!({"network": {"allowedHosts": ["docs.example"]}});
    let mut project: Config = serde_json::from_value(project).unwrap();
    project.clamp_to(&user);
    let files = vec![
        PolicyFile::new(&user, "user.yml").unwrap(),
        PolicyFile::new(&project, "project.yml")
            .unwrap()
            .unaccepted(),
    ];
    let bench = bench(vec![], json!({}), ApprovalAnswer::No);
    bench.pipeline.replace(PipelineSnapshot {
        registry: Registry::new(vec![web_fetch()], vec![]),
        policy: Policy::from_files(&project, files),
    });
    let url = json!({"url": "https://docs.example/"});
    let first = bench.pipeline.call(call("web_fetch", url.clone())).await;
    assert_eq!(code(&first), None, "mode: any");
    let second = bench.pipeline.call(call("web_fetch", url)).await;
    let error = second.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    let ways = error.remedies.join("\n");
    let accepts = "`mimir policy accept` puts `network` (project.yml) in force";
    assert!(ways.contains(accepts), "{ways}");
    assert!(ways.contains("labels.acceptsUntrusted: true"), "{ways}");
}

/// Creates a tool of a granted server.
fn served(name: &str, server: &str) -> Tool {
    let mut tool = tool(name);
    tool.trust = ToolTrust::Trusted;
    tool.source = ToolSource::Mcp;
    let origin = Arc::make_mut(&mut tool.origin);
    origin.location = format!("mcp:{server}");
    tool
}

#[tokio::test]
async fn taint_of_a_server_permits_the_same_server() {
    let own = || served("own", "one");
    let sibling = || served("sibling", "one");
    let other = || served("other", "two");
    let tools = || vec![own(), sibling(), other(), tool("reader"), sender()];
    let refused = Some(ToolErrorCode::ApprovalDenied);
    // Each list is called in turn in one session; the last call is refused or not.
    for (calls, expected) in [
        (vec!["own", "own", "own"], None),
        (vec!["own", "sibling"], None),
        (vec!["own", "other"], refused),
        (vec!["own", "sender"], refused),
        (vec!["reader", "own"], refused),
        (vec!["own", "reader", "own"], refused),
    ] {
        let bench = bench(tools(), json!({}), ApprovalAnswer::No);
        let (last, before) = calls.split_last().unwrap();
        for name in before {
            let outcome = bench.pipeline.call(call(name, json!({}))).await;
            assert_eq!(code(&outcome), None, "{name} of {calls:?}");
            assert_eq!(outcome.label().trust, TrustLevel::Untrusted, "{name}");
        }
        let outcome = bench.pipeline.call(call(last, json!({}))).await;
        assert_eq!(code(&outcome), expected, "{calls:?}");
    }
    // The session has content of two servers now, so the exception for a server's own content does not apply.
    let accepts = json!({"tools": {"other": {"labels": {"acceptsUntrusted": true}}}});
    let bench = bench(tools(), accepts, ApprovalAnswer::No);
    for (name, expected) in [("own", None), ("other", None), ("own", refused)] {
        let outcome = bench.pipeline.call(call(name, json!({}))).await;
        assert_eq!(code(&outcome), expected, "{name}");
    }
}

#[tokio::test]
async fn taint_of_same_server_asks_if_it_refuses_untrusted() {
    let strict = json!({"tools": {"own": {"labels": {"acceptsUntrusted": false}}}});
    let bench = bench(vec![served("own", "one")], strict, ApprovalAnswer::No);
    assert!(bench.pipeline.call(call("own", json!({}))).await.is_ok());
    let again = bench.pipeline.call(call("own", json!({}))).await;
    assert_eq!(code(&again), Some(ToolErrorCode::ApprovalDenied));
}

#[tokio::test]
async fn taint_of_nested_server_call_permits_the_same_server() {
    for (reads, expected) in [
        ("own", None),
        ("reader", Some(ToolErrorCode::ApprovalDenied)),
    ] {
        let backend = Fake {
            nested: Some(reads),
            ..Fake::default()
        };
        let mut outer = with("outer", backend);
        outer.trust = ToolTrust::Trusted;
        outer.definition.needs.tools = vec![reads.into()];
        outer.granted = outer.definition.needs.clone();
        let tools = vec![served("own", "one"), tool("reader"), outer];
        let bench = bench(tools, json!({}), ApprovalAnswer::No);
        let outcome = bench.pipeline.call(call("outer", json!({}))).await;
        assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
        let after = bench.pipeline.call(call("own", json!({}))).await;
        assert_eq!(code(&after), expected, "{reads}");
    }
}
