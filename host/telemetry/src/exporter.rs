//! The thread that sends spans, metrics, logs and alarms.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::alarm::Alarm;
use crate::channel::{Channel, ChannelLimits};
use crate::log_record::LogRecord;
use crate::metric_store::{MetricSnapshot, MetricStore};
use crate::span::Span;
use crate::telemetry::{ExportSignals, TelemetryOptions};
use crate::transport::{TelemetryRequest, TelemetryTransport};

/// Time between two exports of metrics, as OpenTelemetry's SDKs have it.
const METRIC_INTERVAL: Duration = Duration::from_secs(60);

/// Limits of the spans and the log records. A span takes about a kilobyte.
const ITEM_LIMITS: ChannelLimits = ChannelLimits {
    capacity: 4096,
    batch: 512,
    delay: Duration::from_secs(1),
    attempts: 5,
    request_timeout: Duration::from_secs(10),
    first_backoff: Duration::from_secs(1),
};

/// Limits of the metrics: new values replace those that could not be sent.
const METRIC_LIMITS: ChannelLimits = ChannelLimits {
    capacity: 1,
    batch: 1,
    attempts: 2,
    ..ITEM_LIMITS
};

/// Limits of the alarms, each of which is a request.
const ALARM_LIMITS: ChannelLimits = ChannelLimits {
    capacity: 256,
    batch: 1,
    attempts: 8,
    ..ITEM_LIMITS
};

/// Maximum age of an alarm after which an equal one is sent again.
const ALARM_REPEAT: Duration = Duration::from_secs(60);

/// Maximum number of alarms that are remembered to suppress equal ones.
const ALARMS_MAX: usize = 1024;

/// The queues of the thread. Dropping it ends the thread.
pub(crate) struct Exporter {
    spans: Option<Arc<Channel<Span>>>,
    logs: Option<Arc<Channel<LogRecord>>>,
    metric_values: Option<Arc<Channel<Vec<MetricSnapshot>>>>,
    alarms: Option<Arc<Channel<Alarm>>>,
    recent_alarms: parking_lot::Mutex<Vec<(Instant, Alarm)>>,
    store: Arc<MetricStore>,
}

impl Exporter {
    /// Starts the thread. `None` if nothing is to be exported, or if the thread cannot be started.
    pub(crate) fn start(options: TelemetryOptions, store: &Arc<MetricStore>) -> Option<Self> {
        if options.collector.is_none() && options.webhook.is_none() {
            return None;
        }
        let signals = options.collector.as_ref().map(|(_, signals)| *signals);
        let first_backoff = options.first_backoff;
        let limited = |limits: ChannelLimits| ChannelLimits {
            first_backoff: first_backoff.unwrap_or(limits.first_backoff),
            ..limits
        };
        let wants = |is_wanted: fn(&ExportSignals) -> bool| signals.as_ref().is_some_and(is_wanted);
        let exporter = Self {
            spans: wants(|signals| signals.traces)
                .then(|| channel("traces", limited(ITEM_LIMITS), store)),
            logs: wants(|signals| signals.logs)
                .then(|| channel("logs", limited(ITEM_LIMITS), store)),
            metric_values: wants(|signals| signals.metrics)
                .then(|| channel("metrics", limited(METRIC_LIMITS), store)),
            alarms: (options.webhook.is_some())
                .then(|| channel("alarms", limited(ALARM_LIMITS), store)),
            recent_alarms: parking_lot::Mutex::default(),
            store: Arc::clone(store),
        };
        let thread = ExportThread {
            spans: exporter.spans.clone(),
            logs: exporter.logs.clone(),
            metric_values: exporter.metric_values.clone(),
            alarms: exporter.alarms.clone(),
            store: Arc::clone(store),
            options,
        };
        let builder = std::thread::Builder::new().name("mimir-telemetry".to_owned());
        match builder.spawn(move || thread.run()) {
            Ok(_) => Some(exporter),
            Err(error) => {
                tracing::warn!(%error, "telemetry is off: its thread cannot be started");
                None
            }
        }
    }

    pub(crate) const fn has_traces(&self) -> bool {
        self.spans.is_some()
    }

    pub(crate) const fn has_logs(&self) -> bool {
        self.logs.is_some()
    }

    pub(crate) fn span(&self, span: Span) {
        if let Some(spans) = &self.spans {
            spans.push(span);
        }
    }

    pub(crate) fn log(&self, record: LogRecord) {
        if let Some(logs) = &self.logs {
            logs.push(record);
        }
    }

