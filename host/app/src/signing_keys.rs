//! The user's keys for signatures, and the trust policy of the settings.
//!
//! A key has two files in the folder `keys` of the user's settings: `NAME.key`, the encrypted private key, and
//! `NAME.pub`, the public key. A public key alone is a key that the user trusts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mimir_core::config::KeySource;
use mimir_core::files::{self, LinkPolicy};
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{
    KeyAlgorithm, MAX_KEY_FILE, NamedKey, SignatureError, SigningKey, TrustPolicy, TrustRoot,
    VerifyingKey,
};

use crate::file_error::file_error;
use crate::private_files::{self, FileReaders, OwnerOnly};
use crate::setup::HostSetup;
use crate::user_dirs::UserDirs;

/// Variable with the password of a private key.
pub const KEY_PASSWORD_VARIABLE: &str = "MIMIR_KEY_PASSWORD";

/// Maximum length of a name in bytes.
const MAX_NAME_LENGTH: usize = 64;
/// Maximum size of a trust root file in bytes.
const MAX_TRUST_ROOT: u64 = 4 << 20;

/// The folder with the keys of this user.
#[derive(Debug, Clone)]
pub struct UserKeys {
    folder: PathBuf,
}

/// A key of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The name.
    pub name: String,
    /// The public key.
    pub public: VerifyingKey,
    /// True if the private key is stored, too.
    pub can_sign: bool,
}

impl UserKeys {
    /// Creates a handle to the keys of this user. Reads nothing.
    ///
    /// # Errors
    /// The environment defines no folder for settings.
    pub fn new(user_dirs: &UserDirs) -> Result<Self, ToolError> {
        let config = user_dirs.config.as_ref().ok_or_else(|| {
            ToolError::unavailable(
                "cannot store keys without a user config folder; set MIMIR_CONFIG_DIR",
            )
        })?;
        Ok(Self {
            folder: config.join("keys"),
        })
    }

    /// Generates a key and stores it, encrypted with the password.
    pub fn create(
        &self,
        name: &str,
        algorithm: KeyAlgorithm,
        password: &str,
    ) -> Result<StoredKey, ToolError> {
        let _lock = self.lock_new(name)?;
        self.store_private(name, &SigningKey::generate(algorithm)?, password)
    }

    /// Stores a private key, encrypted with the password.
    pub fn import_private(
        &self,
        name: &str,
        key: &SigningKey,
        password: &str,
    ) -> Result<StoredKey, ToolError> {
        let _lock = self.lock_new(name)?;
        self.store_private(name, key, password)
    }

    /// Stores a public key.
    pub fn import_public(&self, name: &str, key: &VerifyingKey) -> Result<StoredKey, ToolError> {
        let _lock = self.lock_new(name)?;
        self.write_public(name, key)?;
        Ok(StoredKey {
            name: name.to_owned(),
            public: key.clone(),
            can_sign: false,
        })
    }

