//! The dashboard for Grafana.

/// A dashboard with the metrics of mimir as Prometheus scrapes them, in Grafana's JSON format.
pub const DASHBOARD: &str = include_str!("dashboard.json");
