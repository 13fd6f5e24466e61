use std::time::SystemTime;

use serde_json::json;

use super::*;
use crate::approval::{ApprovalAnswer, Card};
use crate::call::{NoObserver, SessionSharing};
use crate::outcome::{DataClass, TrustLevel};
use crate::pipeline::tests::tool;
use crate::registry::Registry;
use crate::tool::ToolName;

fn over_the_wire<T: Serialize, R: for<'de> Deserialize<'de>>(value: &T) -> R {
    let bytes = serde_json::to_vec(value).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn outcome(result: Result<ToolOutput, ToolError>) -> Outcome {
    Outcome {
        result,
        label: ContentLabel {
            trust: TrustLevel::Untrusted,
            data_class: DataClass::Sensitive,
            origin: "mcp:issues".into(),
        },
        source: ContentSource::Server("mcp:issues".into()),
        truncated: true,
        redactions: 3,
        receipt: Receipt {
            duration_ms: 1.25,
            fuel: Some(7),
            peak_memory: None,
            bytes_in: 2,
            bytes_out: 5,
            tokens: 4,
            attempts: Some(2),
            cached: false,
        },
    }
}

#[test]
fn outcome_message_keeps_every_field() {
    let binary = vec![0, 159, 255, 10];
    let output = ToolOutput {
        content: vec![
            Content::text("a\u{0}b\n"),
            Content::Image {
                data: binary.clone(),
                mime_type: "image/png".into(),
            },
            Content::Audio {
                data: binary.clone(),
                mime_type: "audio/wav".into(),
            },
            Content::File {
                data: binary,
                mime_type: "application/pdf".into(),
                name: "a.pdf".into(),
            },
        ],
        structured: Some(json!({"n": [1, null, 1.5]})),
        exit_code: Some(-2),
    };
    let error = ToolError::unavailable("a server is down")
        .with_details(json!({"mayHaveRun": true}))
        .with_remedies(["mimir doctor".to_owned()]);
    for result in [Ok(output), Ok(ToolOutput::default()), Err(error)] {
        let outcome = outcome(result);
        let message = OutcomeMessage::from(outcome.clone());
        assert_eq!(
            Outcome::from(over_the_wire::<_, OutcomeMessage>(&message)),
            outcome
        );
    }
}

#[test]
fn outcome_message_without_a_result_is_an_error() {
    let mut message = OutcomeMessage::from(outcome(Ok(ToolOutput::default())));
    message.output = None;
    let outcome = Outcome::from(message);
    let code = outcome.result().map_err(|error| error.code).unwrap_err();
    assert_eq!(code, ToolErrorCode::Internal);
}

#[test]
fn call_message_keeps_the_caller_and_drops_the_parent() {
    let mut context = CallContext::new_session(SystemTime::now());
    context.user = Some("ada".into());
    let mut call = Call::new("read_file", json!({"path": "a"}), context);
    call.caller = Some("user-1".into());
    call.sharing = SessionSharing::AnyClient;
    let message: CallMessage = over_the_wire(&CallMessage::new(&call, Some("reader")));
    assert_eq!(message.role.as_deref(), Some("reader"));
    let received = message.into_call(Arc::new(NoObserver));
    assert_eq!(received.tool, call.tool);
    assert_eq!(received.arguments, call.arguments);
    assert_eq!(received.context, call.context);
    assert_eq!(received.caller, call.caller);
    assert_eq!(received.sharing, call.sharing);
    assert!(received.parent.is_none());
}

#[test]
fn call_message_rejects_an_id_that_is_not_a_request_id() {
    let call = Call::new("a", json!({}), CallContext::new_session(SystemTime::now()));
    let mut value = serde_json::to_value(CallMessage::new(&call, None)).unwrap();
    value["context"]["request_id"] = "../x".into();
    assert!(serde_json::from_value::<CallMessage>(value).is_err());
}

#[test]
fn tool_message_builds_a_registry_with_the_same_tools() {
    let mut first = tool("fetch").with_aliases(vec![ToolName::new("get").unwrap()]);
    first.definition.hints.read_only = true;
    first.flags = vec!["odd".into()];
    first.token_cost = Some(12);
    let message: ToolMessage = over_the_wire(&ToolMessage::from_tool(&first));
    let registry = Registry::new([message.into_tool()], Vec::new());
    let received = registry.get("get").unwrap();
    assert_eq!(received.origin, first.origin);
    assert_eq!(received.trust, first.trust);
    assert_eq!(received.definition.hints, first.definition.hints);
    assert_eq!(
        received.definition.input_schema.as_str(),
        first.definition.input_schema.as_str()
    );
    assert_eq!(
        (received.flags.clone(), received.token_cost),
        (first.flags.clone(), Some(12))
    );
}

#[test]
fn approval_messages_keep_every_field() {
    let card = json!({
        "fingerprint": "ab", "tool": "fetch", "source": "custom", "location": "fetch.wasm", "digest": "00",
        "arguments": "{}", "summary": "fetches", "risk": "high", "risks": ["loss"], "grants": [],
        "reasons": [{"layer": "tool-default", "decision": "ask", "rule": "default", "source": "", "text": "asks"}],
        "always": {"text": "all", "withheld": ["files"]}, "editable": true,
    });
    let card: Card = serde_json::from_value(card).unwrap();
    assert_eq!(over_the_wire::<_, Card>(&card), card);
    for answer in [
        ApprovalAnswer::Once,
        ApprovalAnswer::InAdvance,
        ApprovalAnswer::Session,
        ApprovalAnswer::Always,
        ApprovalAnswer::Edit(json!({"n": 1})),
        ApprovalAnswer::No,
        ApprovalAnswer::Unattended {
            remedy: "answer it".into(),
        },
    ] {
        assert_eq!(over_the_wire::<_, ApprovalAnswer>(&answer), answer);
    }
}
