//! Latency and throughput of a writer. Prints figures, and asserts none of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, event};
use crate::nats_server::NatsServer;

/// Number of calls of all callers.
const CALLS: usize = 6400;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; needs nats-server"]
async fn latency_of_announcements_and_records() {
    let server = NatsServer::start();
    let node = Arc::new(TestNode::start(&server.url()).await);
    for callers in [1, 64, 256] {
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..callers {
            let node = Arc::clone(&node);
            tasks.spawn(async move {
                let mut times = Vec::new();
                for call in 0..CALLS / callers {
                    let event = event(&format!("{callers}-{caller}-{call}"));
                    let start = Instant::now();
                    node.sink.announce(&event).await.unwrap();
                    let announced = start.elapsed();
                    node.sink.record_with_others(&event).await.unwrap();
                    times.push((announced, start.elapsed() - announced));
                }
                times
            });
        }
        let times: Vec<(Duration, Duration)> =
            tasks.join_all().await.into_iter().flatten().collect();
        let rate = 2.0 * times.len() as f64 / began.elapsed().as_secs_f64();
        let (announce, record) = times.into_iter().unzip();
        println!(
            "{callers:3} callers: announce {}, record {}, {rate:.0} lines/s",
            percentiles(announce),
            percentiles(record)
        );
    }
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_micros();
    format!("p50 {} µs p99 {} µs", at(50), at(99))
}
