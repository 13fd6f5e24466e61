//! Tests of the effect gate: approvals while a call runs, stored approvals, and the record of each effect before it is
//! carried out.

use super::*;
use crate::needs::HostNeed;
use crate::network::RequestTarget;
use crate::pipeline::{EgressPermission, OutgoingRequest};
use crate::policy::PolicyFile;

/// Passes these requests to its effect gate, one after the other, and returns the result of the last.
struct Sends(&'static [(&'static str, &'static str)]);

impl Backend for Sends {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let effects = call.effects();
            let mut said = Ok(EgressPermission::Listed);
            for (method, url) in self.0 {
                let target = RequestTarget::parse(url).unwrap();
                let target = &target;
                said = effects
                    .request(OutgoingRequest {
                        target,
                        method,
                        headers: &[],
                        body: *method == "POST",
                    })
                    .await;
            }
            RawResult::from(said.map(|consent| ToolOutput {
                content: vec![Content::text(format!("{consent:?}"))],
                ..ToolOutput::default()
            }))
        })
    }
}

/// Creates a granted tool that sends these requests.
fn sender(sends: &'static [(&'static str, &'static str)]) -> Tool {
    let mut tool = tool("sample");
    tool.definition.input_schema = Schema::parse(r#"{"type":"object"}"#).unwrap();
    tool.definition.needs.hosts = vec![HostNeed {
        host: "api.example".into(),
        methods: vec!["GET".into(), "POST".into()],
        reason: String::new(),
    }];
    tool.granted = tool.definition.needs.clone();
    tool.trust = ToolTrust::Trusted;
    tool.backend = Arc::new(Sends(sends));
    tool
}

const POST: &[(&str, &str)] = &[("POST", "https://api.example/x?token=abc")];

/// Returns settings that ask about POST requests, but not about untrusted content.
fn posts_ask() -> Value {
    let conditions = json!({"methodRequiresApproval": ["POST"]});
    json!({"tools": {"sample": {
        "approval": {"level": "allow", "conditions": conditions},
        "labels": {"acceptsUntrusted": true},
    }}})
}

fn effects(room: &Room) -> Vec<Value> {
    let events = room.audit.events.lock();
    let effects = events.iter().filter(|event| event["event"] == "effect");
    effects.cloned().collect()
}

#[tokio::test]
async fn request_session_approval_covers_the_same_request() {
    let answers = vec![ApprovalAnswer::Session];
    let room = room(vec![sender(POST)], posts_ask(), answers);
    assert!(room.ok(json!({})).await);
    assert!(room.ok(json!({"n": 2})).await, "the request is the same");
    assert_eq!(room.asked(), 1);
    let effects = effects(&room);
    assert_eq!(effects[0]["answer"], "session");
    assert_eq!(effects[1]["answer"], "session lease");
    assert_eq!(effects[0]["subject"], "POST https://api.example");
    assert!(!format!("{effects:?}").contains("token"), "no content");
    room.pipeline.end_session("session");
    assert!(!room.ok(json!({})).await, "the session has ended");
}

/// Requests a page of one host, a different one in each call.
struct Browses;

impl Backend for Browses {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let url = format!("https://api.example/{}", call.arguments()["n"]);
            let egress = OutgoingRequest {
                target: &RequestTarget::parse(&url).unwrap(),
                method: "GET",
                headers: &[],
                body: false,
            };
            let said = call.effects().request(egress).await;
            RawResult::from(said.map(|_| ToolOutput::default()))
        })
    }
}

#[tokio::test]
async fn request_session_approval_covers_waiting_requests() {
    let mut browser = sender(&[]);
    browser.backend = Arc::new(Browses);
    let settings = json!({"network": {"allowedHosts": ["other.example"]}});
    for (answers, cards) in [
        (vec![ApprovalAnswer::Session], 1),
        (vec![ApprovalAnswer::Once, ApprovalAnswer::Session], 2),
        (vec![ApprovalAnswer::Once; 8], 8),
    ] {
        let room = room(vec![browser.clone()], settings.clone(), answers.clone());
        let call = async |n: u32| room.ok(json!({ "n": n })).await;
        let done = tokio::join!(
            call(1),
            call(2),
            call(3),
            call(4),
            call(5),
            call(6),
            call(7),
            call(8)
        );
        let all = (true, true, true, true, true, true, true, true);
        assert_eq!(done, all, "{answers:?}");
        assert_eq!(room.asked(), cards, "{answers:?}");
    }
}

#[tokio::test]
async fn request_approved_before_the_call_is_not_asked_again() {
    let answers = || vec![ApprovalAnswer::Once];
    let same = json!({"url": "https://API.example:443/x?token=abc", "method": "post"});
    let first = room(vec![sender(POST)], posts_ask(), answers());
    assert!(first.ok(same.clone()).await);
    assert_eq!(first.asked(), 1);

    let other = json!({"url": "https://api.example/y", "method": "post"});
    let second = room(vec![sender(POST)], posts_ask(), answers());
    assert!(
        !second.ok(other).await,
        "the approval of the call covers another request"
    );
    assert_eq!(second.asked(), 2);
}

