//! The port to a person: the card to show, the possible answers, and the stored approvals.

use serde::Serialize;
use serde_json::Value;

use crate::backend::BoxFuture;
use crate::decision::DecisionReason;
use crate::tool::{RiskLevel, ToolSource};

mod approval_queue;
mod card_sections;
mod chain;
mod fingerprint;
mod pattern;
mod stored_approval;
mod workspace_binding;

pub use card_sections::CardSection;
pub use chain::ApproverChain;
pub use fingerprint::Fingerprint;
pub use pattern::ApprovalPattern;
pub use stored_approval::{ApprovalStore, ApprovalStoreError, NoApprovalStore, StoredApproval};
pub use workspace_binding::WorkspaceBinding;

pub(crate) use approval_queue::ApprovalQueue;
pub(crate) use pattern::is_asked_each_time;
pub(crate) use stored_approval::{
    ApprovalLookup, find_covering, find_covering_commands, timestamp,
};

/// A question about a call, with the information that a person needs to answer it. All text is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// Identifies the question: the tool, its digest and the arguments.
    pub fingerprint: Fingerprint,
    /// The tool's canonical name.
    pub tool: String,
    /// The calling tools of a nested call, the outermost first: `outer → inner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The source of the tool.
    pub source: ToolSource,
    /// The file, or `built-in`.
    pub location: String,
    /// sha256 of the file in hex.
    pub digest: String,
    /// The exact arguments as indented JSON.
    pub arguments: String,
    /// One line: the effect of the call.
    pub summary: String,
    /// The possible damage.
    pub risk: RiskLevel,
    /// The possible consequences.
    pub risks: Vec<String>,
    /// Needs that this answer would grant for this call, one line each.
    pub grants: Vec<String>,
    /// Changes since a person granted the plugin, one line each. If there are any, only a person who has seen them can
    /// approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Conclusions from the plugin's imports, if a grant is missing; each completes a sentence about the plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<String>,
    /// The reasons of the question.
    pub reasons: Vec<DecisionReason>,
    /// The coverage of the answer "always" in plain text; nothing more is ever stored. `None` if each call is asked
    /// about separately: then neither "always" nor "this session" is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<AlwaysCoverage>,
    /// The settings lines that allow such a call without a question, if the question is only about the data that it
    /// sends.
    #[serde(rename = "wayOut", skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// True if the arguments can be edited. Those of an effect cannot: it is approved as it is, or not carried out.
    pub editable: bool,
}

/// The coverage of the answer "always".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlwaysCoverage {
    /// The coverage in one line.
    pub text: String,
    /// The rights of each tool of a plugin that is granted, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// The needs that a grant withholds, as the previous grant did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ApprovalAnswer {
    /// Yes, this once.
    Once,
    /// Yes, given in advance, before the question was known. It does not cover changes since a grant.
    InAdvance,
    /// Yes, also to everything that the card's "always" covers, until the session ends.
    Session,
    /// Yes, also to everything that the card's "always" covers, until it is revoked or expires.
    Always,
    /// Yes, with these arguments instead, which are checked like any others.
    Edit(Value),
    /// No.
    No,
    /// No person is there to answer.
    Unattended {
        /// The way to give an answer: one sentence, for the person only.
        remedy: String,
    },
}

impl ApprovalAnswer {
    /// Returns the spelling in the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            ApprovalAnswer::Once => "once",
            ApprovalAnswer::InAdvance => "beforehand",
            ApprovalAnswer::Session => "session",
            ApprovalAnswer::Always => "always",
            ApprovalAnswer::Edit(_) => "edit",
            ApprovalAnswer::No => "no",
            ApprovalAnswer::Unattended { .. } => "nobody",
        }
    }
}

/// Asks a person over a channel that no model has access to.
pub trait Approver: Send + Sync {
    /// Shows the card and waits for the answer.
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer>;

    /// Returns true if a call must not wait for the answer to another call's card.
    fn needs_separate_answers(&self) -> bool {
        false
    }
}
