//! Tests of single sessions that a person stops: their calls end, new ones are refused, and other sessions go on.

use super::*;
use crate::call::{CallObserver, CallProgress, LogLine};
use crate::call_switch::{NoCallSwitch, StopNotice};
use crate::command::{CommandProgram, CommandRunner, ParsedProgram};
use crate::remote_pipeline::RemotePipeline;

fn in_session(session: &str, tool: &str) -> Call {
    let mut call = call(tool, json!({}));
    call.context.session_id = session.to_owned();
    call
}

fn notice(session: &str) -> StopNotice {
    let reason = Some("it deletes files".to_owned());
    StopNotice::new("ada".into(), SystemTime::now(), reason).for_session(session)
}

fn hanging() -> (Tool, Arc<Fake>) {
    let backend = Arc::new(Fake {
        hang: true,
        ..Fake::default()
    });
    let tool = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool("hang")
    };
    (tool, backend)
}

/// Starts a call, and waits until its tool runs.
async fn start(bench: &Bench, call: Call, backend: &Fake) -> tokio::task::JoinHandle<Outcome> {
    let before = backend.calls.load(Ordering::SeqCst);
    let pipeline = bench.pipeline.clone();
    let task = tokio::spawn(async move { pipeline.call(call).await });
    while backend.calls.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test]
async fn agent_stop_ends_and_refuses_the_calls_of_its_session_only() {
    let (hang, backend) = hanging();
    let bench = bench(vec![hang, tool("sample")], json!({}), ApprovalAnswer::No);
    let wild = start(&bench, in_session("wild", "hang"), &backend).await;
    let tame = start(&bench, in_session("tame", "hang"), &backend).await;
    let stops = bench.pipeline.running_calls();
    assert!(stops.stops().stop(notice("wild")));
    let outcome = wild.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(
        error.message,
        "the call was stopped by ada, and may have taken effect: it deletes files"
    );
    let refused = bench.pipeline.call(in_session("wild", "sample")).await;
    let error = refused.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert_eq!(
        error.message,
        "all calls of this agent are stopped by ada: it deletes files"
    );
    assert!(error.remedies[0].contains("work again"), "{error:?}");
    tokio::task::yield_now().await;
    assert!(!tame.is_finished());
    let other = bench.pipeline.call(in_session("tame", "sample")).await;
    assert!(other.is_ok());
    assert!(stops.stops().start("wild"));
    let again = bench.pipeline.call(in_session("wild", "sample")).await;
    assert!(again.is_ok());
    tame.abort();
}

#[tokio::test]
async fn agent_stop_ends_nested_calls_and_open_questions() {
    let (hang, backend) = hanging();
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("hang"),
            ..Fake::default()
        },
    );
    outer.trust = ToolTrust::Trusted;
    outer.granted.tools = vec!["hang".into()];
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let bench = bench(vec![hang, outer, asking], json!({}), ApprovalAnswer::No);
    let silent = with_ports(bench, |ports| ports.approver = Arc::new(Silent));
    let nested = start(&silent, in_session("wild", "outer"), &backend).await;
    let observed = Arc::new(WaitCounter::default());
    let asked = {
        let mut call = in_session("wild", "asking");
        call.observer = observed.clone();
        let pipeline = silent.pipeline.clone();
        tokio::spawn(async move { pipeline.call(call).await })
    };
    let running = silent.pipeline.running_calls();
    while running.reports().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(running.stops().stop(notice("wild")));
    for call in [nested, asked] {
        assert_eq!(code(&call.await.unwrap()), Some(ToolErrorCode::Unavailable));
    }
}

#[tokio::test]
async fn agent_stop_ends_with_its_session() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    let running = bench.pipeline.running_calls();
    running.stops().stop(notice("wild"));
    let check = bench.pipeline.stop_check();
    bench.pipeline.0.sessions.get("wild");
    assert!(check());
    assert!(running.stops().take_unenforced().is_empty(), "carried out");
    bench.pipeline.end_session("wild");
    assert!(running.stops().notices().is_empty());
}

/// Records the sessions whose commands were killed.
#[derive(Default)]
struct KilledSessions(Mutex<Vec<String>>);

impl CommandRunner for KilledSessions {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        NoCommandRunner.parse_program(program)
    }

    fn root(&self) -> Option<&str> {
        None
    }

    fn end_session(&self, session: &str) {
        self.0.lock().push(session.to_owned());
    }
}

