//! The credential store of macOS or Windows, through its native API. Compiled but not tested: no test runs on these
//! platforms.

use std::sync::Arc;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
use keyring_core::api::CredentialStoreApi as _;
use keyring_core::{Entry, Error};
use mimir_core::ToolError;
#[cfg(windows)]
use windows_native_keyring_store::Store;

use super::{SERVICE, refused_error};

/// An available keyring.
pub struct SystemKeyring {
    store: Arc<Store>,
}

impl SystemKeyring {
    /// Opens the user's own keyring; `None` if it is not available.
    pub fn find() -> Option<Self> {
        let store = Store::new().ok()?;
        Some(Self { store })
    }

    /// Stores a value under a name. Windows accepts at most 2,560 bytes.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ToolError> {
        let result = self.entry(name).and_then(|entry| entry.set_password(value));
        result.map_err(|error| refused_error("did not accept the value", &describe_error(&error)))
    }

    /// Reads the value under a name.
    pub fn get(&self, name: &str) -> Result<String, ToolError> {
        let value = self.entry(name).and_then(|entry| entry.get_password());
        value.map_err(|error| refused_error("did not return the value", &describe_error(&error)))
    }

    /// Removes the value under a name. A missing value is not an error.
    pub fn remove(&self, name: &str) -> Result<(), ToolError> {
        let result = self.entry(name).and_then(|entry| entry.delete_credential());
        match result {
            Err(Error::NoEntry) => Ok(()),
            result => result.map_err(|error| {
                refused_error("did not remove the value", &describe_error(&error))
            }),
        }
    }

    fn entry(&self, name: &str) -> Result<Entry, Error> {
        self.store.build(SERVICE, name, None)
    }
}

/// Returns the message of an error. Errors that contain the bytes of a value get a message without them.
fn describe_error(error: &Error) -> String {
    match error {
        Error::BadEncoding(_) | Error::BadDataFormat(..) => {
            "the stored value is not text".to_owned()
        }
        other => other.to_string(),
    }
}
