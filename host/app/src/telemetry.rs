//! Telemetry and alarms of this process, from the settings and from the standard variables of OpenTelemetry.
//!
//! Requests go through the guarded HTTP client. The endpoint and the webhook are allowed because a person has named them;
//! blocked hosts stay blocked. Changes of the settings apply after a restart.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use mimir_core::audit::AuditSink;
use mimir_core::config::{AlertSettings, TelemetrySettings, TelemetrySignal};
use mimir_core::redact::Vault;
use mimir_core::text::visible;
use mimir_core::{BoxFuture, Pipeline, ToolError};
use mimir_mcp::client::fill_secrets;
use mimir_net::{HostClient, RequestLimits};
use mimir_telemetry::{
    Attributes, ExportSignals, GaugeReading, Instrument, LogRecord, LogSeverity, MetricSnapshot,
    OtelVariables, Telemetry, TelemetryOptions, TelemetryRequest, TelemetryResource,
    TelemetryResponse, TelemetryTransport,
};
use parking_lot::Mutex;

use crate::interface::warn;
use crate::process_identity::machine_name;
use crate::servers;
use crate::settings::MergedSettings;

/// Telemetry that is shared by all setups with the same settings.
struct ActiveTelemetry {
    key: TelemetryKey,
    telemetry: Arc<Telemetry>,
    vault: Arc<dyn Vault>,
}

/// The settings that telemetry depends on.
#[derive(Debug, Clone, PartialEq)]
struct TelemetryKey {
    settings: Option<TelemetrySettings>,
    alerts: Option<AlertSettings>,
    root: PathBuf,
}

/// The telemetry of this process. It lasts until the end of the process, so that what waits can be sent at the end.
static ACTIVE: LazyLock<Mutex<Vec<ActiveTelemetry>>> = LazyLock::new(Mutex::default);

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: u64 = 64 << 10;

/// Starts telemetry if the settings or the environment ask for it, or if `collects_metrics` is true. Returns that of an
/// earlier call with the same settings. `None` if nothing is to be collected.
pub(crate) fn start(
    settings: &MergedSettings,
    root: &std::path::Path,
    vault: &Arc<dyn Vault>,
    collects_metrics: bool,
) -> Option<Arc<Telemetry>> {
    let variables = OtelVariables::read(|name| std::env::var(name).ok());
    let exported = exported(settings, &variables);
    let alerts = settings.config.alerts.clone();
    if exported.is_none() && alerts.is_none() && !collects_metrics {
        return None;
    }
    let key = TelemetryKey {
        settings: exported,
        alerts,
        root: root.to_owned(),
    };
    let mut active = ACTIVE.lock();
    if let Some(known) = active.iter().find(|known| known.key == key) {
        return Some(Arc::clone(&known.telemetry));
    }
    for problem in &variables.problems {
        warn(visible(problem));
    }
    let options = options(settings, &key, &variables, vault);
    let telemetry = Telemetry::start(options);
    active.push(ActiveTelemetry {
        key,
        telemetry: Arc::clone(&telemetry),
        vault: Arc::clone(vault),
    });
    Some(telemetry)
}

/// Returns the settings of the export, with the variables of the environment for what the settings leave open.
fn exported(settings: &MergedSettings, variables: &OtelVariables) -> Option<TelemetrySettings> {
    if variables.disabled {
        return None;
    }
    let from_variables = || {
        let endpoint = variables.endpoint.clone()?;
        let settings = TelemetrySettings {
            headers: variables.headers.clone(),
            ..TelemetrySettings::new(endpoint)
        };
        match settings.check() {
            Ok(()) => Some(settings),
            Err(why) => {
                let why = why.replace("telemetry.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT");
                warn(format_args!("telemetry is off: {}", visible(&why)));
                None
            }
        }
    };
    let mut exported = settings.config.telemetry.clone().or_else(from_variables)?;
    exported.interval_ms = exported.interval_ms.or(variables.interval_ms);
    for (name, value) in &variables.attributes {
        let attributes = &mut exported.attributes;
        attributes
            .entry(name.clone())
            .or_insert_with(|| value.clone());
    }
    if let Some(name) = &variables.service_name {
        let attributes = &mut exported.attributes;
        attributes
            .entry("service.name".to_owned())
            .or_insert_with(|| name.clone());
    }
    let is_off = |signal: &TelemetrySignal| {
        let name = match signal {
            TelemetrySignal::Traces => "traces",
            TelemetrySignal::Metrics => "metrics",
            TelemetrySignal::Logs => "logs",
        };
        variables.off.contains(&name)
    };
    exported.signals.retain(|signal| !is_off(signal));
    Some(exported)
}

