use mimir_core::audit::RequestOrigin;
use mimir_core::call::CallContext;
use mimir_core::trace_context::TraceContext;
use mimir_core::{Decision, ToolSource};

use crate::attributes::AttributeValue;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn time(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

fn event(parent: &str) -> AuditEvent {
    let parent = TraceContext::parse(parent, None).unwrap();
    let mut event = AuditEvent::call(
        time(1000),
        &CallContext::new_session(time(1000)),
        "word_count",
    );
    event.source = Some(ToolSource::Custom);
    event.span = Some(Box::new(CallSpan {
        context: parent.child(SpanId::random()),
        parent: Some(parent.span_id()),
        origin: Some(RequestOrigin {
            method: "tools/call",
            protocol_version: "2026-07-28".to_owned(),
            transport: RequestTransport::Tcp,
            session_id: None,
        }),
        answered_at: Some(time(3000)),
        run_at: Some(time(3001)),
        ran_at: Some(time(3002)),
        effect: None,
    }));
    event.waited_ms = Some(1500);
    event.answer = Some("once");
    event.decision = Some(Decision::Ask);
    event.fuel = Some(8393);
    event
}

fn text(span: &Span, name: &str) -> Option<String> {
    match span.attributes.get(name)? {
        AttributeValue::Text(text) => Some(text.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_spans_follow_the_conventions_of_mcp() {
    let spans = spans(&event(PARENT), time(4000));
    let [call, approval, run] = &spans[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(
        (call.name.as_str(), call.kind),
        ("tools/call word_count", SpanKind::Server)
    );
    assert_eq!(call.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        call.parent.map(|id| id.to_string()).as_deref(),
        Some("b7ad6b7169203331")
    );
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "word_count"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("network.transport", "tcp"),
        ("mimir.decision", "ask"),
        ("mimir.tool.source", "custom"),
    ] {
        assert_eq!(text(call, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(call.attributes.get("mimir.fuel"), Some(&8393.into()));
    assert_eq!((call.start, call.end), (time(1000), time(4000)));
    assert_eq!((approval.start, approval.end), (time(1500), time(3000)));
    assert_eq!((run.start, run.end), (time(3001), time(3002)));
    for child in [approval, run] {
        assert_eq!((child.trace, child.parent), (call.trace, Some(call.id)));
    }
}

#[test]
fn call_spans_never_contain_names_that_a_model_has_chosen() {
    let mut event = event(PARENT);
    event.source = None;
    event.tool = "my secret plan".to_owned();
    event.subject = Some("secret subject".to_owned());
    event.detail = Some("secret detail".to_owned());
    event.code = Some(ToolErrorCode::NotFound);
    let spans = spans(&event, time(4000));
    assert_eq!(spans[0].name, "tools/call");
    assert_eq!(text(&spans[0], "error.type").as_deref(), Some("NOT_FOUND"));
    let exported: Vec<String> = spans
        .iter()
        .map(|span| span.to_json().to_string())
        .collect();
    assert!(!exported.concat().contains("secret"), "{exported:?}");
}

#[test]
fn nested_call_spans_are_internal_and_errors_of_tools_have_their_own_class() {
    let mut event = event(PARENT);
    if let Some(span) = &mut event.span {
        span.origin = None;
    }
    event.code = Some(ToolErrorCode::ExecutionError);
    let spans = spans(&event, time(4000));
    assert_eq!(
        (spans[0].name.as_str(), spans[0].kind),
        ("execute_tool word_count", SpanKind::Internal)
    );
    assert_eq!(text(&spans[0], "error.type").as_deref(), Some("tool_error"));
    assert_eq!(spans[0].to_json()["status"]["code"], 2);
}

#[test]
fn effect_spans_name_the_host_and_a_standard_method_only() {
    let mut event = event(PARENT);
    event.event = EventKind::Effect;
    event.subject = Some("BREW https://api.example".to_owned());
    if let Some(span) = &mut event.span {
        span.answered_at = None;
        span.effect = Some(EffectKind::Request {
            method: "BREW".to_owned(),
            host: "api.example".to_owned(),
            port: 443,
        });
    }
    let spans = spans(&event, time(4000));
    assert_eq!(spans.len(), 1);
    assert_eq!(
        text(&spans[0], "server.address").as_deref(),
        Some("api.example")
    );
    assert_eq!(
        text(&spans[0], "http.request.method").as_deref(),
        Some("_OTHER")
    );
}

#[test]
fn traces_that_the_client_does_not_sample_have_no_spans() {
    let unsampled = event(&PARENT.replace("-01", "-00"));
    assert!(spans(&unsampled, time(4000)).is_empty());
}
