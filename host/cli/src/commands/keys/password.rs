//! Passwords of private keys: from the terminal without echo, or from the environment.

use std::io::IsTerminal as _;

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use crate::exit::CommandResult;
use crate::terminal;
use mimir::signing_keys::KEY_PASSWORD_VARIABLE;

/// Returns the password of an existing key.
pub fn current_password(key: &str) -> CommandResult<String> {
    if let Some(password) = from_environment()? {
        return Ok(password);
    }
    prompt(&format!("The password of `{}` (not shown): ", visible(key)))
}

/// Returns the password of a new key, which is typed twice.
pub fn new_password(key: &str) -> CommandResult<String> {
    if let Some(password) = from_environment()?.filter(|password| !password.is_empty()) {
        return Ok(password);
    }
    let key = visible(key);
    let password = prompt(&format!("A password for `{key}` (not shown): "))?;
    if password.is_empty() {
        return Err(ToolError::invalid_input("the password is empty: nothing is stored").into());
    }
    if prompt("The same password again: ")? != password {
        return Err(ToolError::invalid_input("the passwords differ: nothing is stored").into());
    }
    Ok(password)
}

fn from_environment() -> CommandResult<Option<String>> {
    let Some(password) = std::env::var_os(KEY_PASSWORD_VARIABLE) else {
        return Ok(None);
    };
    let not_unicode =
        |_| ToolError::invalid_input(format!("{KEY_PASSWORD_VARIABLE} is not valid UTF-8"));
    Ok(Some(password.into_string().map_err(not_unicode)?))
}

fn prompt(question: &str) -> CommandResult<String> {
    if !std::io::stdin().is_terminal() {
        return Err(ToolError::new(
            ToolErrorCode::ApprovalDenied,
            "the password of the key cannot be asked for without a terminal",
        )
        .with_remedies([format!("set {KEY_PASSWORD_VARIABLE} for this command")])
        .into());
    }
    let cancelled = || ToolError::new(ToolErrorCode::Cancelled, "cancelled: nothing was changed");
    Ok(terminal::read_hidden_line(question)?.ok_or_else(cancelled)?)
}
