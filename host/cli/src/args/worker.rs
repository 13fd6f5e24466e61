//! Arguments of `mimir worker`, and of servers in a cluster.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::{ClusterOptions, pair};
use crate::log_output::LogFormat;

/// Arguments of `mimir worker`.
#[derive(Debug, PartialEq, Args)]
pub struct WorkerArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Name of the workspace, by which servers select workers [default: the name of its folder]
    #[arg(long, value_name = "NAME", value_parser = workspace_name)]
    pub workspace_name: Option<String>,
    /// Format of messages on stderr [default: text, or json with MIMIR_LOG_FORMAT=json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// A label, for tools that need a certain worker; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub labels: Vec<(String, String)>,
    /// Maximum number of calls that run at a time [default: 4 for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub capacity: Option<u32>,
    /// Serve /healthz, /readyz and /metrics over HTTP on this address: PORT (this machine only), or IP:PORT
    #[arg(long, value_name = "ADDR", value_parser = super::serve::address)]
    pub http_status: Option<SocketAddr>,
    /// Seconds that running calls have to end after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub drain_timeout: Duration,
}

/// Options of a server that is one of several, and whose calls may run on workers.
#[derive(Debug, Default, PartialEq, Args)]
pub struct ReplicaArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Run the calls on the workers of the cluster (`mimir worker`) instead of in this process
    #[arg(long)]
    pub pool: bool,
    /// Name of the workspace in the cluster [default: the name of its folder]
    #[arg(long, value_name = "NAME", value_parser = workspace_name)]
    pub workspace_name: Option<String>,
    /// Accept workers whose workspaces have the same name and different content
    #[arg(long, requires = "pool")]
    pub workspace_any_content: bool,
    /// Seconds that running requests have to end after SIGTERM, with --http
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub drain_timeout: Duration,
}

/// Maximum length of the name of a workspace.
const NAME_MAX: usize = 64;

/// Parses the name of a workspace.
pub(super) fn workspace_name(text: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(is_valid) {
        return Err(format!(
            "expected 1 to {NAME_MAX} letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(text.to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) if seconds <= 86_400 => Ok(Duration::from_secs(seconds.into())),
        _ => Err("expected seconds: a number from 0 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_names_are_limited() {
        for valid in ["main", "acme_web.v2", "A-1"] {
            assert_eq!(workspace_name(valid).as_deref(), Ok(valid));
        }
        for invalid in ["", "a b", "a/b", "a*", "ä", &"x".repeat(65)] {
            assert!(workspace_name(invalid).is_err(), "{invalid}");
        }
    }
}
