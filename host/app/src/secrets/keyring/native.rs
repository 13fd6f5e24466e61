//! The store of macOS or Windows, by its own interface. Both are only known to compile: no test runs there.

use std::sync::Arc;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
use keyring_core::api::CredentialStoreApi as _;
use keyring_core::{Entry, Error};
use mimir_core::ToolError;
#[cfg(windows)]
use windows_native_keyring_store::Store;

use super::{SERVICE, refused};

/// A keyring that answers.
pub struct Keyring {
    store: Arc<Store>,
}

impl Keyring {
    /// The user's own keyring.
    pub fn find() -> Option<Self> {
        let store = Store::new().ok()?;
        Some(Self { store })
    }

    /// Keeps a value under a name. Windows takes 2,560 bytes at most.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ToolError> {
        let set = self.entry(name).and_then(|entry| entry.set_password(value));
        set.map_err(|error| refused("did not take the value", &told(&error)))
    }

    /// The value under a name.
    pub fn get(&self, name: &str) -> Result<String, ToolError> {
        let got = self.entry(name).and_then(|entry| entry.get_password());
        got.map_err(|error| refused("does not give the value", &told(&error)))
    }

    /// Forgets the value under a name; one that is not there is forgotten already.
    pub fn remove(&self, name: &str) -> Result<(), ToolError> {
        let removed = self.entry(name).and_then(|entry| entry.delete_credential());
        match removed {
            Err(Error::NoEntry) => Ok(()),
            other => other.map_err(|error| refused("did not forget the value", &told(&error))),
        }
    }

    fn entry(&self, name: &str) -> Result<Entry, Error> {
        self.store.build(SERVICE, name, None)
    }
}

/// What went wrong, without the bytes that some errors carry.
fn told(error: &Error) -> String {
    match error {
        Error::BadEncoding(_) | Error::BadDataFormat(..) => "what it holds is no text".to_owned(),
        other => other.to_string(),
    }
}
