//! The keyring of the system, if there is one that answers: the Keychain of macOS, the Credential Manager of
//! Windows, a Secret Service elsewhere.
//!
//! Never here: which secrets there are (that is the file's business), and what is done without a keyring.

use mimir_core::{Code, ToolError};

#[cfg(not(any(windows, target_os = "macos")))]
#[path = "keyring/desktop.rs"]
mod system;

#[cfg(any(windows, target_os = "macos"))]
#[path = "keyring/native.rs"]
mod system;

pub use system::Keyring;

/// Under what everything of mimir stands in a keyring.
const SERVICE: &str = "mimir";

/// A refusal of the keyring's, in its own words where it had some.
fn refused(what: &str, said: &str) -> ToolError {
    let said = mimir_core::text::visible(mimir_core::text::prefix(said.trim(), 200));
    fault(&format!(
        "{what}: {said}; `mimir secrets set NAME --file` keeps it in a file"
    ))
}

fn fault(what: &str) -> ToolError {
    ToolError::new(Code::Unavailable, format!("the keyring {what}"))
}
