//! Tests of secrets in everything that a call returns.

use super::*;
use crate::call::{CallObserver, CallProgress, LogLevel, LogLine};
use crate::command::CommandStream;
use crate::outcome::DataClass;
use crate::output_lines::{OutputLines, PARTIAL_LINE_DELAY};

/// A made-up token in the format of a real one.
const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";

#[derive(Default)]
struct Ears(Mutex<Vec<String>>);

impl CallObserver for Ears {
    fn progress(&self, progress: CallProgress) {
        self.0.lock().extend(progress.message);
    }
    fn log(&self, line: LogLine) {
        self.0.lock().push(line.text);
    }
}

/// Returns a secret in each kind of output.
struct Leak {
    fails: bool,
}

impl Backend for Leak {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let line = |text: String| LogLine {
            level: LogLevel::Info,
            text,
        };
        call.observer().log(line(format!("token {TOKEN}")));
        call.observer()
            .log(line("the hoard is my-own-hoard".into()));
        call.observer().progress(CallProgress {
            done: 1,
            total: None,
            message: Some(format!("with {TOKEN}")),
        });
        let (one, two) = TOKEN.split_at(20);
        let output = ToolOutput {
            content: vec![Content::text(format!("split: {one}")), Content::text(two)],
            structured: Some(json!({"password": "hunter2!x", "note": TOKEN, "count": 3})),
            ..ToolOutput::default()
        };
        let result = match self.fails {
            false => Ok(output),
            true => Err(
                ToolError::new(ToolErrorCode::ExecutionError, format!("bad {TOKEN}"))
                    .with_details(json!({"header": format!("Bearer {TOKEN}")})),
            ),
        };
        Box::pin(std::future::ready(RawResult::from(result)))
    }
}

fn leaking(fails: bool) -> Tool {
    let mut leak = tool("leak");
    // Results of a built-in tool come from this machine.
    leak.source = ToolSource::BuiltIn;
    leak.backend = Arc::new(Leak { fails });
    leak
}

fn bare(text: &str) -> bool {
    !text.contains("ghp_0123") && !text.contains("6789abcd") && !text.contains("hunter2")
}

async fn run(fails: bool, config: Value) -> (Outcome, Vec<String>, Value) {
    let mut bench = bench(vec![leaking(fails)], config, ApprovalAnswer::No);
    let ports = PipelinePorts {
        vault: Arc::new(Redactor::new().with_values([("HOARD", "my-own-hoard")])),
        ..bench.pipeline.0.ports.clone()
    };
    let snapshot = bench.pipeline.snapshot();
    bench.pipeline = Pipeline::new(
        PipelineSnapshot {
            registry: Registry::new([leaking(fails)], vec![]),
            policy: snapshot.policy.clone(),
        },
        ports,
    );
    let ears = Arc::new(Ears::default());
    let mut call = call("leak", json!({"n": 1, "key": format!("Bearer {TOKEN}")}));
    call.observer = Arc::clone(&ears) as Arc<dyn CallObserver>;
    let outcome = bench.pipeline.call(call).await;
    let heard = ears.0.lock().clone();
    let event = bench.audit.events.lock()[0].clone();
    (outcome, heard, event)
}

#[tokio::test]
async fn mask_covers_results_logs_and_audit_events() {
    for fails in [false, true] {
        let (outcome, heard, event) = run(
            fails,
            json!({"tools": {"leak": {"audit": {"logArgs": true}}}}),
        )
        .await;
        let all = serde_json::to_string(&outcome).unwrap();
        assert!(bare(&all), "{all}");
        assert!(outcome.redactions() >= 2);
        assert_eq!(outcome.label().data_class, DataClass::Sensitive);
        assert_eq!(heard.len(), 3, "{heard:?}");
        assert!(
            heard
                .iter()
                .all(|line| bare(line) && !line.contains("my-own-hoard")),
            "{heard:?}"
        );
        assert!(
            heard
                .iter()
                .any(|line| line.contains("[REDACTED:secret:HOARD]"))
        );
        assert!(event["arguments"].is_object());
        assert!(bare(&event.to_string()), "{event}");
    }
    let (outcome, ..) = run(false, json!({})).await;
    assert_eq!(
        outcome.result().unwrap().structured.as_ref().unwrap()["count"],
        3,
        "output without secrets was changed"
    );
}

