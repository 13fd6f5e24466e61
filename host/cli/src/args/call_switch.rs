//! Arguments of `mimir stop` and `mimir start`.

use clap::Args;

use super::ClusterOptions;

/// Arguments of `mimir stop`.
#[derive(Debug, PartialEq, Args)]
pub struct StopArgs {
    /// Refuse all calls of all workspaces
    #[arg(long, required = true)]
    pub all: bool,
    /// Reason, which refused calls name
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// Arguments of `mimir start`.
#[derive(Debug, PartialEq, Args)]
pub struct StartArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: ClusterOptions,
}
