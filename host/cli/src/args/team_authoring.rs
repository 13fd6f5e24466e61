//! Arguments of the commands of `mimir team` that make, review and publish bundles.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use mimir_core::needs::NeedKind;

use super::enum_value;
use super::tools::digest;

/// Commands of `mimir team` for administrators and authors of tools.
#[derive(Debug, PartialEq, Subcommand)]
pub enum TeamAuthoringCommand {
    /// Write a folder that a team's bundle is made from
    #[command(after_help = "\
Put the folder under version control. `mimir help team-admin` explains its files.

Example: mimir team init acme-team --org acme --name \"Acme engineering\"")]
    Init(TeamInitArgs),
    /// Add a tool to the catalog of a team's folder; `mimir team approve` reviews it
    #[command(after_help = "\
Examples:
  mimir team add registry.example.com/acme/weather:1.2
  mimir team add build/weather.wasm acme-team --enforced")]
    Add(TeamAddArgs),
    /// Remove a tool from the catalog of a team's folder
    Remove {
        /// File name of the tool in the catalog
        #[arg(value_name = "TOOL")]
        tool: String,
        /// The team's folder
        #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
    /// Propose an installed tool for the team: write what a reviewer must see
    #[command(after_help = "\
Writes three files: a page in Markdown, the same as JSON, and the component.

Examples:
  mimir team propose weather                       weather-DIGEST.md, .json and .wasm in this folder
  mimir team propose weather --to ../acme-team     into the proposals of a checkout of the team's folder")]
    Propose(TeamProposeArgs),
    /// Approve a proposal, or a tool of the catalog, after showing what it may do
    #[command(after_help = "\
Without a terminal, confirm with the review digest of component and rights, as the proposal has it:
  mimir team approve weather --sign acme --digest 9f86d081…")]
    Approve(TeamApproveArgs),
    /// Reject a proposal, or a tool of the catalog
    Reject(TeamRejectArgs),
    /// Sign the next bundle and publish it to a registry or a folder
    #[command(after_help = "\
Examples:
  mimir team publish acme-team registry.example.com/acme/team:prod --sign acme --dry-run
  mimir team publish acme-team /mnt/shared/acme-team --sign acme")]
    Publish(TeamPublishArgs),
}

/// Arguments of `mimir team init`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamInitArgs {
    /// The folder; it is created if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Id of the team: a-z, 0-9 and -
    #[arg(long, value_name = "ID")]
    pub org: String,
    /// Display name of the team
    #[arg(long, value_name = "NAME")]
    pub name: String,
}

/// Arguments of `mimir team add`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamAddArgs {
    /// A reference in a registry, or a component file
    #[arg(value_name = "REF|FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,
    /// The team's folder
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Keep members from disabling the tool
    #[arg(long)]
    pub enforced: bool,
}

/// Arguments of `mimir team propose`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamProposeArgs {
    /// Name or alias of the tool, name or path of its component, or folder of its plugin; it need not be loaded
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// The page to write; the JSON and the component get the same name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "to")]
    pub out: Option<PathBuf>,
    /// The team's folder, whose `proposals` get the files, and whose catalog the tool is compared with
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: Option<PathBuf>,
    /// Folder with the plugin's cases.yml, which are run and reported [default: a folder of the workspace with the name
    /// of the tool's file]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
}

/// Arguments of `mimir team approve`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamApproveArgs {
    /// A file of the proposal, its name in `proposals`, or the file name of a tool in the catalog
    #[arg(value_name = "PROPOSAL", value_hint = ValueHint::FilePath)]
    pub proposal: PathBuf,
    /// The team's folder
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Keep members from disabling the tool
    #[arg(long)]
    pub enforced: bool,
    /// Kinds of rights to withhold
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = enum_value::<NeedKind>([
        "files", "hosts", "commands", "secrets", "variables", "tools", "model",
    ]))]
    pub without: Vec<NeedKind>,
    /// Your key: a name from `mimir keys list`, or a file
    #[arg(long, value_name = "KEY")]
    pub sign: String,
    /// Review digest of the component and its rights, instead of a confirmation
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub digest: Option<String>,
    /// Approve the component without its reference in a registry, which then need not be reachable
    #[arg(long)]
    pub no_reference: bool,
    /// Note for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Arguments of `mimir team reject`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamRejectArgs {
    /// A file of the proposal, its name in `proposals`, or the file name of a tool in the catalog
    #[arg(value_name = "PROPOSAL", value_hint = ValueHint::FilePath)]
    pub proposal: PathBuf,
    /// The team's folder
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Your key: a name from `mimir keys list`, or a file
    #[arg(long, value_name = "KEY")]
    pub sign: String,
    /// Reason, for the author
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Arguments of `mimir team publish`.
#[derive(Debug, PartialEq, Args)]
pub struct TeamPublishArgs {
    /// The team's folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// A reference with a tag, or a folder, written as a path such as ./FOLDER
    #[arg(value_name = "REF|FOLDER")]
    pub target: String,
    /// Your key: a name from `mimir keys list`, or a file
    #[arg(long, value_name = "KEY")]
    pub sign: String,
    /// Show the difference to the published bundle, and publish nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Version of the bundle [default: one above the published one]
    #[arg(long, value_name = "NUMBER")]
    pub bundle_version: Option<u64>,
}
