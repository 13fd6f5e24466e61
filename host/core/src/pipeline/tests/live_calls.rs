//! Tests of the reports about running calls, and of calls that a person cancels.

use super::*;
use crate::audit::OutcomeKind;
use crate::call::{CallObserver, CallProgress, LogLevel, LogLine};
use crate::call_monitor::{
    CallMonitor, CallReport, LiveCallEvent, LiveCallState, LiveEffect, LiveProcess,
};
use crate::call_switch::{NoCallSwitch, StopNotice};
use crate::client_name::ClientName;
use crate::command::CommandStream;
use crate::remote_pipeline::RemotePipeline;

/// A monitor that keeps the events.
#[derive(Default)]
struct Recorder {
    is_watched: std::sync::atomic::AtomicBool,
    is_crowded: std::sync::atomic::AtomicBool,
    events: Mutex<Vec<LiveCallEvent>>,
}

impl CallMonitor for Recorder {
    fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::SeqCst)
    }

    fn takes_call(&self) -> bool {
        !self.is_crowded.load(Ordering::SeqCst)
    }

    fn report(&self, report: CallReport) {
        self.events.lock().push(report.into_event(&process()));
    }
}

impl Recorder {
    fn take(&self) -> Vec<LiveCallEvent> {
        std::mem::take(&mut *self.events.lock())
    }

    fn kinds(&self) -> Vec<String> {
        let kind = |event: &LiveCallEvent| {
            let json = serde_json::to_value(event).unwrap();
            json["kind"].as_str().unwrap().to_owned()
        };
        self.events.lock().iter().map(kind).collect()
    }
}

fn process() -> LiveProcess {
    LiveProcess {
        name: "serve".into(),
        pid: 7,
    }
}

fn watch(bench: &Bench) -> Arc<Recorder> {
    let monitor = Arc::new(Recorder::default());
    monitor.is_watched.store(true, Ordering::SeqCst);
    bench.pipeline.set_monitor(monitor.clone());
    monitor
}

/// A backend that writes output, and then waits unless `n` is 0.
struct Talker;

impl Backend for Talker {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let observer = call.observer();
            observer.log(LogLine {
                level: LogLevel::Info,
                text: "key my-own-hoard-of-gold \u{202e}x".into(),
            });
            let progress = |message: &str| CallProgress {
                done: 1,
                total: Some(2),
                message: Some(message.into()),
            };
            observer.progress(progress("half"));
            observer.output(CommandStream::Stderr, progress("line"));
            if call.arguments()["n"] == 0 {
                return RawResult::from(Ok(ToolOutput::default()));
            }
            std::future::pending().await
        })
    }
}

fn talker() -> Tool {
    Tool {
        backend: Arc::new(Talker),
        ..tool("talker")
    }
}

fn hanging() -> Tool {
    let backend = Fake {
        hang: true,
        ..Fake::default()
    };
    with("hang", backend)
}

/// Starts a call, and waits until it runs.
async fn start(pipeline: &Pipeline, call: Call) -> tokio::task::JoinHandle<Outcome> {
    let task = tokio::spawn({
        let pipeline = pipeline.clone();
        async move { pipeline.call(call).await }
    });
    while pipeline.running_calls().reports().is_empty() {
        tokio::task::yield_now().await;
    }
    task
}

fn bench_with_secret(tools: Vec<Tool>) -> Bench {
    let bench = bench(tools, json!({}), ApprovalAnswer::No);
    let mut ports = bench.pipeline.0.ports.clone();
    ports.vault = Arc::new(Redactor::new().with_values([("HOARD", "my-own-hoard-of-gold")]));
    let snapshot = PipelineSnapshot {
        registry: bench
            .pipeline
            .snapshot()
            .registry
            .map_tools(|tool| Some(Arc::clone(tool))),
        policy: bench.pipeline.snapshot().policy.clone(),
    };
    Bench {
        pipeline: Pipeline::new(snapshot, ports),
        ..bench
    }
}