    /// Lists the keys, sorted by name. Fails if a file is not a key.
    pub fn list(&self) -> Result<Vec<StoredKey>, ToolError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file_error("list", &self.folder, &error)),
        };
        let names = entries.filter_map(|entry| {
            let file = entry.ok()?.file_name().into_string().ok()?;
            Some(file.strip_suffix(".pub")?.to_owned())
        });
        let mut names: Vec<_> = names.filter(|name| check_name(name).is_ok()).collect();
        names.sort_unstable();
        names.iter().map(|name| self.find(name)).collect()
    }

    /// Returns the key with this name.
    pub fn find(&self, name: &str) -> Result<StoredKey, ToolError> {
        check_name(name)?;
        let path = self.public_path(name);
        let text = private_files::read(&path, OwnerOnly::Writing)
            .map_err(|error| file_error("read", &path, &error))?
            .ok_or_else(|| unknown_key(name))?;
        Ok(StoredKey {
            name: name.to_owned(),
            public: parse_public(&path, text.as_bytes())?,
            can_sign: self.private_path(name).exists(),
        })
    }

    /// Removes a key. Returns false if neither of its files exists.
    pub fn remove(&self, name: &str) -> Result<bool, ToolError> {
        check_name(name)?;
        let _lock = self.lock()?;
        // The private key first: a public key that is left behind can be removed again.
        let private = remove_file(&self.private_path(name))?;
        Ok(remove_file(&self.public_path(name))? || private)
    }

    /// Returns the text of a private key: that of a name, or of a file.
    pub fn read_private(&self, key: &str) -> Result<String, ToolError> {
        let path = match KeySource::classify(key) {
            KeySource::Name => {
                check_name(key)?;
                self.private_path(key)
            }
            KeySource::File => PathBuf::from(key),
            KeySource::Pem => {
                return Err(ToolError::invalid_input(
                    "a private key is named by its name or file: the command line is visible to other users",
                ));
            }
        };
        let read = |protection| {
            let text = private_files::read(&path, protection);
            text.map_err(|error| file_error("use the key", &path, &error))
        };
        let Some(text) = read(OwnerOnly::Writing)? else {
            let is_public =
                KeySource::classify(key) == KeySource::Name && self.public_path(key).exists();
            return Err(if is_public {
                ToolError::not_found(format!("`{key}` is only a public key, which cannot sign"))
            } else {
                unknown_key(key)
            });
        };
        if !SigningKey::is_encrypted(text.as_bytes()) {
            read(OwnerOnly::Reading)?;
        }
        Ok(text)
    }

    /// Returns the trusted keys that an entry of `trust.keys` names.
    pub fn verifying_keys(&self, key: &str) -> Result<Vec<NamedKey>, SignatureError> {
        let fault = |error: ToolError| SignatureError::Settings(error.message);
        let named = match KeySource::classify(key) {
            KeySource::Name => {
                let stored = self.find(key).map_err(fault)?;
                NamedKey {
                    name: stored.name,
                    key: stored.public,
                }
            }
            KeySource::File => {
                let path = Path::new(key);
                let name = path.file_stem().and_then(|stem| stem.to_str());
                NamedKey {
                    name: name.unwrap_or(key).to_owned(),
                    key: read_public(path).map_err(fault)?,
                }
            }
            KeySource::Pem => NamedKey {
                name: "PEM".to_owned(),
                key: VerifyingKey::from_pem(key.as_bytes())?,
            },
        };
        Ok(vec![named])
    }

    fn store_private(
        &self,
        name: &str,
        key: &SigningKey,
        password: &str,
    ) -> Result<StoredKey, ToolError> {
        if password.is_empty() {
            return Err(ToolError::invalid_input(
                "the password is empty: a private key is stored encrypted",
            ));
        }
        let pem = key.to_encrypted_pem(password.as_bytes())?;
        let path = self.private_path(name);
        private_files::replace(&path, pem.as_bytes(), FileReaders::Owner)
            .map_err(|error| file_error("write", &path, &error))?;
        let public = key.verifying_key().clone();
        if let Err(error) = self.write_public(name, &public) {
            // Without its public key, the name could neither be listed nor used again.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(StoredKey {
            name: name.to_owned(),
            public,
            can_sign: true,
        })
    }

    fn write_public(&self, name: &str, key: &VerifyingKey) -> Result<(), ToolError> {
        let path = self.public_path(name);
        let written =
            private_files::replace(&path, key.to_pem().as_bytes(), FileReaders::Everybody);
        written.map_err(|error| file_error("write", &path, &error))
    }

    /// Checks that a key can be stored under this name, before a password is asked for.
    pub fn check_new(&self, name: &str) -> Result<(), ToolError> {
        check_name(name)?;
        let mut paths = [self.private_path(name), self.public_path(name)].into_iter();
        if paths.any(|path| path.symlink_metadata().is_ok()) {
            let message = format!("the key `{name}` exists already: choose another name");
            return Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
                .with_remedies([format!("mimir keys remove {name}")]));
        }
        Ok(())
    }

    /// Acquires the lock for a name that must not exist.
    fn lock_new(&self, name: &str) -> Result<std::fs::File, ToolError> {
        check_name(name)?;
        let lock = self.lock()?;
        self.check_new(name)?;
        Ok(lock)
    }

    fn lock(&self) -> Result<std::fs::File, ToolError> {
        private_files::lock_for_change(&self.folder.join("keys"))
            .map_err(|error| file_error("use the folder", &self.folder, &error))
    }

    fn private_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.key"))
    }

    fn public_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pub"))
    }
}

