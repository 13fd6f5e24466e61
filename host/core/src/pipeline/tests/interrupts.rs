//! Tests of running calls that are stopped: by the kill switch, by revoked grants, by changed rules.

use super::*;
use crate::approval::{ApprovalStoreError, Fingerprint, StoredApproval};
use crate::call_switch::{CallSwitch, StopNotice};
use crate::needs::NeedKind;

/// A switch that tests operate.
#[derive(Default)]
struct TestSwitch {
    notice: Mutex<Option<StopNotice>>,
    changed: tokio::sync::Notify,
}

impl TestSwitch {
    fn stop(&self) {
        let reason = Some("an incident".to_owned());
        *self.notice.lock() = Some(StopNotice::new("ada".into(), SystemTime::now(), reason));
        self.changed.notify_waiters();
    }

    fn start(&self) {
        *self.notice.lock() = None;
        self.changed.notify_waiters();
    }
}

impl CallSwitch for TestSwitch {
    fn stopped(&self) -> Option<StopNotice> {
        self.notice.lock().clone()
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }
}

fn switched(tools: Vec<Tool>) -> (Bench, Arc<TestSwitch>) {
    let bench = bench(tools, json!({}), ApprovalAnswer::No);
    let switch = Arc::new(TestSwitch::default());
    bench.pipeline.connect(PipelineConnections {
        switch: Arc::clone(&switch) as Arc<dyn CallSwitch>,
        state: None,
        remote: None,
    });
    (bench, switch)
}

/// A tool that never returns.
fn hanging(name: &str) -> (Tool, Arc<Fake>) {
    let backend = Arc::new(Fake {
        hang: true,
        ..Fake::default()
    });
    let tool = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool(name)
    };
    (tool, backend)
}

/// Starts a call, and waits until its tool runs.
async fn start(
    pipeline: &Pipeline,
    name: &'static str,
    backend: &Fake,
) -> tokio::task::JoinHandle<Outcome> {
    let before = backend.calls.load(Ordering::SeqCst);
    let pipeline = pipeline.clone();
    let task = tokio::spawn(async move { pipeline.call(call(name, json!({}))).await });
    while backend.calls.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test]
async fn kill_switch_refuses_calls_until_it_is_off() {
    let (bench, switch) = switched(vec![tool("sample")]);
    switch.stop();
    for name in ["sample", "missing"] {
        let outcome = bench.pipeline.call(call(name, json!({}))).await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Unavailable, "{name}");
        assert_eq!(error.message, "all calls are stopped by ada: an incident");
        assert_eq!(*error.remedies, ["mimir start".to_owned()]);
    }
    {
        let events = bench.audit.events.lock();
        assert_eq!(events.len(), 2);
        for event in &*events {
            assert_eq!(event["stop"], "all-stopped");
            assert_eq!(
                event["detail"],
                "all calls were stopped by ada: an incident"
            );
        }
    }
    switch.start();
    assert!(bench.pipeline.call(call("sample", json!({}))).await.is_ok());
}

#[tokio::test]
async fn kill_switch_stops_running_calls() {
    let (hang, backend) = hanging("hang");
    let (bench, switch) = switched(vec![hang]);
    let running = start(&bench.pipeline, "hang", &backend).await;
    // A change that does not stop calls.
    switch.start();
    tokio::task::yield_now().await;
    assert!(!running.is_finished());
    switch.stop();
    let outcome = running.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("may have taken effect"), "{error}");
    assert_eq!(error.details.as_ref().unwrap()["mayHaveRun"], true);
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["code"], "UNAVAILABLE");
    assert_eq!(events[0]["stop"], "kill-switch");
}

#[tokio::test]
async fn kill_switch_stops_nested_calls() {
    let (hang, backend) = hanging("hang");
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("hang"),
            ..Fake::default()
        },
    );
    outer.trust = ToolTrust::Trusted;
    outer.granted.tools = vec!["hang".into()];
    let (bench, switch) = switched(vec![hang, outer]);
    let running = {
        let pipeline = bench.pipeline.clone();
        tokio::spawn(async move { pipeline.call(call("outer", json!({}))).await })
    };
    while backend.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    switch.stop();
    assert_eq!(
        code(&running.await.unwrap()),
        Some(ToolErrorCode::Unavailable)
    );
    // Both calls are on record once.
    let events = bench.audit.events.lock();
    let mut tools: Vec<_> = events.iter().map(|event| event["tool"].clone()).collect();
    tools.sort_by_key(ToString::to_string);
    assert_eq!(tools, ["hang", "outer"]);
}