#[tokio::test]
async fn live_call_reports_start_decision_and_end() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let monitor = watch(&bench);
    let call = call("sample", json!({"n": 1}));
    let id = call.context.request_id.clone();
    assert!(bench.pipeline.call(call).await.is_ok());
    let events = monitor.take();
    assert!(events.iter().all(|event| *event.id() == id));
    let [
        LiveCallEvent::Started(started),
        LiveCallEvent::Decided {
            decision,
            reasons,
            state,
            ..
        },
        LiveCallEvent::Finished(finished),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!(started.tool, "sample");
    assert_eq!(started.session, "session");
    assert_eq!(started.arguments, "{\n  \"n\": 1\n}");
    assert_eq!(started.source, Some(ToolSource::Custom));
    assert_eq!(started.process, process());
    assert_eq!(
        (*decision, *state),
        (Decision::Allow, LiveCallState::Running)
    );
    assert!(!reasons.is_empty());
    assert!(finished.ok);
    assert_eq!(finished.receipt.bytes_in, 7);
    assert!(bench.pipeline.running_calls().reports().is_empty());
}

/// The observer of a client with a name, whose person says yes to each card and records the name on it.
struct NamedClient(ClientName, Mutex<Vec<Option<String>>>);

impl crate::approval::Approver for NamedClient {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        self.1.lock().push(card.facts.client.clone());
        Box::pin(std::future::ready(ApprovalAnswer::Once))
    }
}

impl CallObserver for NamedClient {
    fn progress(&self, _: CallProgress) {}
    fn log(&self, _: LogLine) {}
    fn approver(&self) -> Option<&dyn crate::approval::Approver> {
        Some(self)
    }
    fn client_name(&self) -> Option<&ClientName> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn live_calls_and_cards_name_the_client() {
    let settings = json!({"tools": {"sample": {"approval": "ask"}}});
    let bench = bench(vec![tool("sample")], settings, ApprovalAnswer::No);
    let monitor = watch(&bench);
    let mut call = call("sample", json!({"n": 1}));
    let name = ClientName::new("story-agent\u{1b}\n1.0").unwrap();
    let client = Arc::new(NamedClient(name, Mutex::default()));
    call.observer = client.clone();
    assert!(bench.pipeline.call(call).await.is_ok());
    let events = monitor.take();
    let Some(LiveCallEvent::Started(started)) = events.first() else {
        panic!("{events:?}")
    };
    let shown = started.client.as_deref().unwrap();
    assert!(shown.starts_with("story-agent"), "{shown}");
    assert!(!shown.contains(char::is_control), "{shown:?}");
    assert_eq!(*client.1.lock(), [Some(shown.to_owned())]);
    let recorded = bench.audit.events.lock();
    let recorded = recorded.iter().find(|event| event["event"] == "call");
    assert_eq!(recorded.unwrap()["client"], shown);
}

#[tokio::test]
async fn live_call_events_keep_their_form_as_json() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let monitor = watch(&bench);
    bench.pipeline.call(call("sample", json!({"n": "x"}))).await;
    bench.pipeline.call(call("missing", json!({}))).await;
    for event in monitor.take() {
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<LiveCallEvent>(&json).unwrap(), event);
    }
}

#[tokio::test]
async fn live_call_of_an_unwatched_pipeline_is_not_reported() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let monitor = watch(&bench);
    monitor.is_watched.store(false, Ordering::SeqCst);
    assert!(bench.pipeline.call(call("sample", json!({}))).await.is_ok());
    assert!(monitor.take().is_empty());
}

