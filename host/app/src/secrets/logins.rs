//! OAuth logins for MCP servers. Stored and masked like secrets, but in a separate map, so that no secret name, whether
//! granted to a tool or used in a server's settings, resolves to a login.
//!
//! The OAuth protocol itself is in `mimir_mcp`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use mimir_core::ToolError;
use mimir_mcp::client::LoginStore;
use sha2::{Digest as _, Sha256};

use super::{StoredSecret, UserSecrets};
use crate::private_files;
use crate::user_dirs::UserDirs;

/// The logins of this user.
pub struct UserLogins {
    secrets: Option<UserSecrets>,
    /// Folder of the lock files that serialize the renewal of each login.
    lock_folder: Option<PathBuf>,
}

/// Prefix of the names of logins in a keyring. Names of secrets cannot contain a colon.
const KEYRING_PREFIX: &str = "login:";

impl UserLogins {
    /// Creates a handle to the logins of this user. Reads nothing.
    pub fn new(user_dirs: &UserDirs) -> Self {
        Self {
            secrets: UserSecrets::new(user_dirs),
            lock_folder: user_dirs
                .config
                .as_ref()
                .map(|folder| folder.join("logins")),
        }
    }

    /// Removes all logins of the server named `server`, whatever its URL. Returns the number of removed logins.
    pub fn remove_all(&self, server: &str) -> Result<usize, ToolError> {
        let Some(secrets) = &self.secrets else {
            return Ok(0);
        };
        let keys: Vec<String> = secrets.read()?.logins.into_keys().collect();
        let keys = keys
            .into_iter()
            .filter(|key| server_of(key) == Some(server));
        let mut count = 0;
        for key in keys {
            self.remove(&key)?;
            count += 1;
        }
        Ok(count)
    }
}

/// Returns the server's name in the key of a login. A key is `NAME@HASH`, where HASH identifies the server's URL.
fn server_of(key: &str) -> Option<&str> {
    key.rsplit_once('@').map(|(server, _)| server)
}

impl UserSecrets {
    /// Returns the confidential values of a login, with their names. Fails if the login is damaged, because its values
    /// could not be masked.
    pub(super) fn login_values(
        &self,
        key: &str,
        stored: StoredSecret,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let text = self.read_login(key, stored)?;
        let values = mimir_mcp::client::login_secrets(&text).ok_or_else(|| {
            let name = mimir_core::text::visible(key);
            let server = server_of(&name).unwrap_or(&name);
            ToolError::unavailable(format!(
                "the login `{name}` is damaged, so it cannot be masked; `mimir mcp logout {server}` removes it"
            ))
        })?;
        let pairs = values
            .into_iter()
            .map(|value| (format!("{KEYRING_PREFIX}{key}"), value));
        Ok(pairs.collect())
    }

    fn read_login(&self, key: &str, stored: StoredSecret) -> Result<String, ToolError> {
        let name = mimir_core::text::visible(key);
        let server = server_of(&name).unwrap_or(&name);
        let remove = format!("remove the login with `mimir mcp logout {server}`");
        let why = match (stored, &self.keyring) {
            (StoredSecret::Value(text), _) => return Ok(text),
            (StoredSecret::Keyring, Some(keyring)) => {
                match keyring.get(&format!("{KEYRING_PREFIX}{key}")) {
                    Ok(text) => return Ok(text),
                    Err(error) => format!("{}; unlock the keyring, or {remove}", error.message),
                }
            }
            (StoredSecret::Keyring, None) => format!("this system has no keyring; {remove}"),
        };
        Err(ToolError::unavailable(format!(
            "the login `{name}` cannot be read from the keyring: {why}"
        )))
    }
}

impl LoginStore for UserLogins {
    fn read(&self, key: &str) -> Result<Option<String>, ToolError> {
        let Some(secrets) = &self.secrets else {
            return Ok(None);
        };
        let stored = secrets.read()?.logins.remove(key);
        stored
            .map(|stored| secrets.read_login(key, stored))
            .transpose()
    }

    fn write(&self, key: &str, text: &str) -> Result<(), ToolError> {
        let Some(secrets) = &self.secrets else {
            return Err(ToolError::unavailable(
                "cannot store the login: no user config directory was found; set MIMIR_CONFIG_DIR",
            ));
        };
        let stored = match &secrets.keyring {
            // Falls back to the file, so that a new login is not lost if the keyring is locked or does not accept a
            // long value.
            Some(keyring) => match keyring.set(&format!("{KEYRING_PREFIX}{key}"), text) {
                Ok(()) => StoredSecret::Keyring,
                Err(error) => {
                    tracing::warn!(%error, "the keyring does not accept the login; it is stored in a private file");
                    StoredSecret::Value(text.to_owned())
                }
            },
            None => StoredSecret::Value(text.to_owned()),
        };
        secrets.change(|file| file.logins.insert(key.to_owned(), stored))?;
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), ToolError> {
        let Some(secrets) = &self.secrets else {
            return Ok(());
        };
        if secrets.read()?.logins.is_empty() {
            return Ok(());
        }
        let previous = secrets.change(|file| file.logins.remove(key))?;
        if let (Some(StoredSecret::Keyring), Some(keyring)) = (&previous, &secrets.keyring) {
            keyring.remove(&format!("{KEYRING_PREFIX}{key}"))?;
        }
        Ok(())
    }