fn check_name(name: &str) -> Result<(), ToolError> {
    let is_valid = |c: u8| c.is_ascii_alphanumeric() || b"_-".contains(&c);
    let is_name = (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name.bytes().all(is_valid)
        && !name.starts_with('-');
    if is_name {
        return Ok(());
    }
    Err(ToolError::invalid_input(
        "invalid name of a key: expected 1 to 64 letters, digits, `_` and `-`",
    ))
}

fn unknown_key(name: &str) -> ToolError {
    ToolError::not_found(format!("unknown key `{}`", visible(name))).with_remedies([
        "mimir keys list".to_owned(),
        format!("mimir keys new {}", visible(name)),
    ])
}

fn remove_file(path: &Path) -> Result<bool, ToolError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file_error("remove", path, &error)),
    }
}

/// Reads a file with a public key.
pub fn read_public(path: &Path) -> Result<VerifyingKey, ToolError> {
    let text = files::read(path, LinkPolicy::Follow, MAX_KEY_FILE as u64)
        .map_err(|error| file_error("read the key", path, &error))?;
    parse_public(path, &text)
}

fn parse_public(path: &Path, text: &[u8]) -> Result<VerifyingKey, ToolError> {
    VerifyingKey::from_pem(text).map_err(|error| {
        let shown = visible(&path.display().to_string());
        ToolError::invalid_input(format!("{shown}: {error}"))
    })
}

/// Returns the trust policy of the settings.
///
/// # Errors
/// A key or the trust root cannot be read, or it lies in the workspace, where a change of it would need no acceptance.
pub fn trust_policy(setup: &HostSetup) -> Result<TrustPolicy, ToolError> {
    let config = &setup.settings.config;
    let workspace = setup.workspace.root();
    let root = config.trust_root.as_deref().map(Path::new);
    let root = root
        .map(|path| {
            check_outside(path, workspace)?;
            let json = files::read(path, LinkPolicy::Follow, MAX_TRUST_ROOT)
                .map_err(|error| file_error("read the trust root", path, &error))?;
            TrustRoot::from_json(&json).map_err(ToolError::from)
        })
        .transpose()?;
    let load_keys = |key: &str| {
        let fault = |error: ToolError| SignatureError::Settings(error.message);
        if KeySource::classify(key) == KeySource::File {
            check_outside(Path::new(key), workspace).map_err(fault)?;
        }
        UserKeys::new(&setup.user_dirs)
            .map_err(fault)?
            .verifying_keys(key)
    };
    let layers = config.trust_layers;
    let root = root.map(|root| (root, layers.root));
    let required_by = config.enforcement.require_signature;
    let required_by = required_by.then(|| layers.signature.unwrap_or_default());
    let policy = TrustPolicy::from_settings(&config.trust, root, required_by, load_keys)?;
    // The teams' revoked keys sign nothing any more, whoever trusts them.
    let mut revoked = Vec::new();
    for team in &setup.settings.teams {
        revoked.extend_from_slice(&team.bundle.revoked_keys);
        if let Some(record) = team.store().record()? {
            revoked.extend(record.revoked);
        }
    }
    Ok(policy.revoke(revoked))
}

