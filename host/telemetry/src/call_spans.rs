//! Spans of calls and their effects, by the semantic conventions for MCP and GenAI.

use std::time::{Duration, SystemTime};

use mimir_core::ToolErrorCode;
use mimir_core::audit::{AuditEvent, CallSpan, EffectKind, EventKind, RequestTransport};
use mimir_core::trace_context::SpanId;

use crate::attributes::Attributes;
use crate::span::{Span, SpanKind};

/// The operation of GenAI.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// Returns the spans of an event that was recorded at `now`: none if its trace is not sampled.
pub(crate) fn spans(event: &AuditEvent, now: SystemTime) -> Vec<Span> {
    let Some(span) = event
        .span
        .as_deref()
        .filter(|span| span.context.is_sampled())
    else {
        return Vec::new();
    };
    match event.event {
        EventKind::Call => call_spans(event, span, now),
        EventKind::Effect => effect_spans(event, span, now),
        _ => Vec::new(),
    }
}

/// Returns the class of an error: `tool_error` if the tool itself has failed, as the conventions for MCP require.
pub(crate) fn error_type(event: &AuditEvent) -> Option<&'static str> {
    match event.code? {
        ToolErrorCode::ExecutionError => Some("tool_error"),
        code => Some(code.as_str()),
    }
}

/// Returns the tool, unless it is unknown: then a model has chosen the name.
pub(crate) fn known_tool(event: &AuditEvent) -> Option<&str> {
    event.source.map(|_| event.tool.as_str())
}

/// Returns the value of `network.transport`.
pub(crate) const fn transport_name(transport: RequestTransport) -> &'static str {
    match transport {
        RequestTransport::Pipe => "pipe",
        RequestTransport::Tcp => "tcp",
    }
}

fn call_spans(event: &AuditEvent, span: &CallSpan, now: SystemTime) -> Vec<Span> {
    let mut attributes = Attributes::default();
    attributes.set("gen_ai.operation.name", EXECUTE_TOOL);
    attributes.set("gen_ai.tool.type", "extension");
    set_tool(event, &mut attributes);
    attributes.set("gen_ai.tool.call.id", event.id.clone());
    let operation = match &span.origin {
        Some(origin) => {
            attributes.set("mcp.method.name", origin.method);
            attributes.set("mcp.protocol.version", origin.protocol_version.clone());
            attributes.set_some("mcp.session.id", origin.session_id.clone());
            attributes.set("network.transport", transport_name(origin.transport));
            if origin.transport == RequestTransport::Tcp {
                attributes.set("network.protocol.name", "http");
            }
            origin.method
        }
        None => EXECUTE_TOOL,
    };
    set_result(event, &mut attributes);
    attributes.set_some("mimir.fuel", event.fuel);
    attributes.set_some("mimir.peak_memory", event.peak_memory);
    attributes.set_some("mimir.bytes_in", event.bytes_in);
    attributes.set_some("mimir.bytes_out", event.bytes_out);
    attributes.set_some("mimir.tokens", event.tokens);
    attributes.set_some("mimir.attempts", event.attempts.map(u64::from));
    attributes.set_some("mimir.secrets_masked", event.secrets_found);
    if event.cached {
        attributes.set("mimir.cached", true);
    }
    let name = match known_tool(event) {
        Some(tool) => format!("{operation} {tool}"),
        None => operation.to_owned(),
    };
    let kind = match span.origin {
        Some(_) => SpanKind::Server,
        None => SpanKind::Internal,
    };
    let mut spans = vec![Span {
        trace: span.context.trace_id(),
        id: span.context.span_id(),
        parent: span.parent,
        name,
        kind,
        start: event.time,
        end: now,
        attributes,
        error: error_type(event).map(str::to_owned),
    }];
    spans.extend(approval_span(event, span));
    if let Some(start) = span.run_at {
        // A call that was cancelled has no end of its run.
        let end = span.ran_at.unwrap_or(now);
        let mut attributes = Attributes::default();
        set_tool(event, &mut attributes);
        spans.push(child(span, "run", (start, end), attributes));
    }
    spans
}

fn effect_spans(event: &AuditEvent, span: &CallSpan, now: SystemTime) -> Vec<Span> {
    let mut attributes = Attributes::default();
    set_tool(event, &mut attributes);
    set_result(event, &mut attributes);
    let name = match &span.effect {
        Some(EffectKind::Request { method, host, port }) => {
            attributes.set("http.request.method", known_method(method));
            attributes.set("server.address", host.clone());
            attributes.set("server.port", u64::from(*port));
            "check request"
        }
        Some(EffectKind::Command) => "check command",
        Some(EffectKind::Completion) => "check completion",
        None => "check effect",
    };
    let mut spans = vec![Span {
        trace: span.context.trace_id(),
        id: span.context.span_id(),
        parent: span.parent,
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start: event.time,
        end: now,
        attributes,
        error: error_type(event).map(str::to_owned),
    }];
    spans.extend(approval_span(event, span));
    spans
}

/// Returns the span of the time until a person answered, if one was asked.
fn approval_span(event: &AuditEvent, span: &CallSpan) -> Option<Span> {
    let (end, waited) = (span.answered_at?, event.waited_ms?);
    let start = end.checked_sub(Duration::from_millis(waited))?;
    let mut attributes = Attributes::default();
    attributes.set_some("mimir.answer", event.answer);
    Some(child(span, "wait for approval", (start, end), attributes))
}

fn child(
    span: &CallSpan,
    name: &str,
    (start, end): (SystemTime, SystemTime),
    attributes: Attributes,
) -> Span {
    Span {
        trace: span.context.trace_id(),
        id: SpanId::random(),
        parent: Some(span.context.span_id()),
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start,
        end,
        attributes,
        error: None,
    }
}

fn set_tool(event: &AuditEvent, attributes: &mut Attributes) {
    let Some(tool) = known_tool(event) else {
        return;
    };
    attributes.set("gen_ai.tool.name", tool.to_owned());
    let source = event.source.map(mimir_core::ToolSource::as_str);
    attributes.set_some("mimir.tool.source", source);
    attributes.set_some("mimir.tool.digest", event.digest.clone());
}

fn set_result(event: &AuditEvent, attributes: &mut Attributes) {
    let decision = event.decision.map(mimir_core::Decision::as_str);
    attributes.set_some("mimir.decision", decision);
    attributes.set_some("error.type", error_type(event));
    let code = event.code.map(ToolErrorCode::as_str);
    attributes.set_some("mimir.code", code);
}

/// Returns a standard HTTP method, or `_OTHER` as the conventions require: a tool may send any text.
fn known_method(method: &str) -> &'static str {
    const METHODS: [&str; 10] = [
        "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE",
    ];
    let mut methods = METHODS.into_iter();
    methods.find(|known| *known == method).unwrap_or("_OTHER")
}

#[cfg(test)]
mod tests;
