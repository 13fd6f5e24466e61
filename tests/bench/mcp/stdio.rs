//! The program as an agent starts it, over pipes: compared with rmcp alone started in the same way, and as a gateway
//! to that.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;

use super::bare;
use super::client::Client;
use super::workspace::{BenchWorkspace, MCP_TOOL};
use crate::measure::{Budget, Pace, Report, Row, median, time, timed};
use crate::subject::Subject;

/// Overhead of the protocol in a call, relative to a call of rmcp alone; and of the gateway, relative to a call of the
/// server behind it.
const ABOVE: f64 = 4.0;
const GATEWAY: f64 = 5.0;

const PACE: Pace = Pace {
    turn: 100,
    samples: 20,
    time: Duration::from_secs(2),
};

pub fn bench(report: &mut Report, runtime: &Runtime, subject: &Subject) {
    let fixture = BenchWorkspace::with_server();
    let serve = || tokio::process::Command::from(fixture.mimir(&["serve"]));
    let (mut ours, mut gateway, mut bare) = runtime.block_on(async {
        let bare = Client::start(bare::command("stdio")).await;
        (
            Client::start(serve()).await,
            Client::start(serve()).await,
            bare,
        )
    });
    // The first call compiles the plugin, or starts the configured server.
    runtime.block_on(async {
        ours.echo("echo", "hello").await;
        gateway.echo(MCP_TOOL, "hello").await;
    });
    let run = |client: &mut Client, tool: &str, times: u64| {
        timed(runtime, times, async || client.echo(tool, "hello").await)
    };
    let pair = report.pair(
        "mcp stdio",
        PACE,
        |times| run(&mut ours, "echo", times),
        |times| run(&mut bare, "echo", times),
    );
    report.row(Row {
        name: "`tools/call` of a trivial plugin over stdio, whole programs".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} rmcp alone, saying the same", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::Open,
    });
    let above = pair.ours - inside(runtime, subject);
    report.row(Row {
        name: "what MCP over stdio adds to a call".to_owned(),
        ours: time(above),
        reference: format!("{} rmcp alone, saying the same", time(pair.reference)),
        ratio: above / pair.reference,
        budget: Budget::AtMost(ABOVE),
    });
    let pair = report.pair(
        "mcp gateway",
        PACE,
        |times| run(&mut gateway, MCP_TOOL, times),
        |times| run(&mut bare, "echo", times),
    );
    report.row(Row {
        name: "a call of a server through the gateway".to_owned(),
        ours: time(pair.ours),
        reference: format!("{} the server itself", time(pair.reference)),
        ratio: pair.ratio(),
        budget: Budget::Open,
    });
    let adds = pair.ours - pair.reference;
    report.row(Row {
        name: "what the gateway adds to a call of a server".to_owned(),
        ours: time(adds),
        reference: format!("{} the server itself", time(pair.reference)),
        ratio: adds / pair.reference,
        budget: Budget::AtMost(GATEWAY),
    });
}

/// A call in this process: the median of many.
fn inside(runtime: &Runtime, subject: &Subject) -> f64 {
    let mut took: Vec<f64> = (0..1000)
        .map(|_| {
            let start = Instant::now();
            runtime.block_on(subject.call("echo", json!({"text": "hello"})));
            start.elapsed().as_secs_f64()
        })
        .collect();
    median(&mut took)
}