#[tokio::test]
async fn redaction_exception_applies_to_one_rule_and_one_tool() {
    let exceptions = json!({"tools": {"leak": {"redaction": {"exceptions": ["github-pat"]}}}});
    let (outcome, ..) = run(false, exceptions).await;
    let all = serde_json::to_string(&outcome).unwrap();
    assert!(all.contains(TOKEN) && !all.contains("hunter2"), "{all}");
    let slip = json!({"tools": {"leak": {"redaction": {"exceptions": ["github-patt"]}}}});
    let slip: Config = serde_json::from_value(slip).unwrap();
    let error = Policy::new(&slip, "config.yml").unwrap_err().to_string();
    assert!(error.contains("github-pat`"), "{error}");
    let value = json!({"tools": {"leak": {"redaction": {"exceptions": ["secret:HOARD"]}}}});
    let value: Config = serde_json::from_value(value).unwrap();
    assert!(
        Policy::new(&value, "config.yml").is_err(),
        "an exception for a stored secret was accepted"
    );
}

#[tokio::test]
async fn audit_log_args_is_set_per_tool() {
    let (.., kept) = run(
        false,
        json!({"tools": {"leak": {"audit": {"logArgs": true}}}}),
    )
    .await;
    assert_eq!(kept["arguments"]["n"], 1);
    let (.., not) = run(
        false,
        json!({"tools": {"leak": {"audit": {"logArgs": false}}}}),
    )
    .await;
    assert!(not.get("arguments").is_none());
    let output: Result<Config, _> =
        serde_json::from_value(json!({"tools": {"leak": {"audit": {"logOutput": true}}}}));
    assert!(
        output
            .unwrap_err()
            .to_string()
            .contains("never recorded in the audit log")
    );
}

#[tokio::test]
async fn mask_covers_the_name_of_an_unknown_tool() {
    let bench = bench(vec![], json!({}), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call(TOKEN, json!({}))).await;
    assert!(bare(&outcome.text()), "{}", outcome.text());
    let event = bench.audit.events.lock()[0].to_string();
    assert!(bare(&event), "{event}");
}

/// Calls a tool with an output schema, whose structured result contains a secret.
async fn promised(schema: Value, structured: Value) -> Outcome {
    let output = ToolOutput {
        structured: Some(structured),
        ..ToolOutput::default()
    };
    let mut tool = with(
        "sample",
        Fake {
            output,
            ..Fake::default()
        },
    );
    tool.definition.output_schema = Some(Schema::parse(&schema.to_string()).unwrap());
    let bench = bench(vec![tool], json!({}), ApprovalAnswer::No);
    bench.pipeline.call(call("sample", json!({}))).await
}

#[tokio::test]
async fn mask_fits_the_output_schema() {
    let text = |more: Value| {
        let mut note = json!({"type": "string"});
        note.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        note
    };
    for (note, required, expected) in [
        (text(json!({})), true, json!("[REDACTED:github-pat]")),
        (
            text(json!({"maxLength": 40})),
            true,
            json!("[REDACTED:github-pat]"),
        ),
        (text(json!({"maxLength": 12})), true, json!("[REDACTED]")),
        (
            text(json!({"minLength": 3, "maxLength": 8})),
            true,
            json!("***"),
        ),
        (text(json!({"pattern": "^(ghp_.*)?$"})), true, json!("")),
        (
            json!({"anyOf": [{"type": "string", "pattern": "^ghp_"}, {"type": "null"}]}),
            true,
            json!(null),
        ),
        (text(json!({"pattern": "^ghp_"})), false, Value::from(0)),
    ] {
        let required = if required { json!(["note"]) } else { json!([]) };
        let schema = json!({
            "type": "object",
            "properties": {"note": note, "count": {"type": "integer"}},
            "required": required,
        });
        // Longer than some of the schemas allow, because only the final result is checked here.
        let schema_of_tool = Schema::parse(&schema.to_string()).unwrap();
        let mut output = ToolOutput {
            structured: Some(json!({"note": "[REDACTED:github-pat]", "count": 3})),
            ..ToolOutput::default()
        };
        super::super::sanitize::fit_schema::fit_to_schema(&mut output, &schema_of_tool);
        let fitting = output.structured.unwrap();
        assert!(schema_of_tool.validate("it", &fitting).is_ok());
        assert_eq!(fitting["count"], 3, "good output stays");
        let there = fitting.get("note").cloned().unwrap_or(Value::from(0));
        assert_eq!(there, expected, "{schema}");
    }
}

#[tokio::test]
async fn mask_that_breaks_the_output_schema_yields_text() {
    let schema = |note: Value| {
        json!({
            "type": "object",
            "properties": {"notes": {"type": "array", "items": note, "minItems": 2}},
            "required": ["notes"],
        })
    };
    let value = json!({"notes": [TOKEN, "ghp_not"]});
    let good = promised(schema(json!({"type": "string"})), value.clone()).await;
    assert_eq!(
        good.result().unwrap().structured.as_ref().unwrap()["notes"][1],
        "ghp_not"
    );
    let bad = promised(schema(json!({"type": "string", "pattern": "^ghp_"})), value).await;
    let output = bad.result().unwrap();
    assert!(output.structured.is_none(), "it would break the promise");
    let text = bad.text();
    assert!(
        text.contains("given as text") && text.contains("ghp_not"),
        "{text}"
    );
    assert!(
        bare(&text) && text.contains("[REDACTED:github-pat]"),
        "{text}"
    );
    assert_eq!(bad.redactions(), 1);

    // Escaping for safe display changes a value, too.
    let odd = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}});
    let outcome = promised(odd, json!({"a": "x\u{202e}y"})).await;
    assert!(outcome.is_ok() && outcome.result().unwrap().structured.is_none());
}

