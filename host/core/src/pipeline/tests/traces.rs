//! Tests of the trace context in requests of tools.

use super::*;
use crate::call::{CallObserver, CallProgress, LogLine};
use crate::network::RequestTarget;
use crate::trace_context::TraceContext;

const URLS: [&str; 5] = [
    "https://api.example/x",
    "https://a.internal.example:8443/",
    "https://a.internal.example/",
    "https://api.example.evil.example/",
    "https://evil.example/?api.example",
];

/// Returns the trace context of requests to each of [`URLS`].
struct ReadsContexts;

impl Backend for ReadsContexts {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let effects = call.effects();
        let context = |url: &&str| {
            let target = RequestTarget::parse(url).unwrap();
            let context = effects.trace_context_for(&target);
            context.map_or_else(|| "-".to_owned(), |context| context.traceparent())
        };
        let contexts: Vec<String> = URLS.iter().map(context).collect();
        let output = ToolOutput {
            content: vec![Content::text(contexts.join(" "))],
            ..ToolOutput::default()
        };
        Box::pin(std::future::ready(RawResult::from(Ok(output))))
    }
}

/// A client that sends a trace context.
struct TracedClient(TraceContext);

impl CallObserver for TracedClient {
    fn progress(&self, _: CallProgress) {}

    fn log(&self, _: LogLine) {}

    fn trace_context(&self) -> Option<&TraceContext> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn trace_context_is_sent_to_named_hosts_only() {
    let named = json!({"telemetry": {
        "endpoint": "http://127.0.0.1:4318",
        "propagateTo": ["api.example", "*.internal.example:8443"],
    }});
    let unnamed = json!({"telemetry": {"endpoint": "http://127.0.0.1:4318"}});
    let sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (config, is_traced, expected) in [
        (named.clone(), true, [sent, sent, "-", "-", "-"]),
        (named, false, ["-"; 5]),
        (unnamed, true, ["-"; 5]),
        (json!({}), true, ["-"; 5]),
    ] {
        let mut reader = tool("reader");
        reader.backend = Arc::new(ReadsContexts);
        let bench = bench(vec![reader], config, ApprovalAnswer::No);
        let mut call = call("reader", json!({}));
        if is_traced {
            let context = TraceContext::parse(sent, None).unwrap();
            call.observer = Arc::new(TracedClient(context));
        }
        let outcome = bench.pipeline.call(call).await;
        assert!(
            outcome.text().contains(&expected.join(" ")),
            "{}",
            outcome.text()
        );
    }
}