#[tokio::test]
async fn live_call_that_a_crowded_monitor_does_not_take_is_only_reported_if_it_waits() {
    let bench = bench_with_secret(vec![talker(), tool("sample")]);
    let monitor = watch(&bench);
    monitor.is_crowded.store(true, Ordering::SeqCst);
    assert!(bench.pipeline.call(call("sample", json!({}))).await.is_ok());
    assert!(monitor.take().is_empty());
    // A person may want to cancel one that takes long.
    let running = start(&bench.pipeline, call("talker", json!({"n": 1}))).await;
    let kinds = monitor.kinds();
    assert!(kinds.contains(&"started".to_owned()), "{kinds:?}");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn live_call_masks_arguments_and_output() {
    let bench = bench_with_secret(vec![talker(), tool("sample")]);
    let monitor = watch(&bench);
    let long = "x".repeat(100_000);
    let secret = json!({"a": "my-own-hoard-of-gold", "b\u{200b}": "\u{1b}[31m", "c": long});
    let running = start(&bench.pipeline, call("talker", json!({"n": 1}))).await;
    bench.pipeline.call(call("talker", json!({"n": 0}))).await;
    bench.pipeline.call(call("sample", secret)).await;
    bench
        .pipeline
        .call(call("my-own-hoard-of-gold\u{202e}", json!({})))
        .await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let events = monitor.take();
    let json = serde_json::to_string(&events).unwrap();
    assert!(!json.contains("my-own-hoard"), "{json}");
    assert!(!json.contains(['\u{202e}', '\u{200b}', '\u{1b}']), "{json}");
    let is_cut = |event: &LiveCallEvent| {
        matches!(event, LiveCallEvent::Started(call)
            if call.arguments_truncated && call.arguments.len() <= LiveCallEvent::MAX_ARGUMENTS)
    };
    assert!(events.iter().any(is_cut), "{events:?}");
    let output = |event: &LiveCallEvent| matches!(event, LiveCallEvent::Output { .. });
    assert!(events.iter().filter(|event| output(event)).count() >= 2);
    let progress = |event: &LiveCallEvent| matches!(event, LiveCallEvent::Progress { .. });
    assert!(events.iter().any(progress));
    // The call whose future was dropped has an end, too.
    assert!(events.iter().any(|event| matches!(event,
        LiveCallEvent::Finished(call) if call.code == Some(ToolErrorCode::Cancelled))));
}

#[tokio::test]
async fn live_call_withholds_arguments_that_are_not_logged() {
    let config = json!({"tools": {"sample": {"audit": {"logArgs": false}}}});
    let bench = bench(vec![tool("sample")], config, ApprovalAnswer::No);
    let monitor = watch(&bench);
    bench.pipeline.call(call("sample", json!({"n": 77}))).await;
    let events = monitor.take();
    let LiveCallEvent::Started(started) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(
        started.arguments,
        "(not shown, because `audit.logArgs` is off for this tool)"
    );
    let json = serde_json::to_string(&events).unwrap();
    // As they are, and in a string.
    for key in ["\"n\"", "\\\"n\\\""] {
        assert!(!json.contains(key), "{json}");
    }
}

#[tokio::test]
async fn cancelled_call_names_the_person_and_is_recorded() {
    let bench = bench(vec![hanging()], json!({}), ApprovalAnswer::No);
    // Not watched: calls that wait can be cancelled all the same.
    let call = call("hang", json!({"n": 3}));
    let id = call.context.request_id.clone();
    let running = start(&bench.pipeline, call).await;
    assert!(
        !bench
            .pipeline
            .cancel(&RequestId::new(SystemTime::now()), "ada")
    );
    assert!(bench.pipeline.cancel(&id, "ada\u{1b}[31m"));
    assert!(
        !bench.pipeline.cancel(&id, "eve"),
        "it was cancelled already"
    );
    let outcome = running.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Cancelled);
    assert_eq!(
        error.message,
        "the call was cancelled by ada, and may have taken effect"
    );
    assert_eq!(error.details.as_ref().unwrap()["mayHaveRun"], true);
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 1, "exactly one outcome is on record");
    assert_eq!(events[0]["code"], "CANCELLED");
    assert_eq!(events[0]["detail"], "cancelled by ada");
    assert!(!bench.pipeline.cancel(&id, "ada"), "the call is over");
}

#[tokio::test]
async fn cancelled_call_ends_its_nested_calls() {
    let backend = Fake {
        nested: Some("hang"),
        ..Fake::default()
    };
    let mut outer = with("outer", backend);
    outer.trust = ToolTrust::Trusted;
    outer.granted.tools = vec!["hang".into()];
    let bench = bench(vec![outer, hanging()], json!({}), ApprovalAnswer::No);
    let monitor = watch(&bench);
    let call = call("outer", json!({}));
    let id = call.context.request_id.clone();
    let running = start(&bench.pipeline, call).await;
    while bench.pipeline.running_calls().reports().len() < 4 {
        tokio::task::yield_now().await;
    }
    assert!(bench.pipeline.cancel(&id, "ada"));
    assert_eq!(
        code(&running.await.unwrap()),
        Some(ToolErrorCode::Cancelled)
    );
    assert_eq!(bench.audit.events.lock().len(), 2);
    let events = monitor.take();
    let nested = events.iter().find_map(|event| match event {
        LiveCallEvent::Started(call) if call.tool == "hang" => Some(call),
        _ => None,
    });
    assert_eq!(nested.unwrap().parent, Some(id));
    let ends = |event: &&LiveCallEvent| matches!(event, LiveCallEvent::Finished(_));
    assert_eq!(events.iter().filter(ends).count(), 2);
}