/// Returns a secret in two progress reports, and another one in two parts of a failure.
struct Halves;

impl Backend for Halves {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let (one, two) = TOKEN.split_at(20);
        for (done, half) in [(1, one), (2, two), (3, "well")] {
            call.observer().progress(CallProgress {
                done,
                total: None,
                message: Some(half.to_owned()),
            });
        }
        let error = ToolError::new(ToolErrorCode::ExecutionError, format!("it is {one}"))
            .with_details(json!({"rest": two}));
        Box::pin(std::future::ready(RawResult::failed(error)))
    }
}

#[tokio::test]
async fn mask_covers_a_secret_split_across_messages() {
    let mut halves = tool("halves");
    halves.backend = Arc::new(Halves);
    let bench = bench(vec![halves], json!({}), ApprovalAnswer::No);
    let ears = Arc::new(Ears::default());
    let mut call = call("halves", json!({}));
    call.observer = Arc::clone(&ears) as Arc<_>;
    let outcome = bench.pipeline.call(call).await;
    let heard = ears.0.lock().join("|");
    assert!(bare(&heard) && heard.ends_with("|well"), "{heard}");
    let said = serde_json::to_string(outcome.result().unwrap_err()).unwrap();
    assert!(bare(&said), "{said}");
}

/// Writes a secret as the output of a slow program, in pieces of this length.
struct SlowOutput(usize);

impl Backend for SlowOutput {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let mut lines = OutputLines::new(Arc::clone(call.observer()));
        let mut now = Instant::now();
        for piece in format!("token {TOKEN} is my-own-hoard\nwell")
            .as_bytes()
            .chunks(self.0)
        {
            lines.add(CommandStream::Stdout, piece, now);
            now += PARTIAL_LINE_DELAY;
            lines.flush_partial_lines(now);
            // Output of the other stream arrives between the pieces.
            lines.add(CommandStream::Stderr, b"!\n", now);
        }
        lines.finish(now);
        Box::pin(std::future::ready(RawResult::from(Ok(
            ToolOutput::default(),
        ))))
    }
}

#[tokio::test]
async fn mask_covers_a_secret_in_pieces_of_output() {
    for length in [1, 2, 3, 5, 8, 13, 21, 34] {
        let mut slow = tool("slow");
        slow.backend = Arc::new(SlowOutput(length));
        let mut bench = bench(vec![slow], json!({}), ApprovalAnswer::No);
        let ports = PipelinePorts {
            vault: Arc::new(Redactor::new().with_values([("HOARD", "my-own-hoard")])),
            ..bench.pipeline.0.ports.clone()
        };
        let snapshot = PipelineSnapshot {
            registry: bench.pipeline.snapshot().registry.only(|_| true),
            policy: Policy::default(),
        };
        bench.pipeline = Pipeline::new(snapshot, ports);
        let ears = Arc::new(Ears::default());
        let mut call = call("slow", json!({}));
        call.observer = Arc::clone(&ears) as Arc<_>;
        assert!(bench.pipeline.call(call).await.is_ok());
        let heard = ears.0.lock().concat().replace('!', "");
        for secret in [TOKEN, "my-own-hoard"] {
            let parts = secret.as_bytes().windows(6);
            let mut shown = parts.filter(|part| heard.contains(str::from_utf8(part).unwrap()));
            assert_eq!(shown.next(), None, "{length}: {heard}");
        }
        assert!(
            heard.starts_with("token ") && heard.ends_with("well"),
            "{heard}"
        );
    }
}

#[tokio::test]
async fn mask_covers_explain_reasons_and_errors() {
    let config =
        json!({"policy": {"rules": [{"reason": format!("see {TOKEN}"), "decision": "deny"}]}});
    let bench = bench(vec![tool("sample")], config, ApprovalAnswer::No);
    let explained = bench
        .pipeline
        .explain(call("sample", json!({})))
        .await
        .unwrap();
    assert_eq!(
        explained.evaluation.reasons().next().unwrap().text,
        "see [REDACTED:github-pat]"
    );
    let error = bench
        .pipeline
        .explain(call(TOKEN, json!({})))
        .await
        .unwrap_err();
    assert!(bare(&error.message), "{error}");
}
