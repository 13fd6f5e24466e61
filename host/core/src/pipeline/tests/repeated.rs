//! Retries of failed calls, and reuse of results.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::*;
use crate::needs::{DirectoryAccess, FileNeed};

/// A clock that stands still until every task waits, and then goes on to the next time that one waits for.
#[derive(Clone)]
pub(super) struct PausedClock(Arc<Mutex<PausedTime>>);

struct PausedTime {
    now: Instant,
    waiting: Vec<Instant>,
}

impl PausedClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(PausedTime {
            now: Instant::now(),
            waiting: Vec::new(),
        })))
    }

    pub(super) fn advance(&self, by: Duration) {
        self.0.lock().now += by;
    }
}

impl Clock for PausedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn instant(&self) -> Instant {
        self.0.lock().now
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(PausedSleep {
            clock: self.clone(),
            at,
            polled_at: None,
        })
    }
}

struct PausedSleep {
    clock: PausedClock,
    at: Instant,
    /// The time at the last poll.
    polled_at: Option<Instant>,
}

impl Future for PausedSleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut time = clock.0.lock();
        // Time goes on only if nothing has happened since the last poll.
        if self.polled_at == Some(time.now) && time.waiting.iter().min() == Some(&self.at) {
            time.now = time.now.max(self.at);
        }
        if time.now >= self.at {
            return Poll::Ready(());
        }
        if self.polled_at.is_none() {
            time.waiting.push(self.at);
        }
        self.polled_at = Some(time.now);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for PausedSleep {
    fn drop(&mut self) {
        let mut time = self.clock.0.lock();
        if self.polled_at.is_none() {
            return;
        }
        if let Some(at) = time.waiting.iter().position(|at| *at == self.at) {
            time.waiting.swap_remove(at);
        }
    }
}

/// A backend that fails with these errors, one per call, and then succeeds. The state of its files is `files`.
#[derive(Default)]
struct Flaky {
    failures: Mutex<VecDeque<ToolErrorCode>>,
    nested: Option<&'static str>,
    files: Mutex<Option<String>>,
    text: Mutex<String>,
    calls: AtomicUsize,
}

impl Backend for Flaky {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            if let Some(tool) = self.nested {
                call.nested().call(tool, json!({})).await.unwrap();
            }
            let failure = self.failures.lock().pop_front();
            match failure {
                Some(code) => RawResult::failed(ToolError::new(code, "it failed")),
                None => RawResult::from(Ok(ToolOutput {
                    content: vec![Content::text(self.text.lock().clone())],
                    ..ToolOutput::default()
                })),
            }
        })
    }

    fn files_state(&self, folders: Vec<String>) -> BoxFuture<'_, Option<String>> {
        assert_eq!(folders, ["data"]);
        Box::pin(std::future::ready(self.files.lock().clone()))
    }
}

