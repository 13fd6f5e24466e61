//! Approval questions to the user of a client, by a request from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimir_core::{Decision, Tool};
use serde_json::{Value, json};

use crate::kit::{TestServer, Wire, fake, text_result, tool};

/// Returns a tool that needs approval, and that returns its arguments.
pub fn careful() -> (Tool, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&runs);
    let backend = fake(move |call| {
        counts.fetch_add(1, Ordering::SeqCst);
        async move { text_result(&call.arguments().to_string()) }
    });
    let mut careful = tool("careful", backend);
    careful.definition.approval = Decision::Ask;
    (careful, runs)
}

/// Capabilities of a client that shows forms.
fn forms() -> Value {
    json!({"elicitation": {}})
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Calls the tool, answers the question, and returns the result.
async fn call_and_answer(wire: &mut Wire, answer: Value) -> Value {
    let params = json!({"name": "careful", "arguments": {"n": 1}});
    let id = wire.send("tools/call", params).await;
    let question = wire.next_with_method("elicitation/create").await;
    wire.answer(&question, answer).await;
    wire.response_to(id).await["result"].take()
}

fn code(result: &Value) -> &Value {
    &result["_meta"]["mimir/outcome"]["code"]
}

#[tokio::test]
async fn approval_form_has_all_facts_and_no_defaults() {
    let (careful, _) = careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    wire.send(
        "tools/call",
        json!({"name": "careful", "arguments": {"n": 1}}),
    )
    .await;
    let question = wire.next_with_method("elicitation/create").await;
    let message = question["params"]["message"].as_str().unwrap();
    for fact in [
        "mimir: may `careful` run?",
        "[Built-in] sha256 00",
        "risk: low",
        "arguments:\n  │ {\n  │   \"n\": 1\n  │ }",
        "asked because:",
        "\"always\" would:\n  │ allow `careful` with n=1",
    ] {
        assert!(message.contains(fact), "{fact}: {message}");
    }
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["required"], json!(["answer"]));
    let answers = json!(["once", "session", "always", "edit", "no"]);
    assert_eq!(schema["properties"]["answer"]["enum"], answers);
    assert_eq!(schema["properties"]["arguments"]["type"], "string");
    assert!(!schema.to_string().contains("default"), "{schema}");
}