/// An approver who never answers.
struct Silent;

impl crate::approval::Approver for Silent {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cancelled_question_ends_and_the_tool_does_not_run() {
    let backend = Arc::new(Fake::default());
    let mut asking = Tool {
        backend: backend.clone(),
        ..tool("asking")
    };
    asking.definition.approval = Decision::Ask;
    let asked = bench(vec![asking], json!({}), ApprovalAnswer::No);
    let mut ports = asked.pipeline.0.ports.clone();
    ports.approver = Arc::new(Silent);
    let snapshot = PipelineSnapshot {
        registry: asked
            .pipeline
            .snapshot()
            .registry
            .map_tools(|tool| Some(Arc::clone(tool))),
        policy: asked.pipeline.snapshot().policy.clone(),
    };
    let asked = Bench {
        pipeline: Pipeline::new(snapshot, ports),
        ..asked
    };
    let monitor = watch(&asked);
    let call = call("asking", json!({}));
    let id = call.context.request_id.clone();
    let running = start(&asked.pipeline, call).await;
    let is_waiting = |event: &LiveCallEvent| {
        matches!(
            event,
            LiveCallEvent::Decided {
                state: LiveCallState::Waiting,
                ..
            }
        )
    };
    while !monitor.events.lock().iter().any(is_waiting) {
        tokio::task::yield_now().await;
    }
    assert!(asked.pipeline.cancel(&id, "ada"));
    let outcome = running.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.message, "the call was cancelled by ada");
    assert!(error.details.as_ref().unwrap().get("mayHaveRun").is_none());
    assert_eq!(backend.calls.load(Ordering::SeqCst), 0);
    assert_eq!(
        monitor.kinds(),
        ["started", "decided", "decided", "decided", "finished"]
    );
}

#[tokio::test]
async fn live_call_that_began_before_the_console_is_listed() {
    let bench = bench(vec![talker()], json!({}), ApprovalAnswer::No);
    let monitor = watch(&bench);
    monitor.is_watched.store(false, Ordering::SeqCst);
    let running = start(&bench.pipeline, call("talker", json!({"n": 5}))).await;
    assert!(monitor.take().is_empty());
    monitor.is_watched.store(true, Ordering::SeqCst);
    let reports = bench.pipeline.running_calls().reports();
    let events: Vec<_> = reports
        .into_iter()
        .map(|report| report.into_event(&process()))
        .collect();
    let [
        LiveCallEvent::Started(started),
        LiveCallEvent::Decided { .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert!(started.arguments.contains('5'));
    assert!(bench.pipeline.cancel(&started.id, "ada"));
    running.await.unwrap();
    assert_eq!(monitor.kinds().pop().as_deref(), Some("finished"));
}

/// Never answers.
struct Nowhere;

impl RemotePipeline for Nowhere {
    fn call<'a>(
        &'a self,
        call: Call,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Outcome, ToolError>> {
        Box::pin(async move {
            call.observer.log(LogLine {
                level: LogLevel::Info,
                text: "from the worker".into(),
            });
            std::future::pending().await
        })
    }

    fn end_session(&self, _: &str) {}
}

#[tokio::test]
async fn cancelled_remote_call_is_recorded_by_the_process_that_runs_it() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    bench.pipeline.connect(PipelineConnections {
        switch: Arc::new(NoCallSwitch),
        state: None,
        remote: Some(Arc::new(Nowhere)),
    });
    let monitor = watch(&bench);
    let call = call("sample", json!({}));
    let id = call.context.request_id.clone();
    let running = start(&bench.pipeline, call).await;
    while monitor.kinds().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(bench.pipeline.cancel(&id, "ada"));
    let outcome = running.await.unwrap();
    assert_eq!(code(&outcome), Some(ToolErrorCode::Cancelled));
    assert!(outcome.text().contains("may have taken effect"));
    assert!(bench.audit.events.lock().is_empty());
    assert_eq!(monitor.kinds(), ["started", "output", "finished"]);
}

/// A backend that uses its storage.
struct Collector(tempfile::TempDir);

impl Backend for Collector {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let storage = call.storage(self.0.path());
            let key = || "my-own-hoard-of-gold".to_owned();
            let done = async {
                storage.set(key(), b"value".to_vec()).await?;
                storage.delete(key()).await?;
                for _ in 0..call.arguments()["n"].as_u64().unwrap_or_default() {
                    storage.get("key".to_owned()).await?;
                }
                Ok(())
            };
            RawResult::from(done.await.map(|()| ToolOutput::default()))
        })
    }
}

