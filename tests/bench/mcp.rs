//! MCP: lists in this process, calls of the whole program over stdio and HTTP, and calls of a third-party server
//! through it. Each is compared with a plain rmcp server that does the same.

use std::sync::Arc;
use std::time::Duration;

use mimir_core::BoxFuture;
use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_mcp::{ApprovalOptions, ToolServer};
use mimir_wasm::SystemClock;
use rmcp::ServiceExt as _;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::calls::settings;
use crate::guests;
use crate::list;
use crate::measure::{Budget, Pace, Report, Row, time, timed};
use crate::subject::Subject;

pub mod bare;
mod client;
pub mod http;
mod stdio;
pub mod workspace;

use bare::Bare;
use client::Client;

/// More tools than any model gets at a time.
const TOOLS: usize = 200;

/// Their list, relative to that of rmcp alone.
const LIST: f64 = 0.2;

/// Buffer size for the longest list.
const PIPE: usize = 1 << 20;

/// Approval handler for benches, where no person is available.
struct NoApprover;

impl Approver for NoApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::No))
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
    lists(report, &runtime, &mut ours, &mut bare);
    stdio::bench(report, &runtime, &subject);
    http::bench(report);
}

/// A client of mimir, and one of rmcp alone with the same list.
async fn clients(subject: &Subject) -> (Client, Client) {
    let pipeline = subject.pipeline().clone();
    let tools = pipeline.snapshot();
    let tools = tools.registry.tools().iter();
    let tools = tools.map(|tool| mimir_mcp::definition(tool)).collect();
    let bare = Bare(Arc::new(tools));
    let asking = ApprovalOptions {
        next: Arc::new(NoApprover),
        timeout: None,
        clock: Arc::new(SystemClock),
    };
    let server = ToolServer::new(pipeline, asking, Arc::new(|_: &str, _: &_| {}));
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let never = std::future::pending();
        server.serve(reader, writer, never).await
    });
    let (other, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move { bare.serve(theirs).await.unwrap().waiting().await });
    (Client::of(ours).await, Client::of(other).await)
}

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
        budget: Budget::AtMost(LIST),
    });
}
