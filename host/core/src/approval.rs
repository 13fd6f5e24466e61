//! The port to a person: what is shown, and what can be answered.

use serde::Serialize;

use crate::backend::BoxFuture;
use crate::decision::Reason;
use crate::tool::{Risk, Source};

/// Everything that a person needs in order to answer. All text is safe to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    /// The tool's canonical name.
    pub tool: String,
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
    /// Why the person is asked.
    pub reasons: Vec<Reason>,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Once,
    /// No.
    No,
    /// Nobody is there to answer; says how someone could be.
    Nobody {
        /// One sentence that names the way out.
        way_out: String,
    },
}

/// Asks a person over a channel that no model can speak on.
pub trait Approver: Send + Sync {
    /// Shows the card and waits for the answer.
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, Answer>;
}
