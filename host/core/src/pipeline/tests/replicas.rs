//! Tests of pipelines that share their state: two pipelines stand for two processes.

use super::*;
use crate::call_switch::NoCallSwitch;
use crate::memory_state::MemoryState;
use crate::outcome::DataClass;

/// A tool that can send data out, because it uses a model.
fn sending() -> Tool {
    let mut tool = tool("sending");
    tool.trust = ToolTrust::Trusted;
    tool.definition.needs.model = true;
    tool.granted = tool.definition.needs.clone();
    tool
}

fn connections(state: &Arc<MemoryState>) -> PipelineConnections {
    PipelineConnections {
        switch: Arc::new(NoCallSwitch),
        state: Some(Arc::clone(state) as SharedStateHandle),
        remote: None,
    }
}

/// Creates a pipeline with this shared state.
fn replica(
    state: &Arc<MemoryState>,
    tools: Vec<Tool>,
    config: Value,
    answer: ApprovalAnswer,
) -> Bench {
    let bench = bench(tools, config, answer);
    bench.pipeline.connect(connections(state));
    bench
}

fn two_replicas(tools: &[Tool], config: &Value, answer: &ApprovalAnswer) -> [Bench; 2] {
    let state = Arc::new(MemoryState::default());
    [(); 2].map(|()| replica(&state, tools.to_vec(), config.clone(), answer.clone()))
}

async fn call_of(bench: &Bench, tool: &str) -> Option<ToolErrorCode> {
    code(&bench.pipeline.call(call(tool, json!({}))).await)
}

#[tokio::test]
async fn replicas_ask_after_content_that_another_one_has_read() {
    let tools = [tool("reader"), sending()];
    let [one, other] = two_replicas(&tools, &json!({}), &ApprovalAnswer::No);
    assert_eq!(call_of(&one, "reader").await, None);
    let asked = Some(ToolErrorCode::ApprovalDenied);
    assert_eq!(call_of(&other, "sending").await, asked);
    let label = other.pipeline.session_label("session");
    assert_eq!(
        (label.trust, label.origin.as_str()),
        (TrustLevel::Untrusted, "custom:reader")
    );
    let mut elsewhere = call("sending", json!({}));
    elsewhere.context.session_id = "another".into();
    assert!(other.pipeline.call(elsewhere).await.is_ok());
}

#[tokio::test]
async fn replicas_share_the_label_of_a_resumed_session() {
    let tools = [tool("reader"), sending()];
    let [one, other] = two_replicas(&tools, &json!({}), &ApprovalAnswer::No);
    let read = ContentLabel {
        trust: TrustLevel::System,
        data_class: DataClass::Sensitive,
        origin: "earlier".into(),
    };
    one.pipeline.restore_session_label("session", &read);
    let asked = Some(ToolErrorCode::ApprovalDenied);
    assert_eq!(call_of(&one, "sending").await, asked);
    assert_eq!(call_of(&other, "sending").await, asked);
}

#[tokio::test]
async fn replicas_accept_an_approval_for_the_session_until_it_ends() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let [one, other] = two_replicas(&[asking], &json!({}), &ApprovalAnswer::Session);
    assert_eq!(call_of(&one, "asking").await, None);
    assert_eq!(call_of(&other, "asking").await, None);
    assert_eq!(one.approver.1.load(Ordering::SeqCst), 1);
    assert_eq!(other.approver.1.load(Ordering::SeqCst), 0);
    // The record decides, so the end of the session in one replica ends the approval in the other.
    one.pipeline.end_session("session");
    while call_of(&other, "asking").await.is_none() && other.approver.1.load(Ordering::SeqCst) == 0
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.approver.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replicas_use_an_approval_for_one_call_once() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let [one, other] = two_replicas(&[asking], &json!({}), &ApprovalAnswer::Once);
    assert_eq!(call_of(&one, "asking").await, None);
    assert_eq!(call_of(&other, "asking").await, None);
    assert_eq!(other.approver.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn replicas_count_calls_per_minute_together() {
    let config = json!({"tools": {"sample": {"limits": {"callsPerMinute": 3}}}});
    let [one, other] = two_replicas(&[tool("sample")], &config, &ApprovalAnswer::No);
    for bench in [&one, &other, &one] {
        assert_eq!(call_of(bench, "sample").await, None);
    }
    let limited = Some(ToolErrorCode::LimitExceeded);
    assert_eq!(call_of(&other, "sample").await, limited);
    assert_eq!(call_of(&one, "sample").await, limited);
}

#[tokio::test]
async fn calls_per_minute_error_names_the_time_to_wait() {
    let config = json!({"limits": {"callsPerMinute": 1}});
    let bench = bench(vec![tool("sample")], config, ApprovalAnswer::No);
    assert_eq!(call_of(&bench, "sample").await, None);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    let details = outcome.result().unwrap_err().details.clone().unwrap();
    let wait = details["retryAfterMs"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{wait}");
}

/// Completes when its gate is opened, and counts the calls that run at once.
#[derive(Default)]
struct Gated {
    running: AtomicUsize,
    most: AtomicUsize,
    open: tokio::sync::Notify,
}

impl Backend for Gated {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.open.notified().await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            RawResult::from(Ok(ToolOutput::default()))
        })
    }
}