#[tokio::test]
async fn kill_switch_stops_a_call_that_waits_for_a_person() {
    struct Never;
    impl crate::approval::Approver for Never {
        fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(std::future::pending())
        }
    }
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let base = bench(vec![asking], json!({}), ApprovalAnswer::No);
    let ports = PipelinePorts {
        approver: Arc::new(Never),
        ..base.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: base.pipeline.snapshot().registry.only(|_| true),
        policy: Policy::default(),
    };
    let pipeline = Pipeline::new(snapshot, ports);
    let switch = Arc::new(TestSwitch::default());
    pipeline.connect(PipelineConnections {
        switch: Arc::clone(&switch) as Arc<dyn CallSwitch>,
        state: None,
        remote: None,
    });
    let mut waiting = Box::pin(pipeline.call(call("asking", json!({}))));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    switch.stop();
    let outcome = waiting.await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.details.as_ref().unwrap().get("mayHaveRun").is_none());
}

/// A tool that never returns, with a grant for a model.
fn granted() -> (Tool, Arc<Fake>) {
    let (mut tool, backend) = hanging("granted");
    tool.trust = ToolTrust::Trusted;
    tool.definition.needs.model = true;
    tool.granted = tool.definition.needs.clone();
    (tool, backend)
}

/// Replaces the tool with a changed one, and returns the outcome of its running call, or `None` if it goes on.
async fn outcome_after(
    config: Value,
    change: impl FnOnce(&mut Vec<Tool>),
) -> Option<(Outcome, Vec<Value>)> {
    let (tool, backend) = granted();
    let (other, other_backend) = hanging("other");
    let mut tools = vec![tool, other];
    let bench = bench(tools.clone(), json!({}), ApprovalAnswer::No);
    let running = start(&bench.pipeline, "granted", &backend).await;
    let unaffected = start(&bench.pipeline, "other", &other_backend).await;
    change(&mut tools);
    let config: Config = serde_json::from_value(config).unwrap();
    bench.pipeline.replace(PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!unaffected.is_finished());
    if !running.is_finished() {
        return None;
    }
    let events = bench.audit.events.lock().clone();
    Some((running.await.unwrap(), events))
}

#[tokio::test]
async fn revoked_grant_stops_running_calls() {
    let revoked = outcome_after(json!({}), |tools| {
        tools[0].trust = ToolTrust::Untrusted;
        tools[0].granted = Needs::default();
    });
    let (outcome, events) = revoked.await.expect("the call is stopped");
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::PermissionDenied);
    assert!(error.message.contains("its grant was revoked"), "{error}");
    assert!(error.remedies[0].contains("mimir tools trust granted"));
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["code"], "PERMISSION_DENIED");
    assert_eq!(events[0]["stop"], "lost-rights");
}

#[tokio::test]
async fn smaller_grant_stops_running_calls() {
    let smaller = outcome_after(json!({}), |tools| tools[0].granted = Needs::default());
    let (outcome, _) = smaller.await.expect("the call is stopped");
    assert_eq!(code(&outcome), Some(ToolErrorCode::PermissionDenied));
}

#[tokio::test]
async fn removed_tool_stops_running_calls() {
    let removed = outcome_after(json!({}), |tools| drop(tools.remove(0)));
    let (outcome, _) = removed.await.expect("the call is stopped");
    assert_eq!(code(&outcome), Some(ToolErrorCode::PermissionDenied));
}

#[tokio::test]
async fn denied_tool_stops_running_calls() {
    let denied = outcome_after(json!({"policy": {"deny": ["granted"]}}), |_| ());
    let (outcome, _) = denied.await.expect("the call is stopped");
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
}

