//! Overhead of an agent's turn, without the model's own time: the request in the provider's format, the streamed
//! response, a call through the whole pipeline, and the result added to the conversation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mimir_agent::protocol::ProviderProtocol;
use mimir_agent::{
    Agent, AgentEvent, AgentEventSink, Conversation, Message, Model, ModelError, ModelReply,
    ModelRequest, TaskEnd,
};
use mimir_core::BoxFuture;
use mimir_core::config::{AgentBudget, ProviderApi};
use serde_json::{Value, json};

use crate::measure::{Budget as Allowed, Pace, Report, Row, time, timed};
use crate::subject::Subject;

/// A turn without the time of the model, relative to a call.
const TURN: f64 = 20.0;

/// Turns of one task. The conversation grows with each, and all of it is sent again.
const TURNS: u64 = 40;

/// A model that responds at once: with a call, until the task has had its turns.
struct Instant(AtomicU64);

impl Instant {
    fn events(at: u64) -> Vec<Value> {
        let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        let mut events: Vec<Value> = (0..20)
            .map(|_| delta(json!({"content": "some words "})))
            .collect();
        let last = at.is_multiple_of(TURNS);
        if !last {
            let arguments = json!({"text": "hello"}).to_string();
            events.push(delta(
                json!({"tool_calls": [{"index": 0, "id": format!("call_{at}"), "type": "function",
                "function": {"name": "echo", "arguments": arguments}}]}),
            ));
        }
        let why = if last { "stop" } else { "tool_calls" };
        events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": why}]}));
        events.push(
            json!({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 50}}),
        );
        events
    }
}

impl Model for Instant {
    fn name(&self) -> &str {
        "bench/instant"
    }

    fn answer<'a>(
        &'a self,
        ask: ModelRequest<'a>,
        on: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let at = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let protocol = ProviderProtocol::new(ProviderApi::Openai, "http://127.0.0.1/");
        let body = serde_json::to_vec(&protocol.build_request("instant", &ask)).unwrap();
        std::hint::black_box(body);
        let mut reader = protocol.new_reader();
        for event in Self::events(at) {
            reader.read_event(&event.to_string(), on).unwrap();
        }
        Box::pin(std::future::ready(Ok(reader.finish().unwrap())))
    }
}

/// A reader of all events, as `mimir run --json` writes them.
struct Reads;

impl AgentEventSink for Reads {
    fn handle_event(&self, event: AgentEvent<'_>) {
        std::hint::black_box(serde_json::to_string(&event).unwrap());
    }
}

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let subject = runtime.block_on(Subject::with_plugins(
        [("echo".to_owned(), crate::guests::ECHO.bytes())],
        crate::calls::settings(),
    ));
    let agent = Agent {
        model: Arc::new(Instant(AtomicU64::new(0))),
        pipeline: subject.pipeline().clone(),
        system: "Be brief. ".repeat(100),
        budget: AgentBudget {
            tokens: u64::MAX / 4,
            turns: TURNS + 1,
            ..AgentBudget::default()
        },
        price: None,
        tools: None,
        parent: None,
        session_budget: None,
    };
    let task = |times| {
        timed(&runtime, times, async || {
            let mut talk = Conversation::new("bench", "");
            talk.messages.push(Message::user("do it"));
            let ended = agent.run_task(&mut talk, &Reads).await;
            assert_eq!(ended, Ok(TaskEnd::Finished));
            assert_eq!(talk.spent.turns, TURNS);
        })
    };
    task(1);
    let pace = Pace {
        turn: 2,
        samples: 15,
        time: Duration::from_secs(3),
    };
    let pair = report.pair("agent", pace, task, |times| {
        timed(&runtime, times, async || {
            subject.call("echo", json!({"text": "hello"})).await;
        })
    });
    #[expect(clippy::cast_precision_loss, reason = "a few dozen")]
    let turn = pair.ours / TURNS as f64;
    report.row(Row {
        name: "a turn of an agent, beside the model's time".to_owned(),
        ours: time(turn),
        reference: format!("{} a call", time(pair.reference)),
        ratio: turn / pair.reference,
        budget: Allowed::AtMost(TURN),
    });
}
