//! Arguments of `mimir approvals`.

use clap::{Args, Subcommand, ValueEnum};
use mimir_core::ApprovalAnswer;

use super::ClusterScope;

/// Commands of `mimir approvals`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum ApprovalsCommand {
    /// List the stored approvals of this workspace
    List(ClusterScope),
    /// Revoke approvals
    Revoke {
        /// IDs, as the list shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// All approvals
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        scope: ClusterScope,
    },
    /// List the questions that wait for an answer
    #[command(after_help = "\
Shows the questions of the servers of this workspace, or of all workspaces of a cluster. A call waits for \
an answer if its client can show a form, or if the settings have `approvals.unattended: wait`.")]
    Pending(ClusterScope),
    /// Answer a question that waits
    #[command(after_help = "\
Shows the question and asks for confirmation. The first answer counts, here or in the form of the client; \
a later one changes nothing.

Examples:
  mimir approvals pending
  mimir approvals answer 3f1c once
  mimir approvals answer 3f1c no --reason 'not on a Friday'")]
    Answer(ApprovalAnswerArgs),
}

impl Default for ApprovalsCommand {
    fn default() -> Self {
        Self::List(ClusterScope::default())
    }
}

/// Arguments of `mimir approvals answer`.
#[derive(Debug, PartialEq, Args)]
pub struct ApprovalAnswerArgs {
    /// ID of the question, or its first digits
    #[arg(value_name = "ID")]
    pub id: String,
    /// The answer
    #[arg(value_name = "ANSWER", value_enum)]
    pub answer: AnswerChoice,
    /// Reason, for the audit log; the model sees the reason of `no`
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub scope: ClusterScope,
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerChoice {
    /// Allow this call
    Once,
    /// Allow what the card lists until the session ends
    Session,
    /// Allow what the card lists until that expires or is revoked
    Always,
    /// Deny this call
    No,
}

impl AnswerChoice {
    /// Returns the answer of the pipeline.
    pub fn to_answer(self) -> ApprovalAnswer {
        match self {
            Self::Once => ApprovalAnswer::Once,
            Self::Session => ApprovalAnswer::Session,
            Self::Always => ApprovalAnswer::Always,
            Self::No => ApprovalAnswer::No,
        }
    }
}