    /// Sends an alarm, unless an equal one was sent a short time ago: a tool may read a planted file in a loop.
    pub(crate) fn alarm(&self, alarm: Alarm) {
        let Some(alarms) = &self.alarms else {
            return;
        };
        let mut recent = self.recent_alarms.lock();
        recent.retain(|(sent, _)| sent.elapsed() < ALARM_REPEAT);
        if recent.iter().any(|(_, sent)| sent.is_repeated_by(&alarm)) {
            return;
        }
        if recent.len() < ALARMS_MAX {
            recent.push((Instant::now(), alarm.clone()));
        }
        drop(recent);
        alarms.push(alarm);
    }

    /// Sends what waits, with the current metrics, until the deadline.
    pub(crate) fn flush(&self, deadline: Instant) -> bool {
        if let Some(values) = &self.metric_values {
            values.push(self.store.snapshot());
        }
        let alarms = self.alarms.as_ref().map(|it| (it, it.begin_flush()));
        let spans = self.spans.as_ref().map(|it| (it, it.begin_flush()));
        let logs = self.logs.as_ref().map(|it| (it, it.begin_flush()));
        let values = self.metric_values.as_ref();
        let values = values.map(|it| (it, it.begin_flush()));
        has_ended(alarms, deadline)
            & has_ended(spans, deadline)
            & has_ended(logs, deadline)
            & has_ended(values, deadline)
    }
}

/// Waits for the flush of a channel, if there is one.
fn has_ended<T>(flush: Option<(&Arc<Channel<T>>, u64)>, deadline: Instant) -> bool {
    flush.is_none_or(|(channel, number)| channel.wait_for_flush(number, deadline))
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.spans.iter().for_each(|channel| channel.close());
        self.logs.iter().for_each(|channel| channel.close());
        self.metric_values
            .iter()
            .for_each(|channel| channel.close());
        self.alarms.iter().for_each(|channel| channel.close());
    }
}

fn channel<T>(
    signal: &'static str,
    limits: ChannelLimits,
    store: &Arc<MetricStore>,
) -> Arc<Channel<T>> {
    Arc::new(Channel::new(signal, limits, Arc::clone(store)))
}

struct ExportThread {
    spans: Option<Arc<Channel<Span>>>,
    logs: Option<Arc<Channel<LogRecord>>>,
    metric_values: Option<Arc<Channel<Vec<MetricSnapshot>>>>,
    alarms: Option<Arc<Channel<Alarm>>>,
    store: Arc<MetricStore>,
    options: TelemetryOptions,
}

impl ExportThread {
    fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.send_all()),
            Err(error) => tracing::warn!(%error, "telemetry is off: no runtime can be created"),
        }
    }

    async fn send_all(self) {
        let resource = &self.options.resource;
        let collector = self.options.collector.as_ref();
        let collector = collector.map(|(transport, _)| &**transport);
        let post = |path, body| TelemetryRequest { path, body };
        let traces = run(&self.spans, collector, |spans: &[Span]| {
            post("/v1/traces", resource.traces(spans))
        });
        let logs = run(&self.logs, collector, |records: &[LogRecord]| {
            post("/v1/logs", resource.logs(records))
        });
        let started = self.store.started;
        let metrics = run(
            &self.metric_values,
            collector,
            |values: &[Vec<MetricSnapshot>]| {
                let values = values.last().map(Vec::as_slice).unwrap_or_default();
                post(
                    "/v1/metrics",
                    resource.metrics(values, started, SystemTime::now()),
                )
            },
        );
        let webhook = self.options.webhook.as_deref();
        let host = &self.options.host;
        let alarms = run(&self.alarms, webhook, |alarms: &[Alarm]| {
            let alarm = alarms.first().map(|alarm| alarm.to_json(host));
            post("", alarm.unwrap_or_default().to_string().into_bytes())
        });
        let ticks = async {
            let Some(values) = &self.metric_values else {
                return;
            };
            let interval = self.options.interval.unwrap_or(METRIC_INTERVAL);
            loop {
                tokio::time::sleep(interval).await;
                values.push(self.store.snapshot());
            }
        };
        tokio::select! {
            ((), (), (), ()) = async { tokio::join!(traces, logs, metrics, alarms) } => {}
            () = async { ticks.await; std::future::pending().await } => {}
        }
    }
}

/// Sends the items of a channel, if there is one, until it is closed.
async fn run<T>(
    channel: &Option<Arc<Channel<T>>>,
    transport: Option<&dyn TelemetryTransport>,
    encode: impl Fn(&[T]) -> TelemetryRequest,
) {
    if let (Some(channel), Some(transport)) = (channel, transport) {
        channel.run(transport, encode).await;
    }
}
