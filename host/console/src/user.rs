//! People at the console, and their roles.

use serde::{Deserialize, Serialize};

/// Permissions of a person at the console. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsoleRole {
    /// Sees everything, changes nothing.
    Viewer,
    /// Also answers questions, cancels calls and revokes stored approvals.
    Approver,
    /// Also stops all calls and changes tools, servers, files and rules.
    Admin,
}

impl ConsoleRole {
    /// Returns the name of the role in settings and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            ConsoleRole::Viewer => "viewer",
            ConsoleRole::Approver => "approver",
            ConsoleRole::Admin => "admin",
        }
    }
}

/// The person behind a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleUser {
    /// Name for the audit record and for others who see who answered.
    pub name: String,
    /// Permissions.
    pub role: ConsoleRole,
    /// True if the page is open on this machine, in a browser of the user who started the console.
    pub local: bool,
}
