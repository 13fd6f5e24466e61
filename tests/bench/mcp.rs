//! The same call over MCP: beside a bare rmcp server that does the same, and beside the call in process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::approval::{Answer, Approver, Card};
use mimir_core::{BoxFuture, Call, CallContext, RequestId};
use mimir_mcp::{Asking, Server};
use mimir_wasm::SystemClock;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::runtime::Runtime;

use crate::calls::settings;
use crate::guests;
use crate::list;
use crate::measure::{Budget, Pace, Report, Row, median, time, timed};
use crate::subject::Subject;

/// More tools than any model is given at a time.
const TOOLS: usize = 200;

/// Nobody is asked in a bench.
struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::No))
    }
}

/// rmcp alone, with the same tools, one of which says what it was told.
struct Bare(Vec<Tool>);

impl ServerHandler for Bare {
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = Value::Object(request.arguments.unwrap_or_default()).to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }
}

/// A client that has shaken hands.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

/// Room for the longest list.
const PIPE: usize = 1 << 20;

impl Client {
    async fn new(stream: DuplexStream) -> Self {
        let (from, to) = tokio::io::split(stream);
        let from = BufReader::new(from).lines();
        let mut client = Self { to, from };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}});
        client.request("initialize", hello).await;
        client
    }

    async fn request(&mut self, method: &str, params: Value) -> String {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let line = format!("{request}\n");
        self.to.write_all(line.as_bytes()).await.unwrap();
        let answer = self.from.next_line().await.unwrap().unwrap();
        assert!(answer.contains("\"result\""), "{answer}");
        answer
    }
}

pub fn bench(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let plugins = (0..TOOLS).map(|n| (format!("plugin_{n}"), list::plugin(n)));
    let plugins = plugins.chain([("echo".to_owned(), guests::ECHO.bytes())]);
    let subject = runtime.block_on(Subject::with_plugins(plugins, settings()));
    let (mut ours, mut bare) = runtime.block_on(clients(&subject));
    calls(report, &runtime, &subject, &mut ours, &mut bare);
    lists(report, &runtime, &mut ours, &mut bare);
}

/// A client of mimir, and one of rmcp alone with the same list.
async fn clients(subject: &Subject) -> (Client, Client) {
    let pipeline = subject.pipeline().clone();
    let tools = pipeline.world();
    let tools = tools.registry.tools().iter();
    let bare = Bare(tools.map(|tool| mimir_mcp::definition(tool)).collect());
    let asking = Asking {
        next: Arc::new(Nobody),
        timeout: None,
        clock: Arc::new(SystemClock),
    };
    let server = Server::new(pipeline, asking, Arc::new(|_: &str, _: &_| {}));
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let never = std::future::pending();
        server.serve(reader, writer, never).await
    });
    let (other, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move { bare.serve(theirs).await.unwrap().waiting().await });
    (Client::new(ours).await, Client::new(other).await)
}

fn calls(
    report: &mut Report,
    runtime: &Runtime,
    subject: &Subject,
    ours: &mut Client,
    bare: &mut Client,
) {
    let arguments = json!({"text": "hello"});
    let params = json!({"name": "echo", "arguments": arguments});
    let run = |client: &mut Client, times: u64| {
        timed(runtime, times, async || {
            client.request("tools/call", params.clone()).await;
        })
    };
    let pace = Pace {
        turn: 100,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "mcp calls",
        pace,
        |times| run(ours, times),
        |times| run(bare, times),
    );
    report.row(Row {
        name: "`tools/call` of a trivial plugin".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} rmcp alone, saying the same", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::Open,
    });
    let mut inside: Vec<f64> = (0..1000)
        .map(|_| {
            let context = CallContext {
                request_id: RequestId::new(std::time::SystemTime::now()),
                session_id: "bench".to_owned(),
                conversation_id: None,
                user: None,
            };
            let call = Call::new("echo", arguments.clone(), context);
            let start = Instant::now();
            runtime.block_on(subject.pipeline().call(call));
            start.elapsed().as_secs_f64()
        })
        .collect();
    let above = pair.ours - median(&mut inside);
    report.row(Row {
        name: "what the protocol adds to a call".to_owned(),
        ours: time(above),
        reference: format!("{} is the budget", time(ABOVE)),
        ratio: above / ABOVE,
        budget: Budget::AtMost(1.0),
    });
}

/// What the protocol may add to a call, and how long a list may take, in seconds.
const ABOVE: f64 = 0.5e-3;
const LIST: f64 = 2e-3;

fn lists(report: &mut Report, runtime: &Runtime, ours: &mut Client, bare: &mut Client) {
    let run = |client: &mut Client, times: u64| {
        timed(runtime, times, async || {
            client.request("tools/list", json!({})).await;
        })
    };
    let pace = Pace {
        turn: 20,
        samples: 20,
        time: Duration::from_secs(2),
    };
    let pair = report.pair(
        "mcp lists",
        pace,
        |times| run(ours, times),
        |times| run(bare, times),
    );
    report.row(Row {
        name: format!("`tools/list` of {TOOLS} tools"),
        ours: time(pair.ours),
        reference: format!("{} rmcp alone", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::Open,
    });
    report.row(Row {
        name: format!("`tools/list` of {TOOLS} tools, all of it"),
        ours: time(pair.ours),
        reference: format!("{} is the budget", time(LIST)),
        ratio: pair.ours / LIST,
        budget: Budget::AtMost(1.0),
    });
}