#[tokio::test]
async fn replicas_share_a_limit_of_concurrent_calls() {
    let backend = Arc::new(Gated::default());
    let gated = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool("gated")
    };
    let config = json!({"limits": {"concurrent": 2}});
    let replicas = two_replicas(&[gated], &config, &ApprovalAnswer::No);
    let calls: Vec<_> = replicas
        .iter()
        .flat_map(|bench| [(); 3].map(|()| bench.pipeline.clone()))
        .map(|pipeline| {
            tokio::spawn(async move { pipeline.call(call("gated", json!({}))).await.is_ok() })
        })
        .collect();
    while backend.running.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    for task in calls {
        while !task.is_finished() {
            backend.open.notify_one();
            tokio::task::yield_now().await;
        }
        assert!(task.await.unwrap());
    }
    assert_eq!(backend.most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn replica_without_its_state_refuses_calls() {
    let state = Arc::new(MemoryState::default());
    let backend = Arc::new(Fake::default());
    let sample = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool("sample")
    };
    let bench = replica(&state, vec![sample], json!({}), ApprovalAnswer::No);
    state.set_unreachable(true);
    let unavailable = Some(ToolErrorCode::Unavailable);
    assert_eq!(call_of(&bench, "sample").await, unavailable);
    assert_eq!(backend.calls.load(Ordering::SeqCst), 0);
    assert_eq!(bench.audit.events.lock()[0]["code"], "UNAVAILABLE");
    state.set_unreachable(false);
    assert_eq!(call_of(&bench, "sample").await, None);
}

/// Cuts the state off while it runs.
struct CutsOff(Arc<MemoryState>);

impl Backend for CutsOff {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            self.0.set_unreachable(true);
            RawResult::from(Ok(ToolOutput {
                content: vec![Content::text("read")],
                ..ToolOutput::default()
            }))
        })
    }
}

#[tokio::test]
async fn replica_withholds_content_whose_label_it_cannot_share() {
    let state = Arc::new(MemoryState::default());
    let reader = Tool {
        backend: Arc::new(CutsOff(Arc::clone(&state))),
        ..tool("reader")
    };
    let tools = vec![reader, sending()];
    let one = replica(&state, tools.clone(), json!({}), ApprovalAnswer::No);
    let other = replica(&state, tools, json!({}), ApprovalAnswer::No);
    let outcome = one.pipeline.call(call("reader", json!({}))).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(error.details, Some(json!({"mayHaveRun": true})));
    assert!(!outcome.text().contains("read\n"));
    assert_eq!(one.audit.events.lock()[0]["code"], "UNAVAILABLE");
    state.set_unreachable(false);
    // The label is shared with the next call.
    let asked = Some(ToolErrorCode::ApprovalDenied);
    assert_eq!(call_of(&one, "sending").await, asked);
    assert_eq!(call_of(&other, "sending").await, asked);
}

#[tokio::test]
async fn replica_accesses_the_state_once_per_call_if_nothing_changes() {
    let state = Arc::new(MemoryState::default());
    let tools = vec![tool("reader"), tool("sample")];
    let bench = replica(&state, tools, json!({}), ApprovalAnswer::No);
    assert_eq!(call_of(&bench, "reader").await, None);
    let before = state.accesses();
    for _ in 0..3 {
        assert_eq!(call_of(&bench, "sample").await, None);
    }
    assert_eq!(state.accesses() - before, 3);
}

#[tokio::test]
async fn replicas_merge_what_they_read_at_the_same_time() {
    let state = Arc::new(MemoryState::default());
    let readers: Vec<Tool> = (0..8)
        .map(|number| {
            let mut reader = tool(&format!("reader_{number}"));
            reader.source = ToolSource::Mcp;
            reader.trust = ToolTrust::Trusted;
            reader
        })
        .collect();
    let replicas: Vec<Bench> = readers
        .into_iter()
        .map(|reader| replica(&state, vec![reader], json!({}), ApprovalAnswer::Once))
        .collect();
    let calls = replicas.iter().enumerate().map(|(number, bench)| {
        let pipeline = bench.pipeline.clone();
        tokio::spawn(async move {
            let outcome = pipeline.call(call(&format!("reader_{number}"), json!({})));
            outcome.await.is_ok()
        })
    });
    for task in calls.collect::<Vec<_>>() {
        assert!(task.await.unwrap());
    }
    let fresh = replica(&state, vec![tool("sample")], json!({}), ApprovalAnswer::No);
    assert_eq!(call_of(&fresh, "sample").await, None);
    let label = fresh.pipeline.session_label("session");
    assert_eq!(label.trust, TrustLevel::Untrusted);
}