#[tokio::test]
async fn request_approval_cannot_be_edited() {
    let edit = ApprovalAnswer::Edit(json!({"method": "GET", "url": "https://evil.example/"}));
    let room = room(vec![sender(POST)], posts_ask(), vec![edit]);
    let outcome = room.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::ApprovalDenied));
}

#[tokio::test]
async fn request_to_an_unlisted_host_needs_approval() {
    let listed = room(
        vec![sender(&[("GET", "https://api.example/")])],
        json!({}),
        vec![],
    );
    let outcome = listed.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(outcome.text(), "Listed");

    let settings = json!({"network": {"allowedHosts": ["other.example"]}});
    let sends: &[_] = &[("GET", "https://api.example/")];
    let asked = room(
        vec![sender(sends)],
        settings.clone(),
        vec![ApprovalAnswer::Once],
    );
    let outcome = asked.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(outcome.text(), "Unlisted");
    let refused = room(vec![sender(sends)], settings, vec![ApprovalAnswer::No]);
    assert!(!refused.ok(json!({})).await);
}

#[tokio::test]
async fn request_outside_the_team_list_cannot_be_approved() {
    let team = json!({"network": {"allowedHosts": ["intranet.example"]}});
    let team: Config = serde_json::from_value(team).unwrap();
    let files = vec![PolicyFile::new(&team, "team.yml").unwrap().as_team()];
    let room = room(vec![], json!({}), vec![ApprovalAnswer::Once]);
    room.pipeline.replace(PipelineSnapshot {
        registry: Registry::new(vec![sender(POST)], vec![]),
        policy: Policy::from_files(&Config::default(), files),
    });
    let outcome = room.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
    assert_eq!(room.asked(), 0);
}

#[tokio::test]
async fn request_is_refused_after_a_rule_denies_the_tool() {
    let room = room(vec![sender(POST)], json!({}), vec![]);
    let held = room.pipeline.snapshot();
    let backend = Arc::clone(&held.registry.get("sample").unwrap().backend);
    let deny = json!({"policy": {"deny": ["sample"]}});
    let policy = Policy::new(&serde_json::from_value(deny).unwrap(), "config.yml").unwrap();
    let mut changing = sender(POST);
    changing.backend = Arc::new(Replaces {
        pipeline: room.pipeline.clone(),
        then: Mutex::new(Some(policy)),
        inner: backend,
    });
    room.pipeline.replace(PipelineSnapshot {
        registry: Registry::new(vec![changing], vec![]),
        policy: held.policy.clone(),
    });
    let outcome = room.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
    assert!(
        outcome.text().contains("no longer has access"),
        "{}",
        outcome.text()
    );
    assert_eq!(effects(&room).last().unwrap()["code"], "POLICY_DENIED");
}

/// Replaces the rules once it runs.
struct Replaces {
    pipeline: Pipeline,
    then: Mutex<Option<Policy>>,
    inner: Arc<dyn Backend>,
}

impl Backend for Replaces {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let snapshot = self.pipeline.snapshot();
        if let Some(policy) = self.then.lock().take() {
            self.pipeline.replace(PipelineSnapshot {
                registry: Registry::new(
                    snapshot
                        .registry
                        .tools()
                        .iter()
                        .map(|tool| (**tool).clone()),
                    vec![],
                ),
                policy,
            });
        }
        self.inner.run(call)
    }
}

/// Reads something through another tool, and then sends a request.
struct ReadsFirst(Arc<dyn Backend>);

impl Backend for ReadsFirst {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let read = call.nested().call("reader", json!({})).await;
            assert!(read.unwrap().is_ok());
            self.0.run(call).await
        })
    }
}

#[tokio::test]
async fn request_after_reading_in_the_same_call_is_asked() {
    let reading = || {
        let mut tool = sender(POST);
        tool.granted.tools = vec!["reader".into()];
        tool.backend = Arc::new(ReadsFirst(tool.backend));
        tool
    };
    let tools = || vec![reading(), tool("reader")];
    let first = room(tools(), json!({}), vec![ApprovalAnswer::No]);
    assert!(!first.ok(json!({})).await);
    assert_eq!(first.asked(), 1);
    let card = first.script.cards.lock()[0].clone();
    assert_eq!(card.summary, format!("send POST {}", POST[0].1));
    assert!(
        card.reasons
            .iter()
            .any(|reason| reason.rule.starts_with("taint"))
    );

    // A reason that a person has approved for the call is not asked about again for its request.
    let second = room(tools(), json!({}), vec![ApprovalAnswer::Once]);
    assert!(
        second
            .pipeline
            .call(call("reader", json!({})))
            .await
            .is_ok()
    );
    assert!(second.ok(json!({})).await);
    assert_eq!(second.asked(), 1);
}

/// Records calls, but fails to record their effects.
struct CallsOnly;

