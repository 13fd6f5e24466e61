//! The user's secrets: values that tools use but that are never shown. A value is stored in the system keyring if there
//! is one, else in a file that only this user can read. Values of environment variables that the settings name are
//! secrets, too.
//!
//! Values are entered on stdin and masked in all output. No function in this module prints a value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mimir_core::ToolError;
use mimir_core::config::SecretSettings;
use mimir_core::redact::SHORT_MIN;
use serde::{Deserialize, Serialize};

use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::user_dirs::UserDirs;

mod canary;
mod keyring;
mod logins;
mod vault;

use keyring::SystemKeyring;

pub use canary::CanaryShape;
pub use logins::UserLogins;
pub use vault::UserVault;

/// The secrets of this user.
pub struct UserSecrets {
    path: PathBuf,
    keyring: Option<SystemKeyring>,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsFile {
    secrets: BTreeMap<String, StoredSecret>,
    /// OAuth logins for MCP servers, in a separate map, so that tools and servers cannot name a login as a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    logins: BTreeMap<String, StoredSecret>,
    /// The names of the secrets that are canaries.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    canaries: BTreeSet<String>,
}

/// A secret as stored in the file: the value, or a reference to the keyring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredSecret {
    /// The value itself.
    Value(String),
    /// The value is in the keyring, under the same name.
    Keyring,
}

/// Storage location of a value, for output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretLocation {
    /// In the file.
    File,
    /// In the keyring.
    Keyring,
    /// In the environment variable of this name.
    Variable(String),
}

/// Maximum length of a value in bytes. The largest private keys fit.
const MAX_VALUE_SIZE: usize = 64 << 10;

/// Maximum length of a name in bytes.
const MAX_NAME_LENGTH: usize = 64;