fn options(
    settings: &MergedSettings,
    key: &TelemetryKey,
    variables: &OtelVariables,
    vault: &Arc<dyn Vault>,
) -> TelemetryOptions {
    let network = servers::without_project_network(settings);
    let open = |what: &str, url: &str, headers: &dyn Fn() -> Vec<(String, String)>| {
        let opened = GuardedEndpoint::open(&network, key, url, &headers(), &**vault);
        opened
            .inspect_err(|error| {
                warn(format_args!("{what} is off: {}", visible(&error.message)));
            })
            .ok()
            .map(|endpoint| Arc::new(endpoint) as Arc<dyn TelemetryTransport>)
    };
    let pairs = |pairs: &std::collections::BTreeMap<String, String>| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let collector = key.settings.as_ref().and_then(|exported| {
        let url = exported.endpoint.trim_end_matches('/');
        let transport = open("telemetry", url, &|| pairs(&exported.headers))?;
        let has = |signal| exported.signals.contains(&signal);
        let signals = ExportSignals {
            traces: has(TelemetrySignal::Traces),
            metrics: has(TelemetrySignal::Metrics),
            logs: has(TelemetrySignal::Logs),
        };
        Some((transport, signals))
    });
    let webhook = key.alerts.as_ref();
    let webhook =
        webhook.and_then(|alerts| open("alerts", &alerts.webhook, &|| pairs(&alerts.headers)));
    let exported = key.settings.as_ref();
    TelemetryOptions {
        collector,
        webhook,
        resource: resource(exported, variables),
        host: machine_name(),
        sample_ratio: exported.and_then(|exported| exported.sample_ratio),
        interval: exported
            .and_then(|exported| exported.interval_ms)
            .map(Duration::from_millis),
        first_backoff: None,
    }
}

/// Returns the attributes of this process.
fn resource(exported: Option<&TelemetrySettings>, variables: &OtelVariables) -> TelemetryResource {
    let mut attributes = Attributes::default();
    let service = variables.service_name.clone();
    attributes.set(
        "service.name",
        service.unwrap_or_else(|| "mimir".to_owned()),
    );
    attributes.set("service.version", env!("CARGO_PKG_VERSION"));
    // A new process is a new instance: its counters begin at zero.
    let instance = mimir_core::trace_context::TraceId::random().to_string();
    attributes.set("service.instance.id", instance);
    attributes.set("host.name", machine_name());
    attributes.set("process.pid", u64::from(std::process::id()));
    attributes.set("telemetry.sdk.language", "rust");
    attributes.set("telemetry.sdk.name", "mimir");
    attributes.set("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    for (name, value) in exported.into_iter().flat_map(|it| &it.attributes) {
        attributes.set(name.clone(), value.clone());
    }
    TelemetryResource(attributes)
}

/// Returns the audit log whose events are exported, if telemetry is on.
pub(crate) fn wrap(
    telemetry: Option<&Arc<Telemetry>>,
    audit: Arc<dyn AuditSink>,
) -> Arc<dyn AuditSink> {
    match telemetry {
        Some(telemetry) => telemetry.wrap(audit),
        None => audit,
    }
}

