//! Arguments of `mimir approvals`.

use clap::Subcommand;

/// Commands of `mimir approvals`.
#[derive(Debug, Default, PartialEq, Subcommand)]
pub enum ApprovalsCommand {
    /// List the stored approvals of this workspace
    #[default]
    List,
    /// Revoke approvals
    Revoke {
        /// IDs, as the list shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// All approvals
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
}