#[tokio::test]
async fn approval_answers_have_their_effect() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    for (answer, ends) in [
        (accept(json!({"answer": "once"})), Value::Null),
        (accept(json!({"answer": "no"})), json!("APPROVAL_DENIED")),
        (json!({"action": "decline"}), json!("APPROVAL_DENIED")),
        (json!({"action": "cancel"}), json!("APPROVAL_DENIED")),
        // A yes with the unchanged arguments is a plain yes.
        (
            accept(json!({"answer": "once", "arguments": "{\"n\":1}"})),
            Value::Null,
        ),
        (
            accept(json!({"answer": "once", "arguments": " "})),
            Value::Null,
        ),
    ] {
        let result = call_and_answer(&mut wire, answer.clone()).await;
        assert_eq!(code(&result), &ends, "{answer}: {result}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    // This session does not ask again.
    let result = call_and_answer(&mut wire, accept(json!({"answer": "session"}))).await;
    assert_eq!(code(&result), &Value::Null);
    let again = wire.call("careful", json!({"n": 1})).await;
    assert_eq!(code(&again), &Value::Null);
    let mut other = test_server.client(json!({})).await;
    let elsewhere = other.call("careful", json!({"n": 1})).await;
    assert_eq!(code(&elsewhere), "APPROVAL_DENIED", "another session");
}

#[tokio::test]
async fn approval_edited_arguments_are_checked_again() {
    let (careful, _) = careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    for word in ["edit", "once"] {
        let params = json!({"name": "careful", "arguments": {"n": 1}});
        let id = wire.send("tools/call", params).await;
        let question = wire.next_with_method("elicitation/create").await;
        let edit = accept(json!({"answer": word, "arguments": "{\"n\": 2}"}));
        wire.answer(&question, edit).await;
        let second = wire.next_with_method("elicitation/create").await;
        let message = second["params"]["message"].as_str().unwrap();
        assert!(message.contains("\"n\": 2"), "{message}");
        wire.answer(&second, accept(json!({"answer": "once"})))
            .await;
        let result = wire.response_to(id).await["result"].take();
        assert_eq!(result["content"][0]["text"], "{\"n\":2}", "{result}");
    }
    // Arguments that violate the schema are rejected as in any other call.
    let edit = accept(json!({"answer": "edit", "arguments": "{\"n\": \"x\"}"}));
    let result = call_and_answer(&mut wire, edit).await;
    assert_eq!(code(&result), "INVALID_INPUT");
}

#[tokio::test]
async fn approval_invalid_answer_is_asked_again() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    let id = wire.send("tools/call", json!({"name": "careful"})).await;
    for nonsense in [
        json!({"action": "accept"}),
        accept(json!({"answer": "edit", "arguments": "[1]"})),
        accept(json!({"answer": true})),
    ] {
        let question = wire.next_with_method("elicitation/create").await;
        wire.answer(&question, nonsense).await;
    }
    let result = wire.response_to(id).await["result"].take();
    assert_eq!(code(&result), "APPROVAL_DENIED");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn approval_without_forms_logs_the_remedy_for_the_user() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut wire = test_server.client(capabilities).await;
        let result = wire.call("careful", json!({})).await;
        assert_eq!(result["isError"], true);
        assert_eq!(code(&result), "APPROVAL_DENIED");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("The mimir log tells"), "{text}");
        // The user reads the command in the log; the result goes to the model, which must not see it.
        let notification = wire.next_with_method("notifications/message").await;
        assert_eq!(notification["params"]["level"], "warning");
        let remedies = notification["params"]["data"]["wayOut"].as_array().unwrap();
        assert!(
            remedies.iter().any(|remedy| remedy == "Ask on a terminal."),
            "{notification}"
        );
        assert!(
            !result.to_string().contains("Ask on a terminal."),
            "{result}"
        );
    }
    assert_eq!(test_server.refused.lock().len(), 2);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn approval_rejected_by_the_client_denies_the_call() {
    let (careful, runs) = careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    let id = wire.send("tools/call", json!({"name": "careful"})).await;
    let question = wire.next_with_method("elicitation/create").await;
    let error = json!({"code": -32601, "message": "I cannot"});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "error": error});
    wire.line(&answer.to_string()).await;
    let result = wire.response_to(id).await["result"].take();
    assert_eq!(code(&result), "APPROVAL_DENIED");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn approval_question_ends_with_its_timeout_or_call() {
    let (careful, _) = careful();
    let test_server = TestServer::with_timeout(vec![careful], Duration::from_millis(50));
    let mut wire = test_server.client(forms()).await;
    let id = wire.send("tools/call", json!({"name": "careful"})).await;
    let question = wire.next_with_method("elicitation/create").await;
    let result = wire.response_to(id).await["result"].take();
    assert_eq!(code(&result), "APPROVAL_DENIED");
    let off = wire.next_with_method("notifications/cancelled").await;
    assert_eq!(off["params"]["requestId"], question["id"]);

    let (careful, runs) = self::careful();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    let id = wire.send("tools/call", json!({"name": "careful"})).await;
    let question = wire.next_with_method("elicitation/create").await;
    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    let off = wire.next_with_method("notifications/cancelled").await;
    assert_eq!(off["params"]["requestId"], question["id"]);
    // A late yes has no effect.
    wire.answer(&question, accept(json!({"answer": "once"})))
        .await;
    wire.request("ping", json!({})).await;
    assert_eq!(test_server.recorded(1).await, ["CANCELLED"]);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Returns a tool that needs approval, and that has a text as its argument.
fn careful_with_text() -> (Tool, Arc<AtomicUsize>) {
    let (mut careful, runs) = careful();
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
    careful.definition.input_schema = mimir_core::Schema::parse(schema).unwrap();
    (careful, runs)
}

#[tokio::test]
async fn approval_form_breaks_long_lines_after_their_marks() {
    let (careful, _) = careful_with_text();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    let forged = "\"createDirs\": false,";
    let text = format!("{}{forged}\n{}\n", " ".repeat(90), "long words ".repeat(20));
    let arguments = json!({"name": "careful", "arguments": {"text": text}});
    wire.send("tools/call", arguments).await;
    let question = wire.next_with_method("elicitation/create").await;
    let message = question["params"]["message"].as_str().unwrap();
    let quoted = message.lines().filter(|line| line.starts_with("  │ "));
    assert!(
        quoted.clone().all(|line| line.chars().count() <= 76),
        "{message}"
    );
    let mut forged = quoted.filter(|line| line.contains(forged));
    assert!(forged.all(|line| line.starts_with("  │   ↳ ")), "{message}");
    assert!(message.contains("  │   | long words"), "{message}");
}

#[tokio::test]
async fn approval_form_is_not_sent_if_too_long() {
    let (careful, runs) = careful_with_text();
    let test_server = TestServer::new(vec![careful]);
    let mut wire = test_server.client(forms()).await;
    let result = wire
        .call("careful", json!({"text": "x".repeat(100_000)}))
        .await;
    assert_eq!(code(&result), "APPROVAL_DENIED");
    assert!(
        wire.received
            .iter()
            .all(|message| message["method"] != "elicitation/create")
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}