#[tokio::test]
async fn replica_does_not_restore_masks_of_another_one() {
    use crate::redact::SecretDigest;
    let state = Arc::new(MemoryState::default());
    let benches = [(); 2].map(|()| replica(&state, vec![], json!({}), ApprovalAnswer::No));
    let [one, other] = &benches;
    let [own, elsewhere] = [one, other].map(|bench| bench.pipeline.0.sessions.get("session"));
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut output = ToolOutput {
        content: vec![Content::text(format!("token {secret}"))],
        ..ToolOutput::default()
    };
    let masks = crate::pipeline::mask::mask_output(&Redactor::new(), &mut output);
    let rule = masks.rules().next().expect("a token is masked").to_owned();
    own.record_masks(&masks);
    let now = SystemTime::now();
    own.store(&*state, "session", now).await.unwrap();
    elsewhere.load(&*state, "session", now).await.unwrap();
    let digests = std::collections::BTreeSet::from([SecretDigest::new(secret.as_bytes())]);
    assert!(elsewhere.has_masked(&rule));
    assert!(elsewhere.has_masked_others(&rule, Some(&digests)));
    // The replica itself knows the digest also after it has loaded its own record.
    own.load(&*state, "session", now).await.unwrap();
    assert!(!own.has_masked_others(&rule, Some(&digests)));
}

#[tokio::test]
async fn shared_session_record_is_bounded() {
    let state = Arc::new(MemoryState::default());
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    asking.definition.input_schema = Schema::parse(r#"{"type":"object"}"#).unwrap();
    let bench = replica(&state, vec![asking], json!({}), ApprovalAnswer::Session);
    for number in 0..5 {
        let text = "x".repeat(30_000);
        let arguments = json!({"text": text, "n": number});
        assert!(bench.pipeline.call(call("asking", arguments)).await.is_ok());
    }
    use crate::shared_state::{SharedState as _, StateArea};
    let records = state.list(StateArea::Sessions, None).await.unwrap();
    assert_eq!(records.len(), 1);
    let size = records[0].value.len();
    assert!((30_000..=64 << 10).contains(&size), "{size}");
}

#[tokio::test]
async fn shared_session_with_an_unreadable_record_refuses_calls() {
    use crate::shared_state::{SharedState as _, StateArea, StateKey};
    let state = Arc::new(MemoryState::default());
    let key = StateKey::new(["session", "session"]);
    let created = state.create(StateArea::Sessions, &key, b"{".to_vec(), None);
    created.await.unwrap();
    let bench = replica(&state, vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let unavailable = Some(ToolErrorCode::Unavailable);
    assert_eq!(call_of(&bench, "sample").await, unavailable);
}

#[tokio::test]
async fn replicas_know_fetched_fragments_of_each_other() {
    let state = Arc::new(MemoryState::default());
    let benches = [(); 2].map(|()| replica(&state, vec![], json!({}), ApprovalAnswer::No));
    let [own, elsewhere] = benches
        .each_ref()
        .map(|bench| bench.pipeline.0.sessions.get("s"));
    let hash = "6744e674a1f0b2c3d4e5f60718293a4b5c6d7e8f";
    own.record_read(&ContentLabel::worst("web"), ContentSource::Other);
    own.record_fetched([hash].into_iter());
    let now = SystemTime::now();
    own.store(&*state, "s", now).await.unwrap();
    elsewhere.load(&*state, "s", now).await.unwrap();
    let asks = |session: &super::super::session::PipelineSession| {
        use crate::pipeline::session::EgressPath;
        let url = format!("https://docs.example/c/{hash}");
        let target = crate::network::RequestTarget::parse(&url).unwrap();
        let path = EgressPath::Request {
            egress: OutgoingRequest {
                target: &target,
                method: "GET",
                headers: &[],
                body: false,
            },
            listed: true,
            command: ContentSource::Other,
            remedy: &String::new,
        };
        let mut evaluation = PolicyEvaluation::default();
        session.evaluate_taint(None, &path, &mut evaluation);
        let reasons = evaluation.reasons();
        reasons
            .filter(|reason| reason.rule == "taint: untrusted content")
            .count()
    };
    assert_eq!((asks(&own), asks(&elsewhere)), (0, 0));
    let fresh = benches[0].pipeline.0.sessions.get("fresh");
    fresh.record_read(&ContentLabel::worst("web"), ContentSource::Other);
    assert_eq!(asks(&fresh), 1);
}
