//! Tests of the announcement of calls in a log that several processes share.

use super::*;

/// A log that is reached over the network.
#[derive(Default)]
struct RemoteLog {
    events: Mutex<Vec<Value>>,
    announced: Mutex<Vec<Value>>,
    refuses_announcements: bool,
    /// The number of events recorded with [`AuditSink::record`].
    blocking: AtomicUsize,
}

impl AuditSink for RemoteLog {
    fn record(&self, event: &AuditEvent) -> Result<(), AuditError> {
        self.blocking.fetch_add(1, Ordering::SeqCst);
        self.events
            .lock()
            .push(serde_json::to_value(event).unwrap());
        Ok(())
    }

    fn record_with_others<'a>(
        &'a self,
        event: &AuditEvent,
    ) -> BoxFuture<'a, Result<(), AuditError>> {
        let event = serde_json::to_value(event).unwrap();
        self.events.lock().push(event);
        Box::pin(std::future::ready(Ok(())))
    }

    fn announce<'a>(&'a self, event: &AuditEvent) -> BoxFuture<'a, Result<(), AuditError>> {
        let event = serde_json::to_value(event).unwrap();
        let result = if self.refuses_announcements {
            Err(AuditError {
                place: "nats".into(),
                source: std::io::ErrorKind::TimedOut.into(),
            })
        } else {
            self.announced.lock().push(event);
            Ok(())
        };
        Box::pin(std::future::ready(result))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn wants_arguments(&self) -> bool {
        true
    }
}

fn with_log(tools: Vec<Tool>, log: &Arc<RemoteLog>) -> Pipeline {
    let base = bench(tools.clone(), json!({}), ApprovalAnswer::Once);
    let ports = PipelinePorts {
        audit: Arc::clone(log) as Arc<dyn AuditSink>,
        ..base.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::default(),
    };
    Pipeline::new(snapshot, ports)
}

#[tokio::test]
async fn call_that_must_not_run_twice_is_announced_before_it_runs() {
    let mut reader = tool("reader");
    reader.definition.hints.read_only = true;
    let mut setter = tool("setter");
    setter.definition.hints.idempotent = true;
    // The statement of a plugin that was not granted does not count.
    let mut stranger = reader.clone();
    stranger.definition.name = ToolName::new("stranger").unwrap();
    stranger.trust = ToolTrust::Untrusted;
    let log = Arc::new(RemoteLog::default());
    let pipeline = with_log(vec![reader, setter, stranger, tool("writer")], &log);
    for name in ["reader", "setter", "stranger", "writer"] {
        let call = call(name, json!({"n": 1}));
        let may_run_again = pipeline.may_run_again(&call);
        assert_eq!(may_run_again, matches!(name, "reader" | "setter"), "{name}");
        let outcome = pipeline.call(call).await;
        assert!(outcome.is_ok(), "{name}: {}", outcome.text());
    }
    let announced = log.announced.lock();
    let names: Vec<_> = announced.iter().map(|event| &event["tool"]).collect();
    assert_eq!(names, ["stranger", "writer"]);
    assert!(
        announced
            .iter()
            .all(|event| event.get("arguments").is_none())
    );
    let events = log.events.lock();
    assert_eq!(events.len(), 4);
    assert_eq!(events[3]["id"], announced[1]["id"]);
    assert_eq!(log.blocking.load(Ordering::SeqCst), 0);
    assert!(!pipeline.may_run_again(&call("missing", json!({}))));
}

#[tokio::test]
async fn call_that_cannot_be_announced_does_not_run() {
    let backend = Arc::new(Fake::default());
    let writer = Tool {
        backend: Arc::clone(&backend) as Arc<dyn Backend>,
        ..tool("writer")
    };
    let log = Arc::new(RemoteLog {
        refuses_announcements: true,
        ..RemoteLog::default()
    });
    let pipeline = with_log(vec![writer], &log);
    let outcome = pipeline.call(call("writer", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
    assert!(
        outcome.text().contains("was not made"),
        "{}",
        outcome.text()
    );
    assert_eq!(backend.calls.load(Ordering::SeqCst), 0);
    assert_eq!(log.events.lock().len(), 1);
}

#[tokio::test]
async fn dropped_call_is_recorded_without_blocking() {
    let hang = with(
        "hang",
        Fake {
            hang: true,
            ..Fake::default()
        },
    );
    let log = Arc::new(RemoteLog::default());
    let pipeline = with_log(vec![hang], &log);
    let mut running = Box::pin(pipeline.call(call("hang", json!({}))));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    drop(running);
    assert_eq!(log.events.lock()[0]["code"], "CANCELLED");
    assert_eq!(log.blocking.load(Ordering::SeqCst), 0);
}
