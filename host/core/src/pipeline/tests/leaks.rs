//! Tests of secrets in the arguments of calls and in outgoing data.

use super::*;
use crate::command::{CommandProgram, CommandRequest, CommandTarget};
use crate::needs::{CommandNeed, HostNeed};
use crate::network::RequestTarget;
use crate::pipeline::OutgoingRequest;

const KEPT: &str = "Xq7-tR2mVb9+LpW4/zz";

/// A made-up token in GitHub's format.
const TOKEN: &str = "ghp_cM8b2aJ1kQ7ZxY5tV9uW3eR6pL0sD4fG2hN1";

/// A test pipeline with a stored secret.
fn keeping(tools: Vec<Tool>, config: Value, answer: ApprovalAnswer) -> Bench {
    let mut bench = bench(tools, config, answer);
    let snapshot = bench.pipeline.snapshot();
    let ports = PipelinePorts {
        vault: Arc::new(
            Redactor::new()
                .with_values([("KEPT", KEPT), ("OTHER", "another-value-of-mine")])
                .with_canaries(["KEPT".to_owned()]),
        ),
        ..bench.pipeline.0.ports.clone()
    };
    let tools: Vec<Tool> = snapshot
        .registry
        .tools()
        .iter()
        .map(|tool| (**tool).clone())
        .collect();
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: snapshot.policy.clone(),
    };
    bench.pipeline = Pipeline::new(snapshot, ports);
    bench
}

fn of_server(name: &str) -> Tool {
    let mut tool = tool("mcp_tool");
    tool.source = ToolSource::Mcp;
    tool.trust = ToolTrust::Trusted;
    let mut origin = (*tool.origin).clone();
    origin.location = format!("mcp:{name}");
    tool.origin = origin.into();
    tool
}

fn forms() -> Vec<String> {
    let hex: String = KEPT.bytes().map(|byte| format!("{byte:02x}")).collect();
    vec![
        KEPT.to_owned(),
        format!("echo {KEPT} > x"),
        hex.to_uppercase(),
        hex,
        KEPT.replace('+', "%2B").replace('/', "%2f"),
        KEPT.chars().rev().collect(),
        // In base64: alone, within other bytes, and without padding.
        "WHE3LXRSMm1WYjkrTHBXNC96eg==".to_owned(),
        "a2V5PVhxNy10UjJtVmI5K0xwVzQvenoK".to_owned(),
        "WHE3LXRSMm1WYjkrTHBXNC96eg".to_owned(),
    ]
}

#[tokio::test]
async fn secret_leak_in_arguments_is_denied() {
    let quiet =
        json!({"tools": {"mcp_tool": {"labels": {"acceptsUntrusted": true}, "approval": "allow"}}});
    for tool in [of_server("files"), tool("mcp_tool")] {
        let bench = keeping(vec![tool], quiet.clone(), ApprovalAnswer::Once);
        for form in forms() {
            for arguments in [
                json!({ "text": form }),
                json!({"deep": [{"env": {"A": format!("x {form} y")}}]}),
                json!({"names": {form.clone(): 1}}),
            ] {
                let explained = bench
                    .pipeline
                    .explain(call("mcp_tool", arguments.clone()))
                    .await;
                assert_eq!(
                    explained.unwrap_err().code,
                    ToolErrorCode::PolicyDenied,
                    "{arguments}"
                );
                let outcome = bench
                    .pipeline
                    .call(call("mcp_tool", arguments.clone()))
                    .await;
                let error = outcome.result().unwrap_err();
                assert_eq!(error.code, ToolErrorCode::PolicyDenied, "{arguments}");
                assert!(error.message.contains("`KEPT`"), "{error}");
                let details = error.details.as_ref().unwrap();
                assert_eq!(details["kind"], "secret-in-arguments");
                assert_eq!(details["secret"], "KEPT");
                assert!(!error.remedies.is_empty());
                let said = serde_json::to_string(&outcome).unwrap();
                assert!(!said.contains(&form), "{said}");
            }
        }
        let record = format!("{:?}", bench.audit.events.lock());
        assert!(!record.contains(KEPT), "{record}");
        let fine = bench
            .pipeline
            .call(call("mcp_tool", json!({"text": "Xq7-tR2m"})))
            .await;
        assert!(fine.is_ok(), "{}", fine.text());
    }
}