impl AuditSink for CallsOnly {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        match event.event {
            crate::audit::EventKind::Effect => Err(AuditError {
                place: "memory".into(),
                source: std::io::Error::from(std::io::ErrorKind::StorageFull),
            }),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn request_is_not_sent_if_the_audit_fails() {
    let bench = bench(vec![], json!({}), ApprovalAnswer::No);
    let ports = PipelinePorts {
        audit: Arc::new(CallsOnly),
        ..bench.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: Registry::new(vec![sender(POST)], vec![]),
        policy: Policy::default(),
    };
    let pipeline = Pipeline::new(snapshot, ports);
    let outcome = pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    assert!(
        outcome.text().contains("nothing was sent"),
        "{}",
        outcome.text()
    );
}

/// Creates a tool that sends requests to any URL in its arguments.
fn goes_anywhere() -> Tool {
    let mut tool = sender(&[("GET", "http://evil.example/secret")]);
    tool.definition.needs.hosts[0].host = "*".into();
    tool.definition.needs.hosts[0].methods = vec!["GET".into()];
    tool.granted = tool.definition.needs.clone();
    tool
}

#[tokio::test]
async fn request_url_rules_see_the_normalized_url() {
    let rule =
        json!({"when": {"url": {"glob": "http://evil.example/secret*"}}, "decision": "deny"});
    let settings = json!({"policy": {"rules": [rule]}, "network": {"mode": "any"}});
    for url in [
        "http://evil.example/secret",
        "http://evil.example:80/secret",
        "HTTP://EVIL.example/x/../secret",
        "http://evil.example/./%73ecret",
    ] {
        let room = room(vec![goes_anywhere()], settings.clone(), vec![]);
        let foreseen = room.pipeline.explain(call("sample", json!({"url": url})));
        let evaluation = foreseen.await.unwrap().evaluation;
        assert_eq!(evaluation.decision(), Decision::Deny, "{url}");
        let spoken = evaluation.reasons();
        let spoken = spoken.filter(|reason| reason.rule.contains("rules[0]"));
        assert_eq!(spoken.count(), 1, "{url}");
        assert!(!room.ok(json!({"url": url})).await);
        assert!(effects(&room).is_empty(), "{url}: refused before it ran");
    }
}

#[tokio::test]
async fn request_percent_encoding_does_not_bypass_url_rules() {
    let rule = json!({"when": {"url": {"glob": "http://api.example/secret*"}}, "decision": "deny"});
    let room = room(
        vec![sender(&[("GET", "http://api.example/%73%65cret")])],
        json!({"policy": {"rules": [rule]}, "network": {"mode": "any"}}),
        vec![],
    );
    assert!(!room.ok(json!({})).await);
    assert_eq!(effects(&room)[0]["code"], "POLICY_DENIED");
}

/// Encoded content.
const OPAQUE: &str = "https://a.example/TXkgYmFuayBhY2NvdW50IGlzIDEyMzQ1Njc4OTA";

#[tokio::test]
async fn request_session_approval_of_a_host_covers_its_pages() {
    let anywhere = |sends| {
        let mut tool = goes_anywhere();
        tool.backend = Arc::new(Sends(sends));
        tool
    };
    let pages: &[_] = &[
        ("GET", "https://a.example/1"),
        ("GET", "https://a.example/2?q=x"),
    ];
    // Neither host is listed. With `mode: any`, only a session that has read untrusted content is asked.
    for (settings, is_listable) in [
        (json!({}), true),
        (json!({"network": {"mode": "any"}}), false),
    ] {
        let room = room(
            vec![anywhere(pages), tool("reader")],
            settings,
            vec![ApprovalAnswer::Session],
        );
        assert!(room.pipeline.call(call("reader", json!({}))).await.is_ok());
        assert!(room.ok(json!({})).await);
        assert!(room.ok(json!({"n": 2})).await);
        assert_eq!(room.asked(), 1);
        let card = room.script.cards.lock()[0].clone();
        let always = card.always.unwrap().text;
        assert!(
            always.contains("GET requests to any URL of https://a.example"),
            "{always}"
        );
        let ways = card.remedies.join("\n");
        assert!(
            ways.contains("\"a.example\"") && ways.contains("allowedHosts"),
            "{ways}"
        );
        // Where the host has to be listed anyway, that settles both questions.
        assert_eq!(ways.contains("acceptsUntrusted"), !is_listable, "{ways}");
    }
    // Another method, another host, and requests that carry data are separate questions.
    for other in [
        ("HEAD", "https://a.example/1"),
        ("GET", "https://b.example/1"),
        ("GET", OPAQUE),
    ] {
        let both: &'static [_] = Box::leak(Box::new([pages[0], other]));
        let mut tool_of_both = anywhere(both);
        tool_of_both.definition.needs.hosts[0].methods = vec!["GET".into(), "HEAD".into()];
        tool_of_both.granted = tool_of_both.definition.needs.clone();
        let room = room(
            vec![tool_of_both, tool("reader")],
            json!({"network": {"mode": "any"}}),
            vec![ApprovalAnswer::Session, ApprovalAnswer::No],
        );
        assert!(room.pipeline.call(call("reader", json!({}))).await.is_ok());
        assert!(!room.ok(json!({})).await, "{other:?}");
        assert_eq!(room.asked(), 2, "{other:?}");
    }
}