/// Exports the number of calls in a pipeline.
pub(crate) fn watch_pipeline(telemetry: &Telemetry, pipeline: &Pipeline) {
    let active_calls = pipeline.active_calls();
    telemetry.add_gauges(Arc::new(move || {
        vec![GaugeReading {
            instrument: Instrument::ActiveCalls,
            attributes: Vec::new(),
            value: active_calls.load(Ordering::Relaxed) as f64,
        }]
    }));
}

/// Returns the current metrics of this process.
pub fn metrics() -> Vec<MetricSnapshot> {
    let active = ACTIVE.lock();
    let active: Vec<_> = active.iter().map(|it| Arc::clone(&it.telemetry)).collect();
    // A server has a single setup.
    active.first().map(|it| it.metrics()).unwrap_or_default()
}

/// Sends what waits to be exported, for at most this time. Call it before the process ends.
pub fn flush(timeout: Duration) {
    let Some(active) = ACTIVE.try_lock() else {
        return;
    };
    for active in active.iter() {
        if !active.telemetry.flush(timeout) {
            tracing::debug!("telemetry was not sent in full before the end of the process");
        }
    }
}

/// Returns true if log messages of this process are exported.
pub fn exports_logs() -> bool {
    let active = ACTIVE.try_lock();
    active.is_some_and(|active| active.iter().any(|it| it.telemetry.exports_logs()))
}

/// Exports a log message of this process, with secrets masked. Messages of telemetry itself and of the HTTP client that
/// it uses must not be passed: they would cause further ones.
pub fn export_log(severity: LogSeverity, target: &str, message: &str) {
    // Not `lock`: a message may arrive while telemetry starts.
    let Some(active) = ACTIVE.try_lock() else {
        return;
    };
    for active in active.iter().filter(|it| it.telemetry.exports_logs()) {
        // A message that cannot be masked is not sent.
        let Ok(redactor) = active.vault.redactor() else {
            continue;
        };
        let mut body = message.to_owned();
        redactor.mask_text(&mut body);
        let mut attributes = Attributes::default();
        attributes.set("code.namespace", target.to_owned());
        active.telemetry.log(LogRecord {
            time: SystemTime::now(),
            severity,
            event: None,
            body,
            attributes,
            trace: None,
        });
    }
}

/// An endpoint that is reached through the guarded HTTP client.
struct GuardedEndpoint {
    client: HostClient,
    url: String,
    headers: HeaderMap,
}

impl GuardedEndpoint {
    fn open(
        settings: &MergedSettings,
        key: &TelemetryKey,
        url: &str,
        headers: &[(String, String)],
        vault: &dyn Vault,
    ) -> Result<Self, ToolError> {
        let client = servers::client(settings, &key.root, url)?.with_limits(RequestLimits {
            first_byte: REQUEST_TIMEOUT,
            between_bytes: REQUEST_TIMEOUT,
            whole: REQUEST_TIMEOUT,
            body_bytes: MAX_RESPONSE_SIZE,
            ..RequestLimits::default()
        });
        let mut sent = HeaderMap::new();
        sent.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let value = fill_secrets(value, vault)?;
            let invalid = || {
                let name = visible(name);
                ToolError::invalid_input(format!("the header `{name}` has an invalid value"))
            };
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            sent.insert(name, value);
        }
        Ok(Self {
            client,
            url: url.to_owned(),
            headers: sent,
        })
    }
}

impl TelemetryTransport for GuardedEndpoint {
    fn post(
        &self,
        request: TelemetryRequest,
    ) -> BoxFuture<'_, Result<TelemetryResponse, ToolError>> {
        Box::pin(async move {
            let url = format!("{}{}", self.url, request.path);
            let mut post = Request::post(url)
                .body(Bytes::from(request.body))
                .map_err(ToolError::internal)?;
            *post.headers_mut() = self.headers.clone();
            let response = self.client.fetch(post).await.map_err(ToolError::from)?;
            let retry_after = response.headers.get(RETRY_AFTER);
            let retry_after =
                retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            Ok(TelemetryResponse {
                status: response.status.as_u16(),
                retry_after: retry_after.map(Duration::from_secs),
                body: response.body.to_vec(),
            })
        })
    }
}