#[tokio::test]
async fn secret_granted_to_a_server_may_reach_it() {
    let server =
        |name: &str| json!({"command": "server", "env": {"API_KEY": format!("${{{name}}}")}});
    let config = json!({
        "mcp": {"servers": {"granted": server("KEPT"), "other": server("OTHER")}},
        "tools": {"mcp_tool": {"labels": {"acceptsUntrusted": true}, "approval": "allow"}},
    });
    let arguments = || json!({"text": format!("key {KEPT}")});
    for (name, code_of) in [
        ("granted", None),
        ("other", Some(ToolErrorCode::PolicyDenied)),
    ] {
        let bench = keeping(vec![of_server(name)], config.clone(), ApprovalAnswer::No);
        let outcome = bench.pipeline.call(call("mcp_tool", arguments())).await;
        assert_eq!(code(&outcome), code_of, "{name}: {}", outcome.text());
    }
    let both = json!({"text": format!("{KEPT} another-value-of-mine")});
    let bench = keeping(vec![of_server("granted")], config, ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("mcp_tool", both)).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
}

/// Runs a command that the arguments do not name.
struct Runs(CommandRequest);

impl Backend for Runs {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let permitted = call.effects().permit_command(self.0.clone()).await;
            RawResult::from(permitted.map(|_| ToolOutput::default()))
        })
    }
}

#[tokio::test]
async fn secret_leak_in_a_tool_command_is_denied() {
    let command = |words: &[&str], value: &str, stdin: &str| CommandRequest {
        program: CommandProgram::Vector(words.iter().map(|word| (*word).to_owned()).collect()),
        directory: None,
        environment: vec![("A".to_owned(), value.to_owned())],
        stdin: stdin.as_bytes().to_vec(),
        timeout: None,
        target: CommandTarget::Default,
    };
    for (command, refused) in [
        (command(&["echo", "a"], "b", "c"), false),
        (command(&["echo", KEPT], "b", "c"), true),
        (command(&["echo", "a"], KEPT, "c"), true),
        (command(&["echo", "a"], "b", KEPT), true),
    ] {
        let mut tool = tool("sample");
        tool.definition.needs.commands = vec![CommandNeed {
            pattern: "echo *".into(),
            reason: String::new(),
        }];
        tool.granted = tool.definition.needs.clone();
        tool.trust = ToolTrust::Trusted;
        tool.backend = Arc::new(Runs(command));
        let mut bench = keeping(vec![tool], json!({}), ApprovalAnswer::Once);
        let snapshot = bench.pipeline.snapshot();
        let ports = PipelinePorts {
            runner: Arc::new(approvals::commands::Words),
            ..bench.pipeline.0.ports.clone()
        };
        let tools: Vec<Tool> = snapshot
            .registry
            .tools()
            .iter()
            .map(|tool| (**tool).clone())
            .collect();
        bench.pipeline = Pipeline::new(
            PipelineSnapshot {
                registry: Registry::new(tools, vec![]),
                policy: snapshot.policy.clone(),
            },
            ports,
        );
        let outcome = bench.pipeline.call(call("sample", json!({}))).await;
        let expected = refused.then_some(ToolErrorCode::PolicyDenied);
        assert_eq!(code(&outcome), expected, "{}", outcome.text());
        // The secret is a canary.
        let alarm: &[&str] = if refused { &["command"] } else { &[] };
        assert_eq!(alarms(&bench), alarm);
    }
}

