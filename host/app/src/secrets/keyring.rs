//! The system keyring, if one responds: the Keychain of macOS, the Credential Manager of Windows, a Secret Service
//! elsewhere.
//!
//! The file of secrets lists the names; the fallback without a keyring is in the parent module.

use mimir_core::ToolError;

#[cfg(not(any(windows, target_os = "macos")))]
#[path = "keyring/desktop.rs"]
mod system;

#[cfg(any(windows, target_os = "macos"))]
#[path = "keyring/native.rs"]
mod system;

pub use system::SystemKeyring;

/// Service name of all entries of mimir in a keyring.
const SERVICE: &str = "mimir";

/// The error of a keyring that refused an operation, with its own message if there is one.
fn refused_error(problem: &str, message: &str) -> ToolError {
    let message = mimir_core::text::visible(mimir_core::text::prefix(message.trim(), 200));
    keyring_error(&format!(
        "{problem}: {message}; `mimir secrets set NAME --file` stores it in a file"
    ))
}

fn keyring_error(problem: &str) -> ToolError {
    ToolError::unavailable(format!("the keyring {problem}"))
}