impl UserSecrets {
    /// Creates a handle to the secrets of this user. Reads nothing. `None` if there is no folder for the user's
    /// settings.
    pub fn new(user_dirs: &UserDirs) -> Option<Self> {
        Some(Self {
            path: user_dirs.config.as_ref()?.join("secrets.json"),
            keyring: SystemKeyring::find(),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a value in the keyring, or in the file if there is no keyring or `in_file` is true. Returns the location
    /// that was used.
    pub fn set(&self, name: &str, value: &str, in_file: bool) -> Result<SecretLocation, ToolError> {
        check_name(name)?;
        check_value(value)?;
        let keyring = self.keyring.as_ref().filter(|_| !in_file);
        let stored = match keyring {
            Some(keyring) => {
                keyring.set(name, value).map_err(|error| {
                    ToolError::unavailable(format!(
                        "{}; `mimir secrets set {name} --file` stores the value in a file",
                        error.message
                    ))
                })?;
                StoredSecret::Keyring
            }
            None => StoredSecret::Value(value.to_owned()),
        };
        let location = location_of(&stored);
        let previous = self.change(|file| {
            file.canaries.remove(name);
            file.secrets.insert(name.to_owned(), stored)
        })?;
        if let (Some(StoredSecret::Keyring), SecretLocation::File, Some(keyring)) =
            (previous, &location, &self.keyring)
        {
            keyring.remove(name)?;
        }
        Ok(location)
    }

    /// Removes a stored value. Returns true if there was one.
    pub fn remove(&self, name: &str) -> Result<bool, ToolError> {
        let previous = self.change(|file| {
            file.canaries.remove(name);
            file.secrets.remove(name)
        })?;
        if let (Some(StoredSecret::Keyring), Some(keyring)) = (&previous, &self.keyring) {
            keyring.remove(name)?;
        }
        Ok(previous.is_some())
    }

    /// Stores the value of a canary: a fake that is planted and never used. Fails if the name is that of a secret.
    pub fn add_canary(&self, name: &str, value: &str) -> Result<(), ToolError> {
        check_name(name)?;
        check_value(value)?;
        let is_free = self.change(|file| {
            let is_free = !file.secrets.contains_key(name);
            if is_free {
                let stored = StoredSecret::Value(value.to_owned());
                file.secrets.insert(name.to_owned(), stored);
                file.canaries.insert(name.to_owned());
            }
            is_free
        })?;
        if is_free {
            return Ok(());
        }
        let message = format!("the secret `{name}` exists already: choose another name");
        let remedy = format!("`mimir secrets remove {name}` removes it");
        Err(ToolError::invalid_input(message).with_remedies([remedy]))
    }

    /// Returns the names of the canaries.
    pub fn canaries(&self) -> Result<BTreeSet<String>, ToolError> {
        Ok(self.read()?.canaries)
    }

    /// Returns the names of all secrets, with the location of each value.
    pub fn list(
        &self,
        settings: &BTreeMap<String, SecretSettings>,
    ) -> Result<BTreeMap<String, SecretLocation>, ToolError> {
        let stored = self.read()?.secrets;
        let mut locations: BTreeMap<String, SecretLocation> = stored
            .iter()
            .map(|(name, stored)| (name.clone(), location_of(stored)))
            .collect();
        for (name, settings) in settings {
            locations.insert(name.clone(), SecretLocation::Variable(settings.env.clone()));
        }
        Ok(locations)
    }

    /// Returns the names and values of all secrets, including those of logins. Fails if a value cannot be read, because
    /// it could not be masked.
    pub fn values(
        &self,
        settings: &[(String, SecretSettings)],
    ) -> Result<Vec<(String, String)>, ToolError> {
        let mut values = Vec::new();
        let SecretsFile {
            secrets, logins, ..
        } = self.read()?;
        for (key, stored) in logins {
            values.extend(self.login_values(&key, stored)?);
        }
        for (name, stored) in secrets {
            let value = match stored {
                StoredSecret::Value(value) => value,
                StoredSecret::Keyring => self.read_from_keyring(&name)?,
            };
            values.push((name, value));
        }
        values.extend(variables(settings));
        Ok(values)
    }

    /// Returns the stored value of this name, if there is one.
    pub fn value(&self, name: &str) -> Result<Option<String>, ToolError> {
        match self.read()?.secrets.remove(name) {
            Some(StoredSecret::Value(value)) => Ok(Some(value)),
            Some(StoredSecret::Keyring) => self.read_from_keyring(name).map(Some),
            None => Ok(None),
        }
    }

    fn read_from_keyring(&self, name: &str) -> Result<String, ToolError> {
        let remove = format!("remove the secret with `mimir secrets remove {name}`");
        let why = match self.keyring.as_ref().map(|keyring| keyring.get(name)) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => format!("{}; unlock the keyring, or {remove}", error.message),
            None => format!("this system has no keyring; {remove}"),
        };
        Err(ToolError::unavailable(format!(
            "the secret `{name}` cannot be read from the keyring: {why}"
        )))
    }

    /// Reads the file. A missing file counts as empty.
    fn read(&self) -> Result<SecretsFile, ToolError> {
        let unreadable = |why: &dyn std::fmt::Display| {
            ToolError::unavailable(format!("{} cannot be used: {why}", self.path.display()))
        };
        let text = private_files::read(&self.path, OwnerOnly::Reading);
        let Some(text) = text.map_err(|error| unreadable(&error))? else {
            return Ok(SecretsFile::default());
        };
        // The error of serde is not shown, because it may quote a value.
        serde_json::from_str(&text).map_err(|_| {
            unreadable(&"it does not have the format of a secrets file; remove it and set the secrets again")
        })
    }

    /// Applies a change to the file under an inter-process lock.
    fn change<T>(&self, change: impl FnOnce(&mut SecretsFile) -> T) -> Result<T, ToolError> {
        let write_error = |action: &str, error: std::io::Error| {
            let shown = mimir_core::text::visible(&self.path.display().to_string());
            ToolError::unavailable(format!("{shown}: cannot be {action}: {error}"))
        };
        let _guard = private_files::lock_for_change(&self.path)
            .map_err(|error| write_error("changed", error))?;
        let mut file = self.read()?;
        let result = change(&mut file);
        let text = serde_json::to_string_pretty(&file).map_err(ToolError::internal)?;
        private_files::replace(&self.path, text.as_bytes(), FileReaders::Owner)
            .map_err(|error| write_error("written", error))?;
        Ok(result)
    }
}

/// Returns the names and values of secrets in environment variables. Unset variables are skipped.
fn variables(settings: &[(String, SecretSettings)]) -> impl Iterator<Item = (String, String)> {
    settings.iter().filter_map(|(name, settings)| {
        let value = std::env::var_os(&settings.env)?;
        Some((name.clone(), value.to_string_lossy().into_owned()))
    })
}

fn location_of(stored: &StoredSecret) -> SecretLocation {
    match stored {
        StoredSecret::Value(_) => SecretLocation::File,
        StoredSecret::Keyring => SecretLocation::Keyring,
    }
}

/// Checks the name of a secret. The same rule applies to names in the needs of plugins.
fn check_name(name: &str) -> Result<(), ToolError> {
    let is_valid = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
    if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.bytes().all(is_valid) {
        return Err(ToolError::invalid_input(
            "invalid name of a secret: expected 1 to 64 letters, digits, `_`, `-` and `.`",
        ));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), ToolError> {
    let problem = if value.is_empty() {
        "the value is empty"
    } else if value.len() < SHORT_MIN {
        "the value has fewer than 4 bytes, which is too short to be masked: it would match ordinary words"
    } else if value.len() > MAX_VALUE_SIZE {
        "the value is longer than 64 KB"
    } else if value.contains('\0') {
        "the value contains a zero byte"
    } else {
        return Ok(());
    };
    Err(ToolError::invalid_input(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn secrets(folder: &Path) -> UserSecrets {
        UserSecrets {
            path: folder.join("secrets.json"),
            keyring: None,
        }
    }

    #[test]
    fn secret_file_is_private_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = secrets(folder.path());
        let none = BTreeMap::new();
        assert!(secrets.list(&none).unwrap().is_empty());
        assert_eq!(
            secrets.set("API_KEY", "s3cret-value", false).unwrap(),
            SecretLocation::File
        );
        assert_eq!(
            secrets.list(&none).unwrap()["API_KEY"],
            SecretLocation::File
        );
        assert_eq!(
            secrets.values(&[]).unwrap(),
            [("API_KEY".to_owned(), "s3cret-value".to_owned())]
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(secrets.path())
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(0o644))
                .unwrap();
            let error = secrets.values(&[]).unwrap_err();
            assert!(error.message.contains("other users can read it"), "{error}");
            std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(0o600))
                .unwrap();
        }
        assert!(secrets.remove("API_KEY").unwrap());
        assert!(!secrets.remove("API_KEY").unwrap());
    }

    #[test]
    fn secret_in_a_missing_keyring_is_an_error_without_advice_to_unlock_it() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = secrets(folder.path());
        secrets
            .change(|file| file.secrets.insert("KEY".into(), StoredSecret::Keyring))
            .unwrap();
        let error = secrets.value("KEY").unwrap_err();
        assert!(
            error.message.contains("no keyring; remove the secret")
                && !error.message.contains("unlock"),
            "{error}"
        );
    }

    #[test]
    fn secret_validation_errors_do_not_repeat_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = secrets(folder.path());
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            (&"a".repeat(65), "x"),
            ("a", ""),
            ("a", "abc"),
            ("a", "x\0y"),
        ] {
            assert!(secrets.set(name, value, false).is_err(), "{name:?}");
        }
        std::fs::write(secrets.path(), r#"{"secrets": {"a": {"valu": "hunter2"}}}"#).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(secrets.path(), std::fs::Permissions::from_mode(0o600))
                .unwrap();
        }
        let error = secrets.values(&[]).unwrap_err();
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
