//! A team that publishes signed bundles to a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jiff::{SignedDuration, Timestamp};
use mimir_core::grants::Grant;
use mimir_registry::OciDigest;
use mimir_registry::signature::{DsseEnvelope, KeyAlgorithm, SigningKey};
use mimir_registry::team::{
    BUNDLE_PAYLOAD_TYPE, BundledFile, BundledTool, TeamBundle, TeamIdentity, blob_path,
};
use serde_json::Value;
use tempfile::TempDir;

use super::{plugin, run};

/// The name of the tool in the team's component.
pub const TOOL: &str = "prob_search";

/// A team with its key and the folder of its bundle.
pub struct Team {
    /// The key that signs the next bundle.
    pub key: SigningKey,
    /// The next bundle. Publishing increases its version.
    pub bundle: TeamBundle,
    folder: TempDir,
}

/// The grant that a person gives to the component of [`Team::with_tool`].
fn grant() -> Grant {
    static GRANT: OnceLock<String> = OnceLock::new();
    let text = GRANT.get_or_init(|| {
        let home = tempfile::tempdir().unwrap();
        let tools = home.path().join(".mimir/tools");
        fs::create_dir_all(&tools).unwrap();
        fs::write(tools.join("prob.wasm"), plugin::search()).unwrap();
        let digest = OciDigest::of_bytes(&plugin::search()).hex();
        let trust = ["tools", "trust", TOOL, "--digest", &digest];
        let (code, _, err) = run(home.path(), &trust);
        assert_eq!(code, 0, "{err}");
        let lock = fs::read_to_string(home.path().join(".mimir/tools.lock")).unwrap();
        let lock: Value = serde_yaml::from_str(&lock).unwrap();
        lock["plugins"][".mimir/tools/prob.wasm"].to_string()
    });
    serde_json::from_str(text).unwrap()
}

impl Team {
    /// A team without tools that has published nothing.
    pub fn new(settings: &str) -> Self {
        let now = Timestamp::now();
        let team = TeamIdentity {
            org_id: "acme".to_owned(),
            name: "Acme".to_owned(),
        };
        let issued_at = now - SignedDuration::from_hours(1);
        let expires_at = now + SignedDuration::from_hours(1000);
        let bundle = TeamBundle {
            settings: settings.to_owned(),
            ..TeamBundle::new(0, team, issued_at, expires_at)
        };
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        Self {
            key: SigningKey::generate(KeyAlgorithm::Ed25519).unwrap(),
            bundle,
            folder,
        }
    }

    /// Adds the tool [`TOOL`] in a component with its grant.
    pub fn with_tool(mut self, enforced: bool) -> Self {
        let (digest, size) = self.put(&plugin::search());
        self.bundle.tools.push(BundledTool {
            file: "prob.wasm".to_owned(),
            digest,
            size,
            reference: None,
            signer: None,
            enforced,
            grant: Some(grant()),
        });
        self
    }

    /// Adds a file as a blob, for a list of the bundle.
    pub fn file(&self, path: &str, text: &str) -> BundledFile {
        let (digest, size) = self.put(text.as_bytes());
        BundledFile {
            path: path.to_owned(),
            digest,
            size,
        }
    }

    fn put(&self, bytes: &[u8]) -> (OciDigest, u64) {
        let digest = OciDigest::of_bytes(bytes);
        fs::write(self.folder().join(blob_path(&digest)), bytes).unwrap();
        (digest, bytes.len() as u64)
    }

    /// The folder of the bundle.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of the first tool's component in the folder.
    pub fn component(&self) -> PathBuf {
        self.folder().join(blob_path(&self.bundle.tools[0].digest))
    }

    /// Signs the next version and publishes it.
    pub fn publish(&mut self) {
        self.bundle.version += 1;
        fs::write(self.folder().join("team.json"), self.signed()).unwrap();
    }

    /// The signed envelope of the current bundle.
    pub fn signed(&self) -> Vec<u8> {
        let payload = self.bundle.to_payload().unwrap();
        let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, &self.key).unwrap();
        envelope.to_json().unwrap()
    }

    /// Writes the public key to a file, and returns its path.
    pub fn key_file(&self) -> String {
        let path = self.folder().join("acme.pub");
        fs::write(&path, self.key.verifying_key().to_pem()).unwrap();
        path.display().to_string()
    }

    /// The block `teams` of a config file.
    pub fn block(&self) -> String {
        let pem = self.key.verifying_key().to_pem().replace('\n', "\n      ");
        format!(
            "teams:\n  enabled: true\n  orgId: acme\n  reference: {}\n  keys:\n    - |\n      {}\n",
            self.folder().display(),
            pem.trim_end()
        )
    }

    /// Joins the team from the workspace `home`.
    pub fn join(&self, home: &Path) {
        let folder = self.folder().display().to_string();
        let (code, _, err) = run(
            home,
            &["team", "join", &folder, "--key", &self.key_file(), "--yes"],
        );
        assert_eq!(code, 0, "{err}");
    }
}
