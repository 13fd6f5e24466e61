//! Tests of the questions that follow from the content that a session has read.

use super::*;
use crate::needs::HostNeed;
use crate::network::Target;
use crate::outcome::{DataClass, Label};
use crate::pipeline::Egress;

/// Passes the requests in its arguments to its effect gate, a POST if there are none, and fails with the first refused
/// one.
struct Sends;

impl Backend for Sends {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let requests = match call.arguments().get("requests") {
                Some(requests) => requests.clone(),
                None => json!([["POST", "https://api.example.com/"]]),
            };
            for request in requests.as_array().unwrap() {
                let (method, url) = (request[0].as_str().unwrap(), request[1].as_str().unwrap());
                let header = request[2].as_str().unwrap_or_default();
                let (effects, target) = (call.effects(), Target::parse(url).unwrap());
                let egress = Egress {
                    target: &target,
                    method,
                    headers: &[b"x-note".as_slice(), header.as_bytes()],
                    body: method == "POST",
                };
                if let Err(error) = effects.request(egress).await {
                    return Raw::failed(error);
                }
            }
            Raw::from(Ok(Output::default()))
        })
    }
}

fn sender() -> Tool {
    let mut tool = tool("sender");
    tool.trust = Trust::Trusted;
    tool.definition.needs.hosts = vec![HostNeed {
        host: "api.example.com".into(),
        methods: vec!["GET".into(), "POST".into()],
        reason: String::new(),
    }];
    tool.granted = tool.definition.needs.clone();
    tool.backend = Arc::new(Sends);
    tool
}

/// A built-in tool that sends requests wherever its arguments say.
fn web_fetch() -> Tool {
    let mut tool = sender();
    tool.definition.name = ToolName::new("web_fetch").unwrap();
    tool.definition.group = Group::Net;
    tool.source = Source::BuiltIn;
    tool.definition.needs.hosts[0].host = "*".into();
    tool.granted = tool.definition.needs.clone();
    tool.backend = Arc::new(Fetches);
    tool
}

/// Sends the request of its arguments.
struct Fetches;

impl Backend for Fetches {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        Box::pin(async move {
            let url = call.arguments()["url"].as_str().unwrap();
            let (effects, target) = (call.effects(), Target::parse(url).unwrap());
            let egress = Egress {
                target: &target,
                method: "GET",
                headers: &[],
                body: false,
            };
            Raw::from(effects.request(egress).await.map(|_| Output {
                content: vec![Content::text(
                    "a page with https://docs.example/c/6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f",
                )],
                ..Output::default()
            }))
        })
    }
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

/// Encoded content, 39 characters.
const OPAQUE: &str = "TXkgYmFuayBhY2NvdW50IGlzIDEyMzQ1Njc4OTA";

#[tokio::test]
async fn listed_hosts_are_read_without_a_question_after_content_of_strangers() {
    let listed = json!({"network": {"allowedHosts": ["docs.example", "wiki.example"]}});
    let bench = bench(vec![web_fetch()], listed, Answer::No);
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
        let expected = asked.then_some(Code::ApprovalDenied);
        assert_eq!(code(&outcome), expected, "{url}");
    }
    let headers = json!({"url": "https://docs.example/", "headers": {"cookie": OPAQUE}});
    let outcome = bench.pipeline.call(call("web_fetch", headers)).await;
    assert_eq!(code(&outcome), Some(Code::ApprovalDenied));
}

#[tokio::test]
async fn a_host_that_a_tool_was_granted_is_read_and_not_written_to() {
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
async fn a_host_in_a_file_that_nobody_has_accepted_is_not_listed() {
    let user: Config = serde_json::from_value(json!({"network": {"mode": "any"}})).unwrap();
    let project = json!({"network": {"allowedHosts": ["docs.example"]}});
    let mut project: Config = serde_json::from_value(project).unwrap();
    project.within(&user);
    let files = vec![
        Policy::new(&user, "user.yml").unwrap(),
        Policy::new(&project, "project.yml").unwrap().unaccepted(),
    ];
    let bench = bench(vec![], json!({}), Answer::No);
    bench.pipeline.replace(World {
        registry: Registry::new(vec![web_fetch()], vec![]),
        policy: Policy::of_files(&project, files).unwrap(),
    });
    let url = json!({"url": "https://docs.example/"});
    let first = bench.pipeline.call(call("web_fetch", url.clone())).await;
    assert_eq!(code(&first), None, "mode: any");
    let second = bench.pipeline.call(call("web_fetch", url)).await;
    let error = second.result().unwrap_err();
    assert_eq!(error.code, Code::ApprovalDenied);
    let ways = error.way_out.join("\n");
    let accepts = "`mimir policy accept` puts `network` (project.yml) in force";
    assert!(ways.contains(accepts), "{ways}");
    assert!(ways.contains("labels.acceptsUntrusted: true"), "{ways}");
}

/// A tool of a server that a person has trusted.
fn served(name: &str, server: &str) -> Tool {
    let mut tool = tool(name);
    tool.trust = Trust::Trusted;
    tool.source = Source::Mcp;
    let origin = Arc::make_mut(&mut tool.origin);
    origin.location = format!("mcp:{server}");
    tool
}

#[tokio::test]
async fn taint_of_a_server_is_no_question_to_the_same_server() {
    let own = || served("own", "one");
    let sibling = || served("sibling", "one");
    let other = || served("other", "two");
    let tools = || vec![own(), sibling(), other(), tool("reader"), sender()];
    let refused = Some(Code::ApprovalDenied);
    // Each list is called in turn in one session; the last call is refused or not.
    for (calls, expected) in [
        (vec!["own", "own", "own"], None),
        (vec!["own", "sibling"], None),
        (vec!["own", "other"], refused),
        (vec!["own", "sender"], refused),
        (vec!["reader", "own"], refused),
        (vec!["own", "reader", "own"], refused),
    ] {
        let bench = bench(tools(), json!({}), Answer::No);
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
    let bench = bench(tools(), accepts, Answer::No);
    for (name, expected) in [("own", None), ("other", None), ("own", refused)] {
        let outcome = bench.pipeline.call(call(name, json!({}))).await;
        assert_eq!(code(&outcome), expected, "{name}");
    }
}

#[tokio::test]
async fn taint_of_a_server_is_a_question_where_a_person_refuses_untrusted_content() {
    let strict = json!({"tools": {"own": {"labels": {"acceptsUntrusted": false}}}});
    let bench = bench(vec![served("own", "one")], strict, Answer::No);
    assert!(bench.pipeline.call(call("own", json!({}))).await.is_ok());
    let again = bench.pipeline.call(call("own", json!({}))).await;
    assert_eq!(code(&again), Some(Code::ApprovalDenied));
}

#[tokio::test]
async fn taint_of_a_nested_call_to_a_server_is_no_question_to_the_same_server() {
    for (reads, expected) in [("own", None), ("reader", Some(Code::ApprovalDenied))] {
        let backend = Fake {
            nested: Some(reads),
            ..Fake::default()
        };
        let mut outer = with("outer", backend);
        outer.trust = Trust::Trusted;
        outer.definition.needs.tools = vec![reads.into()];
        outer.granted = outer.definition.needs.clone();
        let tools = vec![served("own", "one"), tool("reader"), outer];
        let bench = bench(tools, json!({}), Answer::No);
        let outcome = bench.pipeline.call(call("outer", json!({}))).await;
        assert_eq!(outcome.label().trust, TrustLevel::Untrusted);
        let after = bench.pipeline.call(call("own", json!({}))).await;
        assert_eq!(code(&after), expected, "{reads}");
    }
}
