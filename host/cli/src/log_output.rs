//! Log messages: as text or JSON on stderr, and to the collector of `telemetry` if logs are exported.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use clap::ValueEnum;
use mimir_core::Redactor;
use mimir_telemetry::LogSeverity;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::stderr_queue::StderrQueue;

/// The format of messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line: time, level, target, message and fields.
    Json,
}

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// The MCP library logs messages as received, including secrets. mimir itself reports what matters, with secrets masked.
const UNMASKED: &str = "rmcp";

/// The NATS library reports faults as events, too, of which mimir writes messages of its own.
const REPORTED_ELSEWHERE: &str = "async_nats";

/// Targets whose messages are not exported, because exporting them could cause further ones.
const NOT_EXPORTED: [&str; 8] = [
    "mimir_telemetry",
    "mimir_net",
    "hyper",
    "h2",
    "reqwest",
    "rustls",
    "tower",
    "want",
];

/// Sets up logging. Warnings go to stderr; `MIMIR_LOG` (such as `debug`, or `mimir_wasm=trace`) shows more.
/// `MIMIR_LOG_FORMAT=json` is the same as `format`.
pub fn set_up_logging(format: Option<LogFormat>) {
    let named = std::env::var("MIMIR_LOG_FORMAT");
    let named = named.is_ok_and(|name| name.eq_ignore_ascii_case("json"));
    let format = format.unwrap_or(if named {
        LogFormat::Json
    } else {
        LogFormat::Text
    });
    let _ = FORMAT.set(format);
    match std::env::var("MIMIR_LOG") {
        // Parsing a filter takes time, so it is only done on request.
        Ok(filter) if !filter.is_empty() => {
            let filter = EnvFilter::new(format!("{UNMASKED}=off,{filter}"));
            tracing_subscriber::registry()
                .with(StderrLayer::new(format, true))
                .with(ExportLayer)
                .with(filter)
                .init();
        }
        _ => {
            let filter = Targets::new()
                .with_default(LevelFilter::WARN)
                .with_target(UNMASKED, LevelFilter::OFF)
                .with_target(REPORTED_ELSEWHERE, LevelFilter::OFF);
            tracing_subscriber::registry()
                .with(StderrLayer::new(format, false))
                .with(ExportLayer)
                .with(filter)
                .init();
        }
    }
}

/// Returns true if messages on stderr are JSON.
pub fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Writes a message of the program itself as JSON.
pub fn write_message(level: Level, message: &str) {
    let plain = anstream::adapter::strip_str(message).to_string();
    write_json(level, "mimir", plain.trim_end(), &Map::new());
}

/// Writes one line. Secrets in known formats are masked once more.
fn write_json(level: Level, target: &str, message: &str, fields: &Map<String, Value>) {
    let mut line = json!({
        "time": format!("{:.3}", jiff::Timestamp::now()),
        "level": level.as_str(),
        "target": target,
        "message": message,
    });
    if !fields.is_empty() {
        line["fields"] = Value::Object(fields.clone());
    }
    Redactor::new().mask_value(&mut line);
    // A single write, so that lines of several threads do not mix.
    let _ = StderrQueue.write_all(format!("{line}\n").as_bytes());
}

/// Writes messages to stderr.
struct StderrLayer<S> {
    text: Option<Box<dyn Layer<S> + Send + Sync>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> StderrLayer<S> {
    /// Creates the layer. `is_detailed` also shows time and target of each message as text.
    fn new(format: LogFormat, is_detailed: bool) -> Self {
        if format == LogFormat::Json {
            return Self { text: None };
        }
        let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(StderrQueue::default)
            .with_ansi(ansi);
        Self {
            text: Some(if is_detailed {
                layer.boxed()
            } else {
                layer.without_time().with_target(false).boxed()
            }),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for StderrLayer<S> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if let Some(text) = &self.text {
            return text.on_event(event, context);
        }
        let metadata = event.metadata();
        let message = EventText::read(event);
        write_json(
            *metadata.level(),
            metadata.target(),
            &message.message,
            &message.fields,
        );
    }

    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        context: Context<'_, S>,
    ) {
        if let Some(text) = &self.text {
            text.on_new_span(attributes, id, context);
        }
    }
}

/// Exports warnings and errors if `telemetry.signals` contains `logs`.
struct ExportLayer;

impl<S: Subscriber> Layer<S> for ExportLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let severity = match *metadata.level() {
            Level::ERROR => LogSeverity::Error,
            Level::WARN => LogSeverity::Warn,
            _ => return,
        };
        let target = metadata.target();
        let is_below = |name: &str| {
            let rest = target.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        if NOT_EXPORTED.iter().any(|name| is_below(name)) || !mimir::telemetry::exports_logs() {
            return;
        }
        let EventText { message, fields } = EventText::read(event);
        let fields = fields.iter().map(|(name, value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            value => format!(" {name}={value}"),
        });
        let message = format!("{message}{}", fields.collect::<String>());
        mimir::telemetry::export_log(severity, target, &message);
    }
}

/// The message and the fields of an event.
#[derive(Default)]
struct EventText {
    message: String,
    fields: Map<String, Value>,
}

impl EventText {
    fn read(event: &Event<'_>) -> Self {
        let mut text = Self::default();
        event.record(&mut text);
        text
    }

    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, Value::String(value.to_string()));
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}