/// Refuses a file in the workspace: a checkout or a tool could change it after a person has accepted the settings.
fn check_outside(path: &Path, workspace: &Path) -> Result<(), ToolError> {
    let resolved = path.canonicalize();
    let resolved = resolved.map_err(|error| file_error("read", path, &error))?;
    let workspace = workspace
        .canonicalize()
        .unwrap_or_else(|_| workspace.to_owned());
    if resolved.starts_with(workspace) {
        return Err(ToolError::invalid_input(format!(
            "{} is in the workspace, where others can change it: write the key as PEM text into the settings, or \
             store the file in the folder of your own settings",
            visible(&path.display().to_string())
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> (tempfile::TempDir, UserKeys) {
        let folder = tempfile::tempdir().unwrap();
        let dirs = UserDirs {
            config: Some(folder.path().join("config")),
            ..UserDirs::default()
        };
        let keys = UserKeys::new(&dirs).unwrap();
        (folder, keys)
    }

    #[test]
    fn keys_are_created_listed_and_removed() {
        let (_folder, keys) = keys();
        assert_eq!(keys.list().unwrap(), []);
        let made = keys
            .create("release", KeyAlgorithm::Ed25519, "secret")
            .unwrap();
        assert_eq!(keys.list().unwrap(), std::slice::from_ref(&made));
        let text = keys.read_private("release").unwrap();
        let read = SigningKey::from_pem(text.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!(read.verifying_key(), &made.public);
        let trusted = keys.verifying_keys("release").unwrap();
        assert_eq!(
            (&trusted[0].name[..], &trusted[0].key),
            ("release", &made.public)
        );
        let again = keys.create("release", KeyAlgorithm::Ed25519, "other");
        assert_eq!(again.unwrap_err().code, ToolErrorCode::AlreadyExists);
        assert_eq!(keys.find("release").unwrap(), made, "the key was replaced");
        assert!(keys.remove("release").unwrap());
        assert!(!keys.remove("release").unwrap());
        assert_eq!(
            keys.find("release").unwrap_err().code,
            ToolErrorCode::NotFound
        );
    }

    #[test]
    fn key_names_cannot_leave_the_folder() {
        let (_folder, keys) = keys();
        for name in ["", "..", "../x", "a/b", "a.b", "-a", "a\0", &"x".repeat(65)] {
            let error = keys.create(name, KeyAlgorithm::Ed25519, "x").unwrap_err();
            assert_eq!(error.code, ToolErrorCode::InvalidInput, "{name}");
        }
        assert!(keys.create("a", KeyAlgorithm::Ed25519, "").is_err());
        assert_eq!(keys.list().unwrap(), []);
    }

    #[test]
    fn public_key_does_not_sign() {
        let (_folder, keys) = keys();
        let other = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
        keys.import_public("partner", other.verifying_key())
            .unwrap();
        assert!(!keys.find("partner").unwrap().can_sign);
        let error = keys.read_private("partner").unwrap_err();
        assert!(
            error.message.contains("only a public key"),
            "{}",
            error.message
        );
    }

    #[test]
    #[cfg(unix)]
    fn unencrypted_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, keys) = keys();
        let path = folder.path().join("own.pem");
        let text = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
        std::fs::write(&path, text).unwrap();
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            keys.read_private(path.to_str().unwrap())
        };
        assert!(read(0o644).is_err());
        assert!(read(0o600).is_ok());
    }

    #[test]
    fn trusted_file_in_the_workspace_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        let (inside, outside) = (workspace.join("a.pub"), folder.path().join("a.pub"));
        std::fs::write(&inside, "").unwrap();
        std::fs::write(&outside, "").unwrap();
        assert!(check_outside(&inside, &workspace).is_err());
        assert!(check_outside(&folder.path().join("w/../w/a.pub"), &workspace).is_err());
        assert!(check_outside(&outside, &workspace).is_ok());
        assert!(check_outside(&folder.path().join("missing"), &workspace).is_err());
    }
}