#[tokio::test]
async fn live_call_reports_accesses_to_storage_masked_and_bounded() {
    let collector = Tool {
        backend: Arc::new(Collector(tempfile::tempdir().unwrap())),
        ..tool("collector")
    };
    let bench = bench_with_secret(vec![collector]);
    let monitor = watch(&bench);
    let call = call("collector", json!({"n": 300}));
    assert!(bench.pipeline.call(call).await.is_ok());
    let events = monitor.take();
    let effects: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            LiveCallEvent::Effect {
                effect: LiveEffect::Storage,
                subject,
                ..
            } => Some(subject.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(effects.len(), 201);
    assert!(effects[0].starts_with("set [REDACTED"), "{}", effects[0]);
    assert!(effects[1].starts_with("delete [REDACTED"), "{}", effects[1]);
    assert_eq!(effects[2], "get key");
    assert_eq!(effects[200], "more values of its storage");
}

/// An approver who edits the arguments of the first question, and approves the second one.
#[derive(Default)]
struct Editor(AtomicUsize);

impl crate::approval::Approver for Editor {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(std::future::ready(if is_first {
            ApprovalAnswer::Edit(json!({"n": 7, "text": "my-own-hoard-of-gold"}))
        } else {
            ApprovalAnswer::Once
        }))
    }
}

#[tokio::test]
async fn live_call_reports_edited_arguments_masked() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let bench = bench_with_secret(vec![asking]);
    let mut ports = bench.pipeline.0.ports.clone();
    ports.approver = Arc::new(Editor::default());
    let snapshot = bench.pipeline.snapshot();
    let snapshot = PipelineSnapshot {
        registry: snapshot.registry.map_tools(|tool| Some(Arc::clone(tool))),
        policy: snapshot.policy.clone(),
    };
    let bench = Bench {
        pipeline: Pipeline::new(snapshot, ports),
        ..bench
    };
    let monitor = watch(&bench);
    let outcome = bench.pipeline.call(call("asking", json!({"n": 1}))).await;
    let events = monitor.take();
    let edited = events.iter().find_map(|event| match event {
        LiveCallEvent::Edited { arguments, .. } => Some(arguments),
        _ => None,
    });
    let edited = edited.unwrap_or_else(|| panic!("{events:?} {outcome:?}"));
    assert!(edited.contains("\"n\": 7"), "{edited}");
    assert!(!edited.contains("hoard-of-gold"), "{edited}");
}

#[tokio::test]
async fn stopped_remote_call_is_shown_as_stopped() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    bench.pipeline.connect(PipelineConnections {
        switch: Arc::new(NoCallSwitch),
        state: None,
        remote: Some(Arc::new(Nowhere)),
    });
    let monitor = watch(&bench);
    let call = call("sample", json!({}));
    let notice = StopNotice::new("ada".into(), SystemTime::now(), None);
    let notice = notice.for_session(&call.context.session_id);
    let running = start(&bench.pipeline, call).await;
    while monitor.kinds().len() < 2 {
        tokio::task::yield_now().await;
    }
    bench.pipeline.running_calls().stops().stop(notice);
    assert!(running.await.unwrap().text().contains("stopped by ada"));
    // The worker records it.
    assert!(bench.audit.events.lock().is_empty());
    let events = monitor.take();
    let Some(LiveCallEvent::Finished(end)) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(end.outcome, Some(OutcomeKind::Stopped));
}
