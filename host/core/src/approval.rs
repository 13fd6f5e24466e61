//! The port for asking a person: the card to show, the possible answers, and the stored approvals.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::BoxFuture;
use crate::call::SessionSharing;
use crate::decision::DecisionReason;
use crate::tool::{RiskLevel, ToolSource};

mod approval_queue;
mod card_facts;
mod card_sections;
mod chain;
mod fingerprint;
mod pattern;
mod question_sharing;
mod readable_arguments;
mod stored_approval;
mod workspace_binding;

pub use card_facts::{CardFacts, UntrustedRead};
pub use card_sections::CardSection;
pub use chain::ApproverChain;
pub use fingerprint::Fingerprint;
pub use pattern::{ApprovalPattern, is_narrower_pattern};
pub use question_sharing::QuestionSharing;
pub use stored_approval::{ApprovalStore, ApprovalStoreError, NoApprovalStore, StoredApproval};
pub use workspace_binding::WorkspaceBinding;

pub(crate) use approval_queue::ApprovalQueue;
pub(crate) use pattern::is_asked_each_time;
pub(crate) use stored_approval::{
    ApprovalLookup, find_covering, find_covering_commands, timestamp,
};

/// A question about a call, with the information that a person needs to answer it. All text is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// Identifies the question: the tool, its digest and the arguments.
    pub fingerprint: Fingerprint,
    /// The tool's canonical name.
    pub tool: String,
    /// The calling tools of a nested call, the outermost first: `outer → inner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The source of the tool.
    pub source: ToolSource,
    /// The tool's file, or `built-in`.
    pub location: String,
    /// sha256 of the tool's file in hex.
    pub digest: String,
    /// The exact arguments as indented JSON, with invisible characters as JSON escapes.
    pub arguments: String,
    /// The effect of the call, in one line.
    pub summary: String,
    /// The risk level.
    pub risk: RiskLevel,
    /// The possible consequences.
    pub risks: Vec<String>,
    /// Needs that an approval would grant for this call, one line each.
    pub grants: Vec<String>,
    /// Changes since the plugin was granted, one line each. If there are any, only a person who has seen them can
    /// approve: [`ApprovalAnswer::InAdvance`] is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Facts proved by the plugin's imports, shown if a grant is missing. Each completes a sentence about the plugin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<String>,
    /// The reasons of all rules that applied, those that do not ask included.
    pub reasons: Vec<DecisionReason>,
    /// The coverage of the answer "always" in plain text; nothing more is ever stored. `None` if each call needs its
    /// own approval: "always" and "this session" then count for this call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<AlwaysCoverage>,
    /// The settings lines that allow the requests of such a call without a question.
    #[serde(rename = "wayOut", default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
    /// True if the arguments can be edited. An effect cannot be edited, only approved or denied.
    pub editable: bool,
    /// Facts for consoles.
    #[serde(default, skip_serializing_if = "CardFacts::is_empty")]
    pub facts: CardFacts,
}

impl Card {
    /// Returns true if the answer "session" counts for more than this call.
    pub fn offers_session(&self) -> bool {
        self.always.is_some() && self.facts.sharing != SessionSharing::AnyClient
    }
}

/// The coverage of the answer "always".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlwaysCoverage {
    /// The coverage in one line.
    pub text: String,
    /// If "always" grants the plugin: the rights of each of its tools, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// The kinds of needs that the grant withholds, as the previous grant did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// If "always" covers commands: their patterns. A person can store narrower ones instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalAnswer {
    /// Yes, for this call only.
    Once,
    /// Yes, given in advance, before the question was known. It does not cover changes since a grant.
    InAdvance,
    /// Yes, also to everything that the card's "always" covers, until the session ends.
    Session,
    /// Yes, also to everything that the card's "always" covers, until it is revoked or expires.
    Always,
    /// Yes, also to commands that these patterns cover, until it is revoked or expires. Each pattern is one of the card's
    /// or narrower: see [`is_narrower_pattern`].
    AlwaysCommands(Vec<String>),
    /// Run the call with these arguments instead. They pass all checks again.
    Edit(Value),
    /// No.
    No,
    /// No, with a reason for the model.
    NoBecause(String),
    /// No person is there to answer.
    Unattended {
        /// One sentence that tells the person how to answer. Models never see it.
        remedy: String,
    },
    /// No person has answered in time.
    Expired {
        /// The time that a person had.
        timeout: Duration,
    },
}

impl ApprovalAnswer {
    /// Returns the name used in the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            ApprovalAnswer::Once => "once",
            ApprovalAnswer::InAdvance => "beforehand",
            ApprovalAnswer::Session => "session",
            ApprovalAnswer::Always | ApprovalAnswer::AlwaysCommands(_) => "always",
            ApprovalAnswer::Edit(_) => "edit",
            ApprovalAnswer::No | ApprovalAnswer::NoBecause(_) => "no",
            ApprovalAnswer::Unattended { .. } | ApprovalAnswer::Expired { .. } => "nobody",
        }
    }

    /// Returns true if no person has answered.
    pub const fn is_missing(&self) -> bool {
        matches!(
            self,
            ApprovalAnswer::Unattended { .. } | ApprovalAnswer::Expired { .. }
        )
    }
}

/// Asks a person over a channel that no model has access to.
pub trait Approver: Send + Sync {
    /// Shows the card and waits for the answer.
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer>;

    /// Returns true if each call needs its own card, even if an identical card is open.
    fn needs_separate_answers(&self) -> bool {
        false
    }
}
