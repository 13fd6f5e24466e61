//! Traces, metrics and logs of calls for OpenTelemetry collectors, sent as OTLP over HTTP in JSON.
