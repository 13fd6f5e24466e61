//! A login at a server that is reached over HTTP: the protocol's authorization, as of 2025-11-25 and 2026-07-28.
//!
//! A person logs in ([`Plan`], [`Pending`]); calls carry what came of it ([`bearer::Bearer`]). Between the two lies what
//! is [kept]: a token, and for which server, resource and authorization server it is. It goes to that server and to
//! nobody else, and what renews it goes to that authorization server.
//!
//! What servers say here is a stranger's word: it names places that are judged before they are asked, in answers of
//! bounded length, by clients that reach one origin each.
//!
//! Never here: a browser, a terminal, a socket, a way for a model to begin a login, and where secrets are.

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

/// Characters of a stranger's words in a message of ours.
const WORDS_MOST: usize = 300;

/// Words of theirs as they can be shown, without these values.
fn words(theirs: &str, hidden: &[&str]) -> String {
    let mut words = visible(prefix(theirs, 4 * WORDS_MOST));
    let hidden = hidden.iter().filter(|value| !value.is_empty());
    let redactor = Redactor::new().with_values(hidden.map(|value| ("LOGIN", *value)));
    redactor.text(&mut words);
    prefix(&words, WORDS_MOST).to_owned()
}

/// A login that does not come about.
fn refused(message: impl Into<String>) -> ToolError {
    ToolError::new(Code::PermissionDenied, message)
}

/// The way to a login.
fn way_in(server: &str) -> String {
    format!("`mimir mcp login {}`", visible(server))
}

/// Seconds since 1970.
fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
