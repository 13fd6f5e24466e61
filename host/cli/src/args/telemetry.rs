//! Arguments of `mimir telemetry`.

use clap::Subcommand;

/// Commands of `mimir telemetry`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum TelemetryCommand {
    /// Print a dashboard for Grafana, with the metrics that Prometheus scrapes from `mimir serve --http`
    Dashboard,
}