#[tokio::test]
async fn changes_without_a_revocation_stop_no_calls() {
    let changes: [fn(&mut Vec<Tool>); 3] = [
        |_| (),
        |tools| tools[0].flags = vec!["odd".into()],
        |tools| {
            let mut origin = (*tools[0].origin).clone();
            origin.digest = "another build".into();
            tools[0].origin = origin.into();
        },
    ];
    for change in changes {
        assert!(outcome_after(json!({}), change).await.is_none());
    }
}

#[tokio::test]
async fn role_that_was_removed_stops_running_calls() {
    let (hang, backend) = hanging("hang");
    let config = json!({"roles": {"reader": {"groups": ["all"], "tools": {"allow": ["hang"]}}}});
    let bench = bench(vec![hang], config, ApprovalAnswer::No);
    let view = bench.pipeline.restricted(|full| full.in_role("reader"));
    let running = start(&view, "hang", &backend).await;
    bench.pipeline.replace(PipelineSnapshot {
        registry: bench.pipeline.snapshot().registry.only(|_| true),
        policy: Policy::default(),
    });
    assert_eq!(
        code(&running.await.unwrap()),
        Some(ToolErrorCode::PermissionDenied)
    );
}

/// Answers a question after it has revoked the grant of the tool.
struct Revokes(Mutex<Option<Pipeline>>);

impl crate::approval::Approver for Revokes {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        if let Some(pipeline) = self.0.lock().take() {
            pipeline.replace(PipelineSnapshot::default());
        }
        Box::pin(std::future::ready(ApprovalAnswer::Once))
    }
}

#[tokio::test]
async fn tool_that_was_removed_during_the_question_does_not_run() {
    let backend = Arc::new(Fake::default());
    let mut asking = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool("asking")
    };
    asking.definition.approval = Decision::Ask;
    let base = bench(vec![asking], json!({}), ApprovalAnswer::No);
    let approver = Arc::new(Revokes(Mutex::default()));
    let ports = PipelinePorts {
        approver: Arc::clone(&approver) as Arc<dyn crate::approval::Approver>,
        ..base.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: base.pipeline.snapshot().registry.only(|_| true),
        policy: Policy::default(),
    };
    let pipeline = Pipeline::new(snapshot, ports);
    *approver.0.lock() = Some(pipeline.clone());
    let outcome = pipeline.call(call("asking", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PermissionDenied));
    assert!(!outcome.text().contains("may have taken effect"));
    assert_eq!(backend.calls.load(Ordering::SeqCst), 0);
}

/// Tries to use its model after the order to stop, which its call does not notice because it never waits.
struct StopsItself(Arc<TestSwitch>);

impl Backend for StopsItself {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            self.0.stop();
            let target = crate::network::RequestTarget::parse("https://api.example/").unwrap();
            let egress = OutgoingRequest {
                target: &target,
                method: "GET",
                headers: &[],
                body: false,
            };
            RawResult::from(
                call.effects()
                    .request(egress)
                    .await
                    .map(|_| ToolOutput::default()),
            )
        })
    }
}

