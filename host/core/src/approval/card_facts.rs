//! Facts of a card for consoles, which link them to the record. Terminals and clients show the rest of the card.

use serde::{Deserialize, Serialize};

use crate::call::SessionSharing;
use crate::command::CommandVerdict;

use super::ApprovalPattern;

/// Facts about the call of a card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CardFacts {
    /// The id of the call, as in the audit log.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call_id: String,
    /// The session of the call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The clients that share the session. An answer for the session is offered only if they are those of one user.
    #[serde(skip_serializing_if = "SessionSharing::is_one_client")]
    pub sharing: SessionSharing,
    /// The name of the program that made the call, which proves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The verdicts on the commands that the call would run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandVerdict>,
    /// The calls that the answer "always" covers, if it covers arguments of moderate size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covers: Option<Box<ApprovalPattern>>,
    /// The first results with untrusted content that the session has read, in this process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<UntrustedRead>,
    /// The origin of the first sensitive content that the session has read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<String>,
}

/// A result with untrusted content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UntrustedRead {
    /// The origin: a source and a tool.
    pub origin: String,
    /// The id of the call with the result. Empty if another process has recorded it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call_id: String,
}

impl CardFacts {
    /// Returns true if no facts are known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
