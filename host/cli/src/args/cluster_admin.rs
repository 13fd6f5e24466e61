//! Arguments of `mimir cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::ClusterOptions;

/// Commands of `mimir cluster`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum ClusterCommand {
    /// Write keys, certificates and configuration of a new cluster into a folder
    #[command(after_help = "\
Writes the configuration of the NATS servers, a key for each role (front, worker, admin), certificates, a \
compose file, systemd units, Kubernetes manifests and a Helm chart. Refuses a folder with files in it. The \
README in the folder says how to start the cluster.

Examples:
  mimir cluster init cluster --host localhost           all on this machine
  mimir cluster init cluster --host a.example --host b.example --host c.example")]
    Init(ClusterInitArgs),
    /// Create the streams of the cluster in NATS, with the key of the role admin
    #[command(after_help = "\
Needed once, before servers and workers start. Running it again changes nothing, except for the number of \
replicas and the size of the audit log. A full audit log refuses calls.")]
    Setup(ClusterSetupArgs),
    /// Publish the settings, tools and skills of a workspace, and the bundles of your teams, to all nodes
    #[command(after_help = "\
Shows what changes and asks for confirmation. Nodes of this workspace use the published files instead of \
their own from then on, together with your grants and accepted settings. Nodes that are members of a team \
verify its bundle with their own keys, and never go back to an older one.

Examples:
  mimir cluster publish
  mimir cluster publish ~/project --workspace-name web
  mimir cluster publish --teams                     only the bundles of your teams, after `mimir team publish`")]
    Publish(ClusterPublishArgs),
    /// Show nodes, load, deployments and streams
    Status(ClusterStatusArgs),
}

/// Arguments of `mimir cluster init`.
#[derive(Debug, PartialEq, Args)]
pub struct ClusterInitArgs {
    /// The new folder
    #[arg(value_name = "DIR", default_value = "cluster", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Number of NATS servers: 1, or 3 to go on without one of them
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub servers: usize,
    /// Host of a NATS server, once for each, or once for all [default: nats-0, nats-1, …, as in the compose file]
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// First port of the NATS servers
    #[arg(long, value_name = "PORT", default_value_t = 4222, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
}

/// Arguments of `mimir cluster setup`.
#[derive(Debug, PartialEq, Args)]
pub struct ClusterSetupArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Replicas of each stream [default: 3, or 1 at a server that runs alone]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: Option<u8>,
    /// Maximum size of the audit log in GiB; it can only grow [default: 2]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    pub audit_size: Option<u32>,
}

/// Arguments of `mimir cluster publish`.
#[derive(Debug, PartialEq, Args)]
pub struct ClusterPublishArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// The workspace [default: that of this folder]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
    /// Name of the workspace in the cluster [default: the name of its folder]
    #[arg(long, value_name = "NAME", value_parser = super::workspace_name)]
    pub workspace_name: Option<String>,
    /// Publish only the bundles of your teams, after a check for newer ones
    #[arg(long, conflicts_with = "workspace_name")]
    pub teams: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `mimir cluster status`.
#[derive(Debug, PartialEq, Args)]
pub struct ClusterStatusArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
}
