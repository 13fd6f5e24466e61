//! Real guests called through the MCP server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_core::{BoxFuture, ToolErrorCode};
use mimir_kit::{Arena, BOUND};
use mimir_mcp::{ApprovalOptions, ToolServer};
use mimir_testkit::{Value, json};
use mimir_wasm::SystemClock;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf};

use crate::guests;

/// An approval handler without a person.
struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::No))
    }
}

/// A client of a server with the guests of this arena, after the handshake.
struct Client {
    to: tokio::io::WriteHalf<DuplexStream>,
    from: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Client {
    async fn of(arena: &Arena) -> Self {
        let asking = ApprovalOptions {
            next: Arc::new(Nobody),
            timeout: None,
            clock: Arc::new(SystemClock),
        };
        let pipeline = arena.kit().pipeline().clone();
        let server = ToolServer::new(pipeline, asking, Arc::new(|_: &str, _: &_| {}));
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        tokio::spawn(async move {
            let never = std::future::pending();
            server.serve(reader, writer, never).await
        });
        let (from, to) = tokio::io::split(ours);
        let from = BufReader::new(from).lines();
        let mut client = Self { to, from };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        client.send(Some(1), "initialize", hello).await;
        client.answer(1).await;
        client
    }

    async fn send(&mut self, id: Option<u64>, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = id.into();
        }
        let line = format!("{message}\n");
        self.to.write_all(line.as_bytes()).await.unwrap();
    }

    /// The response to a request, and the number of notifications before it.
    async fn answer(&mut self, id: u64) -> (Value, usize) {
        let mut others = 0;
        loop {
            let line = tokio::time::timeout(4 * BOUND, self.from.next_line()).await;
            let line = line.expect("an answer in time").unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return (message, others);
            }
            others += 1;
        }
    }
}

/// Time within which a guest has to stop, also on a busy machine.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn mcp_cancel_stops_a_computing_guest() {
    let arena = Arena::new(guests::INFINITE_LOOP).limits(json!({"timeMs": 60_000}));
    let kit = arena.kit();
    let mut took = Vec::new();
    kit.block_on(async {
        let mut client = Client::of(&arena).await;
        // The first call compiles the guest.
        let quick = json!({"name": "infinite_loop", "arguments": {"how": "quick"}});
        client.send(Some(2), "tools/call", quick).await;
        client.answer(2).await;
        for id in 3..10 {
            let calls = kit.events().len();
            let call = json!({"name": "infinite_loop", "arguments": {}});
            client.send(Some(id), "tools/call", call).await;
            tokio::time::sleep(Duration::from_millis(250)).await;
            let since = Instant::now();
            let cancel = json!({"requestId": id});
            client.send(None, "notifications/cancelled", cancel).await;
            while kit.events().len() == calls {
                assert!(since.elapsed() < BOUND, "it goes on");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            took.push(since.elapsed());
            assert_eq!(
                kit.events().last().unwrap().code,
                Some(ToolErrorCode::Cancelled)
            );
        }
    });
    // Other tests use the processor, too, so a single slow sample is ignored.
    took.sort();
    assert!(took[took.len() / 2] < SOON, "{took:?}");
}

#[test]
fn mcp_protocol_survives_log_and_stdout_floods() {
    for (guest, most) in [(guests::LOG_FLOOD, 5_000), (guests::STDOUT_GIGABYTE, 5_000)] {
        // Finished or stopped: only the number of notifications matters.
        let arena = Arena::new(guest).limits(json!({"timeMs": 8_000}));
        arena.kit().block_on(async {
            let mut client = Client::of(&arena).await;
            let level = json!({"level": "debug"});
            client.send(Some(2), "logging/setLevel", level).await;
            client.answer(2).await;
            let meta = json!({"progressToken": 1});
            let call = json!({"name": guest.name, "arguments": {}, "_meta": meta});
            client.send(Some(3), "tools/call", call).await;
            let (_, others) = client.answer(3).await;
            assert!(others < most, "{}: {others}", guest.name);
            let echo = json!({"name": "echo", "arguments": {"still": "here"}});
            client.send(Some(4), "tools/call", echo).await;
            let (echoed, _) = client.answer(4).await;
            let text = echoed["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(r#"{"still":"here"}"#), "{echoed}");
        });
    }
}
