use std::sync::atomic::{AtomicUsize, Ordering};

use mimir_core::BoxFuture;

use crate::metric_store::SeriesValue;

use super::*;

/// A collector that answers with these statuses, then with the last one again. Status 0 never answers.
struct ScriptedCollector {
    statuses: Vec<u16>,
    requests: AtomicUsize,
    bodies: Mutex<Vec<Vec<u8>>>,
}

impl ScriptedCollector {
    fn new(statuses: &[u16]) -> Arc<Self> {
        Arc::new(Self {
            statuses: statuses.to_vec(),
            requests: AtomicUsize::new(0),
            bodies: Mutex::default(),
        })
    }
}

impl TelemetryTransport for ScriptedCollector {
    fn post(
        &self,
        request: TelemetryRequest,
    ) -> BoxFuture<'_, Result<TelemetryResponse, ToolError>> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let status = self.statuses[number.min(self.statuses.len() - 1)];
        Box::pin(async move {
            if status == 0 {
                std::future::pending::<()>().await;
            }
            if status == 200 {
                self.bodies.lock().push(request.body);
            }
            Ok(TelemetryResponse {
                status,
                retry_after: None,
                body: Vec::new(),
            })
        })
    }
}

const LIMITS: ChannelLimits = ChannelLimits {
    capacity: 4,
    batch: 2,
    delay: Duration::from_millis(1),
    attempts: 3,
    request_timeout: Duration::from_secs(60),
    first_backoff: Duration::from_millis(1),
};

struct RunningChannel {
    channel: Arc<Channel<u8>>,
    metrics: Arc<MetricStore>,
}

/// Starts the loop of a channel on a thread of its own.
fn start(limits: ChannelLimits, collector: &Arc<ScriptedCollector>) -> RunningChannel {
    let metrics = Arc::new(MetricStore::new(std::time::SystemTime::now()));
    let channel = Arc::new(Channel::new("traces", limits, Arc::clone(&metrics)));
    let (running, collector) = (Arc::clone(&channel), Arc::clone(collector));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(running.run(&*collector, |items: &[u8]| TelemetryRequest {
            path: "/v1/traces",
            body: items.to_vec(),
        }));
    });
    RunningChannel { channel, metrics }
}

impl RunningChannel {
    fn flush(&self, deadline: Instant) -> bool {
        let number = self.channel.begin_flush();
        self.channel.wait_for_flush(number, deadline)
    }

    fn dropped(&self) -> f64 {
        let all = self.metrics.snapshot();
        let mut all = all.iter();
        let dropped = all.find(|one| one.instrument == Instrument::TelemetryDropped);
        match dropped.map(|one| &one.series[0].value) {
            Some(SeriesValue::Number(number)) => *number,
            _ => 0.0,
        }
    }
}

impl Drop for RunningChannel {
    fn drop(&mut self) {
        self.channel.close();
    }
}

fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn channel_sends_items_in_batches_and_in_order() {
    let collector = ScriptedCollector::new(&[200]);
    let running = start(
        ChannelLimits {
            capacity: 100,
            ..LIMITS
        },
        &collector,
    );
    (0..7).for_each(|item| running.channel.push(item));
    assert!(running.flush(in_a_minute()));
    let bodies = collector.bodies.lock();
    assert!(bodies.iter().all(|body| body.len() <= 2), "{bodies:?}");
    assert_eq!(bodies.concat(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn channel_tries_again_when_the_collector_is_overloaded() {
    let collector = ScriptedCollector::new(&[503, 429, 200]);
    let running = start(LIMITS, &collector);
    running.channel.push(1);
    while collector.bodies.lock().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(collector.requests.load(Ordering::Relaxed), 3);
    assert_eq!(running.dropped(), 0.0);
}

#[test]
fn channel_gives_up_on_requests_that_are_refused() {
    let collector = ScriptedCollector::new(&[400]);
    let running = start(LIMITS, &collector);
    running.channel.push(1);
    assert!(running.flush(in_a_minute()));
    assert_eq!(collector.requests.load(Ordering::Relaxed), 1);
    assert_eq!(running.dropped(), 1.0);
}

#[test]
fn channel_to_a_collector_that_never_answers_drops_the_oldest_items() {
    let collector = ScriptedCollector::new(&[0]);
    let running = start(LIMITS, &collector);
    // Far more than fit. This ends only because `push` never waits.
    (0..200).for_each(|item| running.channel.push(item));
    assert!(running.dropped() >= 190.0, "{}", running.dropped());
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(!running.flush(soon), "nothing was sent");
    let state = running.channel.state.lock();
    assert_eq!(state.items.back(), Some(&199));
}

#[test]
fn channel_flush_does_not_wait_for_further_attempts() {
    let collector = ScriptedCollector::new(&[503]);
    let slow = ChannelLimits {
        first_backoff: Duration::from_secs(600),
        attempts: 9,
        ..LIMITS
    };
    let running = start(slow, &collector);
    running.channel.push(1);
    assert!(running.flush(in_a_minute()));
    assert_eq!(running.dropped(), 1.0);
}
