//! Tests of model requests from a running tool.

use super::*;
use crate::language_model::LanguageModel;

/// Sends `n` requests to the model, and returns the last reply.
struct Asker {
    prompt: String,
}

impl Backend for Asker {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let effects = call.effects();
            let mut last = Ok(String::new());
            for _ in 0..call.arguments()["n"].as_u64().unwrap_or(1) {
                last = effects.complete(&self.prompt, Some(1_000_000)).await;
            }
            let output = last.map(|text| ToolOutput {
                content: vec![Content::text(text)],
                ..ToolOutput::default()
            });
            RawResult::from(output)
        })
    }
}

/// A model that answers with its token limit, and records the prompts.
#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl LanguageModel for Said {
    fn name(&self) -> Result<String, ToolError> {
        Ok("p/m".to_owned())
    }

    fn max_tokens(&self) -> u32 {
        500
    }

    fn complete<'a>(
        &'a self,
        prompt: &'a str,
        most: u32,
        session: &'a str,
    ) -> BoxFuture<'a, Result<String, ToolError>> {
        assert_eq!(session, "session");
        self.0.lock().push(prompt.to_owned());
        Box::pin(std::future::ready(Ok(format!("at most {most}"))))
    }
}

struct Room {
    bench: Bench,
    said: Arc<Said>,
}

fn asker(granted: bool, prompt: &str) -> Tool {
    let mut asker = tool("asker");
    asker.trust = ToolTrust::Trusted;
    asker.definition.needs.model = true;
    asker.granted.model = granted;
    asker.backend = Arc::new(Asker {
        prompt: prompt.to_owned(),
    });
    asker
}

fn room(tools: Vec<Tool>, answer: ApprovalAnswer) -> Room {
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&Config::default(), "config.yml").unwrap(),
    };
    let audit = Arc::new(Memory::default());
    let approver = Arc::new(Fixed(answer, AtomicUsize::new(0)));
    let said = Arc::new(Said::default());
    let ports = PipelinePorts {
        approver: approver.clone(),
        approval_store: Arc::new(NoApprovalStore),
        vault: Arc::new(
            Redactor::new()
                .with_values([("KEY", "hunter2-value"), ("CANARY", "planted-value-7")])
                .with_canaries(["CANARY".to_owned()]),
        ),
        audit: audit.clone(),
        clock: Arc::new(Std),
        runner: Arc::new(NoCommandRunner),
        model: said.clone(),
    };
    let bench = Bench {
        pipeline: Pipeline::new(snapshot, ports),
        audit,
        approver,
    };
    Room { bench, said }
}

impl Room {
    async fn ask(&self, n: u64) -> Outcome {
        let call = call("asker", json!({ "n": n }));
        self.bench.pipeline.call(call).await
    }

    /// Returns the error codes in the audit records of model requests.
    fn recorded(&self) -> Vec<Value> {
        let events = self.bench.audit.events.lock();
        let asked = events
            .iter()
            .filter(|event| event["subject"] == "the model p/m");
        asked.map(|event| event["code"].clone()).collect()
    }
}

#[tokio::test]
async fn model_request_of_granted_tool_is_bounded_and_audited() {
    let room = room(vec![asker(true, "why?")], ApprovalAnswer::Once);
    assert_eq!(room.ask(1).await.text(), "at most 500");
    assert_eq!(
        room.bench.approver.1.load(Ordering::SeqCst),
        0,
        "a person was asked"
    );
    assert_eq!(*room.said.0.lock(), ["why?"]);
    assert_eq!(room.recorded(), [Value::Null]);
    // The output of a custom tool is untrusted content: from here on a person is asked, and says yes.
    let often = room.ask(40).await;
    assert_eq!(code(&often), Some(ToolErrorCode::LimitExceeded));
    assert_eq!(room.said.0.lock().len(), 1 + 16);
}

#[tokio::test]
async fn model_request_without_a_grant_is_denied() {
    let room = room(vec![asker(false, "why?")], ApprovalAnswer::Once);
    assert_eq!(
        code(&room.ask(1).await),
        Some(ToolErrorCode::PermissionDenied)
    );
    assert!(room.said.0.lock().is_empty());
    assert_eq!(room.recorded(), [json!("PERMISSION_DENIED")]);
}

#[tokio::test]
async fn model_request_with_secret_or_long_prompt_is_denied() {
    let long = "x".repeat(400_001);
    for (prompt, expected) in [
        ("it is hunter2-value", ToolErrorCode::PolicyDenied),
        (long.as_str(), ToolErrorCode::LimitExceeded),
    ] {
        let room = room(vec![asker(true, prompt)], ApprovalAnswer::Once);
        assert_eq!(code(&room.ask(1).await), Some(expected));
        assert!(room.said.0.lock().is_empty());
    }
}

#[tokio::test]
async fn canary_in_a_model_request_raises_an_alarm() {
    for (prompt, is_alarm) in [("it is hunter2-value", false), ("planted-value-7?", true)] {
        let room = room(vec![asker(true, prompt)], ApprovalAnswer::Once);
        let outcome = room.ask(1).await;
        assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
        assert!(room.said.0.lock().is_empty());
        let events = room.bench.audit.events.lock();
        let mut alarms = events.iter().filter(|event| event["event"] == "canary");
        let alarm = alarms.next();
        assert_eq!(alarm.is_some(), is_alarm, "{prompt}");
        if let Some(alarm) = alarm {
            assert_eq!(
                (&alarm["subject"], &alarm["direction"]),
                (&json!("CANARY"), &json!("prompt"))
            );
        }
        assert!(alarms.next().is_none());
        assert!(!format!("{events:?}").contains("planted-value-7"));
    }
}

#[tokio::test]
async fn model_request_after_untrusted_content_asks_a_person() {
    for (answer, expected, heard) in [
        (ApprovalAnswer::No, Some(ToolErrorCode::ApprovalDenied), 0),
        (ApprovalAnswer::Once, None, 1),
    ] {
        let room = room(vec![asker(true, "why?"), tool("reader")], answer);
        assert!(
            room.bench
                .pipeline
                .call(call("reader", json!({})))
                .await
                .is_ok()
        );
        assert_eq!(code(&room.ask(1).await), expected);
        assert_eq!(room.said.0.lock().len(), heard);
    }
}

#[tokio::test]
async fn model_request_without_a_model_is_unavailable() {
    let bench = bench(vec![asker(true, "why?")], json!({}), ApprovalAnswer::Once);
    let outcome = bench.pipeline.call(call("asker", json!({}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::Unavailable));
}
