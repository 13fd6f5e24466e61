//! The port to a person: what is shown, what can be answered, and what of it is remembered.

use serde::Serialize;
use serde_json::Value;

use crate::backend::BoxFuture;
use crate::decision::Reason;
use crate::tool::{Risk, Source};

mod chain;
mod desk;
mod facts;
mod fingerprint;
mod lease;
mod pattern;
mod scene;

pub use chain::Chain;
pub use facts::Fact;
pub use fingerprint::Fingerprint;
pub use lease::{Lease, Ledger, LedgerError, NoLedger};
pub use pattern::Pattern;
pub use scene::Scene;

pub(crate) use desk::Desk;
pub(crate) use lease::{Question, covering, covering_commands, timestamp};
pub(crate) use pattern::is_asked_each_time;

/// Everything that a person needs in order to answer. All text is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// What exactly is asked about: the tool, its digest and the arguments.
    pub fingerprint: Fingerprint,
    /// The tool's canonical name.
    pub tool: String,
    /// The tools in the middle of whose calls this one was made, the outermost first: `outer → inner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// The file, or `built-in`.
    pub location: String,
    /// sha256 of the file in hex.
    pub digest: String,
    /// The exact arguments as indented JSON.
    pub arguments: String,
    /// One line: what will happen.
    pub summary: String,
    /// How bad it could be.
    pub risk: Risk,
    /// What could go wrong.
    pub risks: Vec<String>,
    /// Needs that this answer would grant for this call, one line each.
    pub grants: Vec<String>,
    /// What has changed since a person granted the plugin, one line each. While there is something, nobody but a
    /// person who has seen it can say yes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// If a grant is missing: what follows from the plugin's imports, each the end of a sentence about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<String>,
    /// Why the person is asked.
    pub reasons: Vec<Reason>,
    /// What the answer "always" would cover, in words; nothing more is ever stored. Nothing if each call is a
    /// question of its own: then neither "always" nor "this session" can be answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<Always>,
    /// The lines that let such a call without asking, where what it sends is all that is asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub way_out: Vec<String>,
    /// Whether its arguments can be edited. What a call does in its middle is as it is, or is not done.
    pub editable: bool,
}

/// What the answer "always" covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Always {
    /// In one line.
    pub text: String,
    /// If it is a grant to a plugin: what each of its tools gets, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// If it is a grant: what it leaves out, as an earlier one did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Yes, this once.
    Once,
    /// Yes, said before anybody knew what would be asked. It is no answer to what has changed since a grant.
    Beforehand,
    /// Yes, and to all that the card's "always" covers until the session ends.
    Session,
    /// Yes, and to all that the card's "always" covers until it is revoked or has expired.
    Always,
    /// With these arguments instead; they are judged like any others.
    Edit(Value),
    /// No.
    No,
    /// Nobody is there to answer.
    Nobody {
        /// How someone could: one sentence, for the person only.
        way_out: String,
    },
}

impl Answer {
    /// The word for the record.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Answer::Once => "once",
            Answer::Beforehand => "beforehand",
            Answer::Session => "session",
            Answer::Always => "always",
            Answer::Edit(_) => "edit",
            Answer::No => "no",
            Answer::Nobody { .. } => "nobody",
        }
    }
}

/// Asks a person over a channel that no model can speak on.
pub trait Approver: Send + Sync {
    /// Shows the card and waits for the answer.
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer>;

    /// Whether a call that asks here cannot wait for the answer to another one's card.
    fn apart(&self) -> bool {
        false
    }
}
