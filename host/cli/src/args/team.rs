//! Arguments of `mimir team`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::TeamAuthoringCommand;

/// Commands of `mimir team`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum TeamCommand {
    /// Join a team: show its signed bundle, and put it in force after a yes
    #[command(after_help = "\
KEY is a file with the team's public key, or the name of a key of `mimir keys`.

Examples:
  mimir team join registry.example.com/acme/team:prod --key acme.pub
  mimir team join /mnt/shared/acme-team --key acme.pub --yes")]
    Join(TeamJoinArgs),
    /// Show the teams, their versions and ages, and what they enforce
    Status,
    /// Fetch the newest bundles of all teams
    Sync,
    /// Leave a team; its settings and tools are removed
    Leave {
        /// Id of the team, if there are several
        #[arg(value_name = "ORG")]
        org: Option<String>,
        /// Leave without a question
        #[arg(long)]
        yes: bool,
    },
    #[command(flatten)]
    Authoring(TeamAuthoringCommand),
}

/// Arguments of `mimir team join`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamJoinArgs {
    /// Reference of the bundle in a registry, or its folder
    #[arg(value_name = "REF|FOLDER", value_hint = ValueHint::AnyPath)]
    pub reference: String,
    /// The public key that signs the team's bundles; may be repeated
    #[arg(long, value_name = "KEY", required = true, value_hint = ValueHint::FilePath)]
    pub key: Vec<PathBuf>,
    /// Join without a question
    #[arg(long)]
    pub yes: bool,
}
