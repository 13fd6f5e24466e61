//! The system keyring: the Keychain on macOS, the Credential Manager on Windows, a Secret Service elsewhere.
//!
//! Out of scope: the list of names, and the fallback without a keyring. Both are in the parent module.

use mimir_core::ToolError;

#[cfg(not(any(windows, target_os = "macos")))]
#[path = "keyring/desktop.rs"]
mod system;

#[cfg(any(windows, target_os = "macos"))]
#[path = "keyring/native.rs"]
mod system;

pub use system::SystemKeyring;

/// Service name of mimir's entries in the keyring.
const SERVICE: &str = "mimir";

/// Creates the error of an operation that the keyring refused. `problem` completes "the keyring …"; `message` is the
/// keyring's own message.
fn refused_error(problem: &str, message: &str) -> ToolError {
    let message = mimir_core::text::visible(mimir_core::text::prefix(message.trim(), 200));
    keyring_error(&format!("{problem}: {message}"))
}

/// Creates the error of a keyring. `problem` completes "the keyring …".
fn keyring_error(problem: &str) -> ToolError {
    ToolError::unavailable(format!("the keyring {problem}"))
}
