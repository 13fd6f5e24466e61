//! OAuth logins at servers over HTTP, as of the protocol versions 2025-11-25 and 2026-07-28.
//!
//! A user logs in ([`LoginPlan`], [`PendingLogin`]); calls use the stored login ([`bearer::BearerAuth`]). A login
//! ([`stored_login`]) is a token with its server, resource and authorization server. The token is sent only to that
//! server, and its refresh token only to that authorization server.
//!
//! Responses of servers are untrusted: URLs in them are checked before use, responses are limited in size, and each
//! HTTP client reaches only one origin.
//!
//! Out of scope: browsers, terminals, sockets, logins started by a model, and the storage of secrets.

use std::time::{SystemTime, UNIX_EPOCH};

use mimir_core::ToolError;
use mimir_core::redact::Redactor;
use mimir_core::text::{prefix, visible};

mod authorization;
mod bearer;
mod callback;
mod challenge;
mod endpoint;
mod identity_login;
mod login;
mod metadata;
pub(crate) mod provider_keys;
mod registration;
mod stored_login;
mod token_endpoint;

pub(crate) use authorization::random_string;
pub(super) use bearer::{
    BearerAuth, BearerToken, has_authorization, is_challenge_key, is_login_required,
};
pub use callback::CallbackError;
pub(super) use challenge::BearerChallenge;
pub(crate) use identity_login::{IdentityLogin, PendingIdentity};
pub use login::{LoginDetails, LoginPlan, PendingLogin};
pub use registration::RegistrationKind;
pub use stored_login::{LoginStore, LoginSummary, login_secrets};

pub(super) use login::{forget_login, login_summary, plan_login};
pub(super) use stored_login::login_key;

/// Maximum length of untrusted text in a message, in characters.
const MAX_TEXT_CHARS: usize = 300;

/// Returns untrusted text for display, truncated, and with `secrets` masked.
fn clean_text(untrusted: &str, secrets: &[&str]) -> String {
    let mut text = visible(prefix(untrusted, 4 * MAX_TEXT_CHARS));
    let secrets = secrets.iter().filter(|value| !value.is_empty());
    let redactor = Redactor::new().with_values(secrets.map(|value| ("LOGIN", *value)));
    redactor.mask_text(&mut text);
    prefix(&text, MAX_TEXT_CHARS).to_owned()
}

/// Returns the error for a failed login.
fn login_error(message: impl std::fmt::Display) -> ToolError {
    ToolError::permission_denied(message)
}

/// Returns the command that starts a login, of the owner or of a user.
pub(super) fn login_hint(server: &str, user: Option<&str>) -> String {
    let server = visible(server);
    match user {
        Some(user) => format!("`mimir mcp login {server} --for-user {}`", visible(user)),
        None => format!("`mimir mcp login {server}`"),
    }
}

/// Returns the current time in seconds since 1970.
fn unix_seconds() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs())
}