    fn version(&self) -> u64 {
        let file = self.secrets.as_ref().map(UserSecrets::path);
        let meta = file.and_then(|file| std::fs::metadata(file).ok());
        let stamp = meta.map(|meta| (meta.modified().ok(), meta.len()));
        let mut hasher = DefaultHasher::new();
        stamp.hash(&mut hasher);
        hasher.finish()
    }

    fn lock(&self, key: &str) -> Result<Box<dyn Send>, ToolError> {
        // Without a config folder, nothing is stored, so there is nothing to lock.
        let Some(folder) = &self.lock_folder else {
            return Ok(Box::new(()));
        };
        // Hashed, because a server's name may contain characters that are not valid in a file name.
        let hash = format!("{:x}", Sha256::digest(key));
        let file = folder.join(&hash[..16]);
        let lock = private_files::lock_for_change(&file).map_err(|error| {
            let shown = mimir_core::text::visible(&file.display().to_string());
            ToolError::unavailable(format!("{shown}: cannot be locked: {error}"))
        })?;
        Ok(Box::new(lock))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mimir_core::config::Config;
    use std::path::Path;

    use mimir_core::redact::Vault as _;

    use super::*;
    use crate::secrets::UserVault;
    use crate::secrets::tests::secrets;

    fn logins(folder: &Path) -> UserLogins {
        UserLogins {
            secrets: Some(secrets(folder)),
            lock_folder: Some(folder.join("logins")),
        }
    }

    fn login(access: &str) -> String {
        serde_json::json!({"server": "s", "url": "https://a/", "resource": "https://a",
            "issuer": "https://as", "token_endpoint": "https://as/t",
            "client": {"id": "c", "method": "none", "settings": false},
            "access": access, "asked": [], "granted": []})
        .to_string()
    }

    #[test]
    fn login_token_is_masked_and_not_a_readable_secret() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(folder.path());
        let key = "s@0123456789abcdef";
        logins.write(key, &login("one-access-token")).unwrap();
        let vault = UserVault::new(Some(secrets(folder.path())), &Config::default());
        let masked = |text: &str| {
            let mut text = text.to_owned();
            vault.redactor().unwrap().mask_text(&mut text);
            text
        };
        assert!(!masked("it is one-access-token").contains("one-access"));
        for name in [key, "login:s@0123456789abcdef", "s", "logins"] {
            assert_eq!(vault.secret(name).unwrap(), None, "{name}");
        }
        assert!(
            secrets(folder.path())
                .list(&BTreeMap::new())
                .unwrap()
                .is_empty()
        );
        // A renewed login is masked at once.
        let before = logins.version();
        std::thread::sleep(std::time::Duration::from_millis(20));
        logins.write(key, &login("two-access-token")).unwrap();
        assert_ne!(logins.version(), before);
        assert!(!masked("it is two-access-token").contains("two-access"));
        assert_eq!(logins.remove_all("t").unwrap(), 0);
        assert_eq!(logins.remove_all("s").unwrap(), 1);
        assert_eq!(logins.read(key).unwrap(), None);
    }

    #[test]
    fn login_lock_blocks_only_the_same_server() {
        let folder = tempfile::tempdir().unwrap();
        let held = logins(folder.path()).lock("slow.one@0").unwrap();
        let lock_in_thread = |key: &'static str| {
            let logins = logins(folder.path());
            let (sender, receiver) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let lock = logins.lock(key).unwrap();
                sender.send(()).unwrap();
                drop(lock);
            });
            receiver
        };
        let soon = std::time::Duration::from_secs(20);
        lock_in_thread("slow.two@0").recv_timeout(soon).unwrap();
        let same = lock_in_thread("slow.one@0");
        let briefly = std::time::Duration::from_millis(100);
        assert!(
            same.recv_timeout(briefly).is_err(),
            "the lock was acquired twice"
        );
        drop(held);
        same.recv_timeout(soon).unwrap();
    }

    #[test]
    fn login_in_a_missing_keyring_is_an_error_without_advice_to_unlock_it() {
        let folder = tempfile::tempdir().unwrap();
        secrets(folder.path())
            .change(|file| file.logins.insert("s@0".into(), StoredSecret::Keyring))
            .unwrap();
        let error = logins(folder.path()).read("s@0").unwrap_err();
        assert!(
            error.message.contains("no keyring; remove the login")
                && error.message.contains("`mimir mcp logout s`")
                && !error.message.contains("unlock"),
            "{error}"
        );
    }

    #[test]
    fn login_that_cannot_be_read_fails_the_redactor() {
        let folder = tempfile::tempdir().unwrap();
        let logins = logins(folder.path());
        logins
            .write("s@0", "{\"access\": \"hunter2-token\"}")
            .unwrap();
        let vault = UserVault::new(Some(secrets(folder.path())), &Config::default());
        let error = vault.redactor().unwrap_err().to_string();
        assert!(
            error.contains("mimir mcp logout s") && !error.contains("hunter2"),
            "{error}"
        );
        logins.remove("s@0").unwrap();
        vault.redactor().unwrap();
    }
}