#[tokio::test]
async fn kill_switch_refuses_effects_of_running_calls() {
    let switch = Arc::new(TestSwitch::default());
    let sender = Tool {
        backend: Arc::new(StopsItself(Arc::clone(&switch))),
        ..tool("sender")
    };
    let bench = bench(vec![sender], json!({}), ApprovalAnswer::No);
    bench.pipeline.connect(PipelineConnections {
        switch,
        state: None,
        remote: None,
    });
    let outcome = bench.pipeline.call(call("sender", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    let events = bench.audit.events.lock();
    assert_eq!(events[0]["event"], "effect");
    assert_eq!(events[0]["code"], "UNAVAILABLE");
}

#[tokio::test]
async fn stop_is_carried_out_without_a_call() {
    let (bench, switch) = switched(Vec::new());
    let check = bench.pipeline.stop_check();
    bench.pipeline.0.sessions.get("one");
    assert!(check());
    switch.stop();
    let given = switch.stopped().unwrap().at_ms;
    assert!(check());
    let again = bench.pipeline.0.sessions.begin_stop(given);
    assert!(again.is_empty(), "carried out already");
    switch.start();
    assert!(check());
    drop(bench);
    assert!(!check(), "the pipeline was dropped");
}

/// Approvals that tests revoke.
#[derive(Default)]
struct RevocableApprovals {
    stored: Mutex<Vec<StoredApproval>>,
    listed: Mutex<Vec<Fingerprint>>,
}

impl ApprovalStore for RevocableApprovals {
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError> {
        Ok(self.stored.lock().clone())
    }
    fn store(&self, approval: StoredApproval) -> Result<(), ApprovalStoreError> {
        self.stored.lock().push(approval);
        Ok(())
    }
    fn record_use(&self, _: &Fingerprint, _: jiff::Timestamp) {}
    fn list_for_session(&self, _: &str, one: &StoredApproval) -> Result<(), ApprovalStoreError> {
        self.listed.lock().push(one.id.clone());
        Ok(())
    }
    fn listed_in_session(&self, _: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError> {
        Ok(self.listed.lock().clone())
    }
    fn end_session(&self, _: &str) {
        self.listed.lock().clear();
    }
    fn grant(&self, _: &[Arc<Tool>], _: &[NeedKind]) -> Result<(), ApprovalStoreError> {
        Ok(())
    }
}

/// Returns a pipeline with a tool that asks and hangs, after a call of it has got this answer, and that call and another
/// one, which run.
async fn running_by_approval(
    answer: ApprovalAnswer,
) -> (
    Bench,
    Arc<RevocableApprovals>,
    Vec<tokio::task::JoinHandle<Outcome>>,
) {
    let (mut hang, backend) = hanging("hang");
    hang.definition.approval = Decision::Ask;
    let mut bench = bench(vec![hang], json!({}), answer);
    let store = Arc::new(RevocableApprovals::default());
    let ports = PipelinePorts {
        approval_store: Arc::clone(&store) as Arc<dyn ApprovalStore>,
        ..bench.pipeline.0.ports.clone()
    };
    let registry = bench.pipeline.snapshot().registry.only(|_| true);
    let policy = Policy::new(&Config::default(), "config.yml").unwrap();
    bench.pipeline = Pipeline::new(PipelineSnapshot { registry, policy }, ports);
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(start(&bench.pipeline, "hang", &backend).await);
    }
    (bench, store, running)
}

#[tokio::test]
async fn revoked_approval_stops_the_calls_that_run_by_it() {
    for (answer, answers) in [
        (ApprovalAnswer::Always, ["always", "lease"]),
        (ApprovalAnswer::Session, ["session", "session lease"]),
    ] {
        let (bench, store, running) = running_by_approval(answer).await;
        store.stored.lock().clear();
        store.listed.lock().clear();
        for call in running {
            let outcome = call.await.unwrap();
            let error = outcome.result().unwrap_err();
            assert_eq!(error.code, ToolErrorCode::PermissionDenied);
            let expected = "the approval by which it ran was revoked";
            assert!(error.message.contains(expected), "{error}");
            assert_eq!(error.details.as_ref().unwrap()["mayHaveRun"], true);
        }
        let events = bench.audit.events.lock();
        let calls = events.iter().filter(|event| event["event"] == "call");
        let mut seen: Vec<_> = calls
            .map(|event| {
                assert_eq!(event["stop"], "lost-rights");
                event["answer"].clone()
            })
            .collect();
        seen.sort_by_key(|answer| answers.iter().position(|known| answer == known));
        assert_eq!(seen, answers);
    }
}

#[tokio::test]
async fn approval_that_was_not_revoked_stops_no_call() {
    for answer in [
        ApprovalAnswer::Always,
        ApprovalAnswer::Session,
        ApprovalAnswer::Once,
    ] {
        let (bench, store, running) = running_by_approval(answer.clone()).await;
        match answer {
            // It expires.
            ApprovalAnswer::Always => {
                let mut stored = store.stored.lock();
                stored[0].expires_at = Some(stored[0].added_at);
            }
            // The session ends.
            ApprovalAnswer::Session => bench.pipeline.discard_session("session"),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(running.iter().all(|call| !call.is_finished()), "{answer:?}");
    }
}