#[tokio::test]
async fn agent_stop_kills_commands_that_a_call_began_after_the_order_was_carried_out() {
    let (hang, backend) = hanging();
    let killed = Arc::new(KilledSessions::default());
    let bench = bench(vec![hang], json!({}), ApprovalAnswer::No);
    let bench = with_ports(bench, |ports| ports.runner = killed.clone());
    let running = start(&bench, in_session("wild", "hang"), &backend).await;
    let stops = bench.pipeline.running_calls();
    stops.stops().stop(notice("wild"));
    // The test has one thread, so that the check is first.
    assert!(bench.pipeline.stop_check()());
    assert_eq!(*killed.0.lock(), ["wild"]);
    assert!(running.await.unwrap().result().is_err());
    assert_eq!(*killed.0.lock(), ["wild", "wild"]);
}

/// A pipeline whose calls run in another process and never end.
struct Elsewhere;

impl RemotePipeline for Elsewhere {
    fn call<'a>(
        &'a self,
        _: Call,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Outcome, ToolError>> {
        Box::pin(std::future::pending())
    }

    fn end_session(&self, _: &str) {}
}

#[tokio::test]
async fn agent_stop_ends_calls_that_other_processes_run() {
    let bench = bench(vec![tool("sample")], json!({}), ApprovalAnswer::No);
    bench.pipeline.connect(PipelineConnections {
        switch: Arc::new(NoCallSwitch),
        state: None,
        remote: Some(Arc::new(Elsewhere)),
    });
    let pipeline = bench.pipeline.clone();
    let running = tokio::spawn(async move { pipeline.call(in_session("wild", "sample")).await });
    while bench.pipeline.running_calls().reports().is_empty() {
        tokio::task::yield_now().await;
    }
    bench.pipeline.running_calls().stops().stop(notice("wild"));
    let outcome = running.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert!(error.message.contains("may have taken effect"), "{error}");
    let refused = bench.pipeline.call(in_session("wild", "sample")).await;
    assert_eq!(code(&refused), Some(ToolErrorCode::Unavailable));
    let events = bench.audit.events.lock();
    assert_eq!(events.len(), 1, "the refused one");
    assert_eq!(events[0]["stop"], "all-stopped");
}

/// An approver who never answers.
struct Silent;

impl crate::approval::Approver for Silent {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::pending())
    }
}

/// An approver who answers after some reports about waiting.
struct Patient(Arc<WaitCounter>);

impl crate::approval::Approver for Patient {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            while self.0.0.lock().len() < REPORTS {
                tokio::task::yield_now().await;
            }
            ApprovalAnswer::Once
        })
    }
}

const REPORTS: usize = 3;

/// A clock of which some intervals pass at once, and no further ones.
#[derive(Default)]
struct FastClock(AtomicUsize);

impl Clock for FastClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        if self.0.fetch_add(1, Ordering::SeqCst) < REPORTS {
            Box::pin(std::future::ready(()))
        } else {
            Box::pin(std::future::pending())
        }
    }
}

fn with_ports(bench: Bench, change: impl FnOnce(&mut PipelinePorts)) -> Bench {
    let mut ports = bench.pipeline.0.ports.clone();
    change(&mut ports);
    let snapshot = bench.pipeline.snapshot();
    let snapshot = PipelineSnapshot {
        registry: snapshot.registry.map_tools(|tool| Some(Arc::clone(tool))),
        policy: snapshot.policy.clone(),
    };
    Bench {
        pipeline: Pipeline::new(snapshot, ports),
        ..bench
    }
}

/// Counts the reports about waiting.
#[derive(Default)]
struct WaitCounter(Mutex<Vec<String>>);

impl CallObserver for WaitCounter {
    fn progress(&self, _: CallProgress) {}

    fn log(&self, _: LogLine) {}

    fn waiting(&self, tool: &str) {
        self.0.lock().push(tool.to_owned());
    }
}

#[tokio::test]
async fn call_reports_at_intervals_that_it_waits_for_an_answer() {
    let mut asking = tool("asking");
    asking.definition.approval = Decision::Ask;
    let bench = bench(vec![asking], json!({}), ApprovalAnswer::No);
    let observed = Arc::new(WaitCounter::default());
    let bench = with_ports(bench, |ports| {
        ports.approver = Arc::new(Patient(observed.clone()));
        ports.clock = Arc::new(FastClock::default());
    });
    let mut call = call("asking", json!({}));
    call.observer = observed.clone();
    assert!(bench.pipeline.call(call).await.is_ok());
    assert_eq!(*observed.0.lock(), ["asking"; REPORTS]);
}