impl Flaky {
    fn failing(failures: impl IntoIterator<Item = ToolErrorCode>) -> Arc<Self> {
        Arc::new(Self {
            failures: Mutex::new(failures.into_iter().collect()),
            ..Self::default()
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A read-only tool with this backend.
fn reader(backend: &Arc<Flaky>) -> Tool {
    let mut reader = tool("sample");
    reader.definition.hints.read_only = true;
    reader.backend = Arc::clone(backend) as Arc<dyn Backend>;
    reader
}

pub(super) fn paused_bench(
    tools: Vec<Tool>,
    config: Value,
    answer: ApprovalAnswer,
) -> (Bench, PausedClock) {
    let clock = PausedClock::new();
    let mut bench = bench(tools, config.clone(), answer);
    let ports = PipelinePorts {
        clock: Arc::new(clock.clone()),
        ..bench.pipeline.0.ports.clone()
    };
    bench.pipeline = Pipeline::new(snapshot_of(&bench, &config), ports);
    (bench, clock)
}

fn snapshot_of(bench: &Bench, config: &Value) -> PipelineSnapshot {
    let config: Config = serde_json::from_value(config.clone()).unwrap();
    PipelineSnapshot {
        registry: bench.pipeline.snapshot().registry.only(|_| true),
        policy: Policy::new(&config, "config.yml").unwrap(),
    }
}

fn retries(settings: Value) -> Value {
    json!({"tools": {"sample": {"retries": settings}}})
}

use ToolErrorCode::{ExecutionError, Network, Timeout, Unavailable};

#[tokio::test]
async fn retry_succeeds_after_delays_and_is_on_record() {
    let backend = Flaky::failing([Network, Unavailable]);
    let (bench, clock) = paused_bench(
        vec![reader(&backend)],
        retries(json!(3)),
        ApprovalAnswer::No,
    );
    let start = clock.instant();
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert!(outcome.is_ok(), "{}", outcome.text());
    assert_eq!(clock.instant() - start, Duration::from_millis(500 + 1_000));
    assert_eq!((outcome.receipt().attempts, backend.calls()), (Some(3), 3));
    let events = bench.audit.events.lock();
    let shown: Vec<_> = events
        .iter()
        .map(|event| (&event["event"], &event["code"], &event["detail"]))
        .collect();
    let id = &events[2]["id"];
    assert!(
        events
            .iter()
            .all(|event| event["id"] == *id && event["tool"] == "sample")
    );
    assert_eq!(
        shown[..2],
        [
            (
                &json!("attempt"),
                &json!("NETWORK"),
                &json!("attempt 1 of 4")
            ),
            (
                &json!("attempt"),
                &json!("UNAVAILABLE"),
                &json!("attempt 2 of 4")
            ),
        ]
    );
    assert_eq!(
        (&events[2]["ok"], &events[2]["attempts"]),
        (&json!(true), &json!(3))
    );
}

#[tokio::test]
async fn retry_is_only_for_passing_errors_of_repeatable_tools() {
    let tries = async |code, settings: Value, change: fn(&mut Tool)| {
        let backend = Flaky::failing([code; 20]);
        let mut tool = reader(&backend);
        change(&mut tool);
        let (bench, _) = paused_bench(vec![tool], settings, ApprovalAnswer::No);
        let outcome = bench.pipeline.call(call("sample", json!({}))).await;
        let count = backend.calls();
        let attempts = outcome.receipt().attempts;
        assert_eq!(attempts, (count > 1).then_some(count as u32));
        assert_eq!(super::code(&outcome), Some(code));
        count
    };
    let on_timeout = retries(json!({"max": 2, "on": ["TIMEOUT"]}));
    assert_eq!(tries(Network, retries(json!(2)), |_| ()).await, 3);
    assert_eq!(tries(Network, json!({}), |_| ()).await, 1);
    assert_eq!(tries(ExecutionError, retries(json!(2)), |_| ()).await, 1);
    assert_eq!(tries(Timeout, retries(json!(2)), |_| ()).await, 1);
    assert_eq!(tries(Timeout, on_timeout.clone(), |_| ()).await, 3);
    assert_eq!(tries(Network, on_timeout, |_| ()).await, 1);
    let changes_state = |tool: &mut Tool| tool.definition.hints = ToolHints::default();
    assert_eq!(tries(Network, retries(json!(2)), changes_state).await, 1);
    let idempotent = |tool: &mut Tool| {
        tool.definition.hints = ToolHints {
            idempotent: true,
            ..ToolHints::default()
        };
    };
    assert_eq!(tries(Network, retries(json!(2)), idempotent).await, 3);
    let per_minute = json!({"tools": {"sample": {"retries": 5, "limits": {"callsPerMinute": 2}}}});
    assert_eq!(tries(Network, per_minute, |_| ()).await, 2);
}

#[tokio::test]
async fn repeated_calls_of_the_document_reader_obey_the_settings_of_read_file() {
    let backend = Flaky::failing([Network]);
    let built_in = |name: &str| {
        let mut tool = tool(name);
        tool.definition.input_schema = Schema::parse(r#"{"type":"object"}"#).unwrap();
        tool.definition.hints.read_only = true;
        tool.backend = Arc::clone(&backend) as Arc<dyn Backend>;
        tool.source = ToolSource::BuiltIn;
        tool.trust = ToolTrust::Trusted;
        tool
    };
    let settings = json!({"tools": {"read_file": {"retries": 2, "cache": {"ttlMs": 60_000}}}});
    let tools = vec![built_in("read_file"), built_in("read_document")];
    let (bench, _) = paused_bench(tools, settings, ApprovalAnswer::No);
    for cached in [false, true] {
        let document = call("read_file", json!({"path": "report.pdf"}));
        let outcome = bench.pipeline.call(document).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(outcome.receipt().cached, cached);
    }
    assert_eq!(backend.calls(), 2);
}

#[tokio::test]
async fn retry_ends_with_the_time_limit_of_the_call() {
    let backend = Flaky::failing([Network; 20]);
    let settings = json!({"tools": {"sample": {
        "limits": {"timeMs": 1_000},
        "retries": {"max": 9, "delayMs": 600},
    }}});
    let (bench, clock) = paused_bench(vec![reader(&backend)], settings, ApprovalAnswer::No);
    let start = clock.instant();
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    // The second delay, of 1,200 ms, would end after the deadline.
    assert_eq!(code(&outcome), Some(Network));
    assert_eq!(clock.instant() - start, Duration::from_millis(600));
    assert_eq!((outcome.receipt().attempts, backend.calls()), (Some(2), 2));
    let events = bench.audit.events.lock();
    let attempts = events.iter().filter(|event| event["event"] == "attempt");
    assert_eq!(attempts.count(), 1);
}

#[tokio::test]
async fn retry_asks_a_person_once() {
    let backend = Flaky::failing([Network, Network]);
    let mut asking = reader(&backend);
    asking.definition.approval = Decision::Ask;
    let (bench, _) = paused_bench(vec![asking], retries(json!(3)), ApprovalAnswer::Once);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert!(outcome.is_ok() && backend.calls() == 3);
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 1);

    // A person was asked while the call ran, and would be asked again.
    let backend = Arc::new(Flaky {
        failures: Mutex::new([Network].into()),
        nested: Some("inner"),
        ..Flaky::default()
    });
    let mut outer = reader(&backend);
    outer.trust = ToolTrust::Trusted;
    outer.definition.needs.tools = vec!["inner".into()];
    outer.granted = outer.definition.needs.clone();
    let mut inner = tool("inner");
    inner.definition.approval = Decision::Ask;
    let (bench, _) = paused_bench(vec![outer, inner], retries(json!(3)), ApprovalAnswer::Once);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert_eq!((code(&outcome), backend.calls()), (Some(Network), 1));
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 1);
}

fn cache() -> Value {
    json!({"tools": {"sample": {"cache": {"ttlMs": 1_000}}}})
}

/// Calls the tool, and returns true if the result came from the cache.
async fn is_cached(bench: &Bench, call: Call) -> bool {
    let outcome = bench.pipeline.call(call).await;
    assert!(outcome.is_ok(), "{}", outcome.text());
    let events = bench.audit.events.lock();
    let recorded = events.last().unwrap()["cached"] == true;
    assert_eq!(recorded, outcome.receipt().cached);
    recorded
}

#[tokio::test]
async fn cache_depends_on_arguments_session_rules_and_time() {
    let backend = Arc::new(Flaky::default());
    let (bench, clock) = paused_bench(vec![reader(&backend)], cache(), ApprovalAnswer::No);
    let one = || call("sample", json!({"n": 1}));
    assert!(!is_cached(&bench, one()).await);
    assert!(is_cached(&bench, one()).await);
    assert_eq!(backend.calls(), 1);
    assert!(!is_cached(&bench, call("sample", json!({"n": 2}))).await);
    let mut other = one();
    other.context.session_id = "other".into();
    assert!(!is_cached(&bench, other.clone()).await);
    bench.pipeline.end_session("other");
    assert!(!is_cached(&bench, other).await);
    clock.advance(Duration::from_millis(999));
    assert!(is_cached(&bench, one()).await);
    clock.advance(Duration::from_millis(1));
    assert!(!is_cached(&bench, one()).await);
    // Other rules, although the same settings.
    bench.pipeline.replace(snapshot_of(&bench, &cache()));
    assert!(!is_cached(&bench, one()).await);
    assert!(is_cached(&bench, one()).await);
    // A view of the same pipeline with other rules.
    let restricted = bench.pipeline.restricted(|full| PipelineSnapshot {
        registry: full.registry.only(|_| true),
        policy: full.policy.clone(),
    });
    assert!(!restricted.call(one()).await.receipt().cached);
}

#[tokio::test]
async fn cache_is_off_unless_set_and_safe() {
    let always_runs = async |config: Value, change: fn(&mut Tool)| {
        let backend = Arc::new(Flaky::default());
        let mut tool = reader(&backend);
        change(&mut tool);
        tool.trust = ToolTrust::Trusted;
        tool.granted = tool.definition.needs.clone();
        let (bench, _) = paused_bench(vec![tool], config, ApprovalAnswer::Once);
        for _ in 0..2 {
            assert!(!is_cached(&bench, call("sample", json!({}))).await);
        }
    };
    always_runs(json!({}), |_| ()).await;
    always_runs(cache(), |tool| tool.definition.hints.read_only = false).await;
    always_runs(cache(), |tool| tool.definition.needs.model = true).await;
    always_runs(cache(), |tool| {
        let origin = Arc::make_mut(&mut tool.origin);
        origin.imports = vec!["wasi:keyvalue/store@0.2.0".into()];
    })
    .await;
    always_runs(cache(), |tool| {
        tool.source = ToolSource::BuiltIn;
        tool.definition.group = ToolGroup::Browser;
    })
    .await;

    // A failure is never reused.
    let backend = Flaky::failing([ExecutionError]);
    let (bench, _) = paused_bench(vec![reader(&backend)], cache(), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(code(&outcome), Some(ExecutionError));
    assert!(!is_cached(&bench, call("sample", json!({}))).await);
}

#[tokio::test]
async fn cache_depends_on_the_files_that_a_tool_can_read() {
    let backend = Arc::new(Flaky::default());
    let mut tool = reader(&backend);
    tool.trust = ToolTrust::Trusted;
    tool.definition.needs.files = vec![FileNeed {
        path: "data".into(),
        access: DirectoryAccess::Read,
        reason: String::new(),
    }];
    tool.granted = tool.definition.needs.clone();
    let (bench, _) = paused_bench(vec![tool], cache(), ApprovalAnswer::No);
    let is_cached = async |files: Option<&str>| {
        *backend.files.lock() = files.map(str::to_owned);
        is_cached(&bench, call("sample", json!({}))).await
    };
    // An unknown state is never the same.
    assert!(!is_cached(None).await);
    assert!(!is_cached(None).await);
    assert!(!is_cached(Some("a")).await);
    assert!(is_cached(Some("a")).await);
    assert!(!is_cached(Some("b")).await);
    assert!(is_cached(Some("b")).await);
}

#[tokio::test]
async fn cache_results_are_masked_and_labelled_like_others() {
    let backend = Arc::new(Flaky::default());
    *backend.text.lock() = "token ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned();
    let (bench, _) = paused_bench(vec![reader(&backend)], cache(), ApprovalAnswer::No);
    let first = bench.pipeline.call(call("sample", json!({}))).await;
    let second = bench.pipeline.call(call("sample", json!({}))).await;
    assert!(second.receipt().cached && !first.receipt().cached);
    assert_eq!(first.text(), "token [REDACTED:github-pat]");
    assert_eq!(first.text(), second.text());
    assert_eq!((first.redactions(), second.redactions()), (1, 1));
    assert_eq!(first.label(), second.label());
}