#[tokio::test]
async fn secret_like_text_in_mcp_arguments_asks_first() {
    let quiet =
        json!({"tools": {"mcp_tool": {"labels": {"acceptsUntrusted": true}, "approval": "allow"}}});
    let bench_of = |answer| keeping(vec![of_server("files")], quiet.clone(), answer);
    let base64 = "Z2hwX2NNOGIyYUoxa1E3WnhZNXRWOXVXM2VSNnBMMHNENGZHMmhOMQ==";
    for text in [TOKEN, base64, &format!("note: {TOKEN}")] {
        let arguments = || json!({"deep": [text]});
        let unattended = bench_of(ApprovalAnswer::Unattended {
            remedy: "ask".into(),
        });
        let outcome = unattended
            .pipeline
            .call(call("mcp_tool", arguments()))
            .await;
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{text}");
        let reasons = error.details.as_ref().unwrap()["reasons"].to_string();
        assert!(
            reasons.contains("github-pat") && reasons.contains("secrets"),
            "{reasons}"
        );
        let ways = error.remedies.join(" ");
        assert!(
            ways.contains("redaction.exceptions: [github-pat]"),
            "{ways}"
        );
        let attended = bench_of(ApprovalAnswer::Once);
        assert!(
            attended
                .pipeline
                .call(call("mcp_tool", arguments()))
                .await
                .is_ok()
        );
        assert_eq!(attended.approver.1.load(Ordering::SeqCst), 1);
    }
    // An example key of documentation, a match of a generic rule, and a tool that passes nothing to others.
    let bench = bench_of(ApprovalAnswer::No);
    for text in [
        "AKIAIOSFODNN7EXAMPLE",
        "api_key = 4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c",
    ] {
        let outcome = bench
            .pipeline
            .call(call("mcp_tool", json!({ "text": text })))
            .await;
        assert!(outcome.is_ok(), "{text}: {}", outcome.text());
    }
    let own = keeping(vec![tool("mcp_tool")], quiet.clone(), ApprovalAnswer::No);
    assert!(
        own.pipeline
            .call(call("mcp_tool", json!({ "text": TOKEN })))
            .await
            .is_ok()
    );
    let excepted = json!({"tools": {"mcp_tool": {"labels": {"acceptsUntrusted": true}, "approval": "allow",
        "redaction": {"exceptions": ["github-pat"]}}}});
    let excepted = keeping(vec![of_server("files")], excepted, ApprovalAnswer::No);
    assert!(
        excepted
            .pipeline
            .call(call("mcp_tool", json!({ "text": TOKEN })))
            .await
            .is_ok()
    );
}

/// Sends one request, with a body.
struct Sends {
    url: String,
    header: String,
    body: String,
    /// Size of the chunks of the body, in bytes.
    chunk: usize,
}

impl Backend for Sends {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let effects = call.effects();
            let target = RequestTarget::parse(&self.url).unwrap();
            let egress = OutgoingRequest {
                target: &target,
                method: "POST",
                headers: &[b"x-note", self.header.as_bytes()],
                body: true,
            };
            let sent = async {
                effects.request(egress).await?;
                let mut body = effects.upload_scanner();
                for piece in self.body.as_bytes().chunks(self.chunk) {
                    let mut matched = body.scan_chunk(piece)?;
                    while let Some(rule) = matched {
                        effects.approve_body(egress, &rule).await?;
                        matched = body.allow_rule(&rule);
                    }
                }
                Ok(ToolOutput::default())
            };
            RawResult::from(sent.await)
        })
    }
}

#[tokio::test]
async fn secret_like_text_in_a_request_asks_first() {
    let plain = || Sends {
        url: "https://api.example/x".into(),
        header: "fine".into(),
        body: "a body of words".into(),
        chunk: 11,
    };
    for (sends, asked) in [
        (plain(), 0),
        (
            Sends {
                url: format!("https://api.example/?t={TOKEN}"),
                ..plain()
            },
            1,
        ),
        (
            Sends {
                header: format!("Bearer {TOKEN}"),
                ..plain()
            },
            1,
        ),
        (
            Sends {
                body: format!("some text, {TOKEN}, and more"),
                ..plain()
            },
            1,
        ),
        (
            Sends {
                body: format!("{TOKEN} and again {TOKEN}"),
                ..plain()
            },
            1,
        ),
        // Two kinds of secrets in one chunk are two questions.
        (
            Sends {
                body: format!("{TOKEN} and AKIALALEMEL33243OLIB"),
                chunk: 4096,
                ..plain()
            },
            2,
        ),
    ] {
        for answer in [ApprovalAnswer::Once, ApprovalAnswer::No] {
            let mut tool = tool("sample");
            tool.definition.needs.hosts = vec![HostNeed {
                host: "api.example".into(),
                methods: vec!["POST".into()],
                reason: String::new(),
            }];
            tool.granted = tool.definition.needs.clone();
            tool.trust = ToolTrust::Trusted;
            let (url, header, body) = (sends.url.clone(), sends.header.clone(), sends.body.clone());
            tool.backend = Arc::new(Sends {
                url,
                header,
                body,
                chunk: sends.chunk,
            });
            let bench = keeping(vec![tool], json!({}), answer.clone());
            let outcome = bench.pipeline.call(call("sample", json!({}))).await;
            assert_eq!(
                outcome.is_ok(),
                asked == 0 || answer == ApprovalAnswer::Once,
                "{}",
                outcome.text()
            );
            let times = bench.approver.1.load(Ordering::SeqCst);
            // A no to the first question ends the request.
            let expected = match answer {
                ApprovalAnswer::No => asked.min(1),
                _ => asked,
            };
            assert_eq!(
                times, expected,
                "{} {} {}",
                sends.url, sends.header, sends.body
            );
        }
    }
}

