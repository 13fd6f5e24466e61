//! Logins at servers over HTTP: the protocol's authorization, as of 2025-11-25 and 2026-07-28.
//!
//! A person logs in ([`Plan`], [`Pending`]); calls use the result ([`bearer::Bearer`]). In between, the login is
//! stored ([kept]): a token, with its server, resource and authorization server. The token is sent to that server only,
//! and its refresh token to that authorization server only.
//!
//! Responses of servers are untrusted here: URLs in them are checked before use, responses are limited in size, and
//! each client reaches one origin only.
//!
//! Out of scope: browsers, terminals, sockets, logins started by a model, and the storage of secrets.

use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};

mod answer;
mod bearer;
mod challenge;
mod endpoint;
mod exchange;
mod kept;
mod login;
mod metadata;
pub(crate) mod provider;
mod registration;

pub use answer::Unfit;
pub(super) use bearer::{Bearer, Token, is_wanted};
pub(super) use challenge::Challenge;
pub use kept::{Login, Logins, secrets};
pub use login::{Facts, Pending, Plan};
pub use registration::Known;

pub(super) use kept::key;
pub(super) use login::{forget, login, plan};

/// Maximum length of untrusted text in a message, in characters.
const WORDS_MOST: usize = 300;

/// Returns untrusted text for display, with these values masked.
fn words(theirs: &str, hidden: &[&str]) -> String {
    let mut words = visible(prefix(theirs, 4 * WORDS_MOST));
    let hidden = hidden.iter().filter(|value| !value.is_empty());
    let redactor = Redactor::new().with_values(hidden.map(|value| ("LOGIN", *value)));
    redactor.text(&mut words);
    prefix(&words, WORDS_MOST).to_owned()
}

/// Returns the error for a failed login.
fn refused(message: impl Into<String>) -> ToolError {
    ToolError::new(Code::PermissionDenied, message)
}

/// Returns the command that starts a login.
fn way_in(server: &str) -> String {
    format!("`mimir mcp login {}`", visible(server))
}

/// Returns the current time in seconds since 1970.
fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