/// Returns the ways on which canaries were seen, as recorded.
fn alarms(bench: &Bench) -> Vec<String> {
    let events = bench.audit.events.lock();
    let alarms = events.iter().filter(|event| event["event"] == "canary");
    alarms
        .map(|event| {
            assert_eq!(event["subject"], "KEPT");
            assert!(event["tool"].is_string() && event["id"].is_string());
            event["direction"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn canary_in_arguments_and_results_raises_an_alarm_in_each_encoding() {
    let quiet =
        json!({"tools": {"mcp_tool": {"labels": {"acceptsUntrusted": true}, "approval": "allow"}}});
    for form in forms() {
        let bench = keeping(vec![of_server("files")], quiet.clone(), ApprovalAnswer::No);
        let arguments = json!({ "text": form });
        // An explanation is no attempt.
        let _ = bench
            .pipeline
            .explain(call("mcp_tool", arguments.clone()))
            .await;
        assert!(alarms(&bench).is_empty());
        bench.pipeline.call(call("mcp_tool", arguments)).await;
        assert_eq!(alarms(&bench), ["arguments"], "{form}");

        let output = ToolOutput {
            content: vec![Content::text(format!("found: {form}"))],
            ..ToolOutput::default()
        };
        let reads = with(
            "reads",
            Fake {
                output,
                ..Fake::default()
            },
        );
        let bench = keeping(vec![reads], json!({}), ApprovalAnswer::No);
        let outcome = bench.pipeline.call(call("reads", json!({}))).await;
        assert!(outcome.is_ok() && !outcome.text().contains(&form));
        assert_eq!(alarms(&bench), ["result"], "{form}");
    }
    let other = json!({"text": "another-value-of-mine"});
    let bench = keeping(vec![of_server("files")], quiet, ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("mcp_tool", other)).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));
    assert!(
        alarms(&bench).is_empty(),
        "an alarm for a secret that is not a canary"
    );
}

#[tokio::test]
async fn canary_in_a_request_raises_an_alarm() {
    let plain = || Sends {
        url: "https://api.example/x".into(),
        header: "fine".into(),
        body: "words".into(),
        chunk: 11,
    };
    for (sends, expected) in [
        (plain(), Vec::<&str>::new()),
        (
            Sends {
                url: format!("https://api.example/?t={KEPT}"),
                ..plain()
            },
            vec!["request"],
        ),
        (
            Sends {
                header: KEPT.into(),
                ..plain()
            },
            vec!["request"],
        ),
        (
            Sends {
                body: format!("{} another-value-of-mine {KEPT}", "x".repeat(100)),
                chunk: 4096,
                ..plain()
            },
            vec!["request"],
        ),
    ] {
        let mut tool = tool("sample");
        tool.definition.needs.hosts = vec![HostNeed {
            host: "api.example".into(),
            methods: vec!["POST".into()],
            reason: String::new(),
        }];
        tool.granted = tool.definition.needs.clone();
        tool.trust = ToolTrust::Trusted;
        tool.backend = Arc::new(sends);
        let bench = keeping(vec![tool], json!({}), ApprovalAnswer::Once);
        let outcome = bench.pipeline.call(call("sample", json!({}))).await;
        assert_eq!(outcome.is_ok(), expected.is_empty(), "{}", outcome.text());
        assert_eq!(alarms(&bench), expected);
    }
}
