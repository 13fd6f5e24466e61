//! The settings and tools that all nodes of a workspace use: published by an administrator, followed by all.

use std::collections::{BTreeMap, BTreeSet};

use mimir_core::shared_state::{
    SharedStateError, SharedStateHandle, StateArea, StateKey, StateRevision,
};
use serde::{Deserialize, Serialize};

use crate::objects::{ComponentStore, OBJECT_SIZE_MAX, ObjectError, object_digest};

mod mirror;

pub use mirror::{DecisionWriter, DeploymentMirror, MirrorChange, NodeIdSource};

/// The format version of manifests that this release reads and writes.
const MANIFEST_VERSION: u32 = 1;

/// Maximum number of files of a deployment.
const FILES_MAX: usize = 2000;

/// Maximum size of all files of a deployment in bytes.
const SIZE_MAX: u64 = 2 * OBJECT_SIZE_MAX;

/// First part of the keys of deployments.
const DEPLOYMENT_KEYS: &str = "deployment";

/// First part of the keys by which nodes report the deployment that they use.
const IN_FORCE_KEYS: &str = "deployed";

/// A file of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployedFile {
    /// Path below `.mimir`, with `/`.
    pub path: String,
    /// SHA-256 of the content in lower-case hex.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// True if the owner may execute the file, such as a script of a skill.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde calls"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The description of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeploymentManifest {
    /// The format version.
    pub version: u32,
    /// The name of the workspace.
    pub workspace: String,
    /// The files, sorted by path.
    pub files: Vec<DeployedFile>,
    /// Digests of settings that the administrator has accepted, as `mimir policy accept` stores them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accepted_settings: BTreeSet<String>,
    /// Digests of accepted worker files.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accepted_workers: BTreeSet<String>,
    /// Ids of the grants that the administrator has given, by the location of the plugin. The grants are in the lock file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grants: BTreeMap<String, String>,
    /// The user who has published it.
    pub published_by: String,
    /// The time, in milliseconds since 1970.
    pub published_at_ms: u64,
}

impl DeploymentManifest {
    /// Creates the manifest of these files.
    pub fn new(
        workspace: &str,
        mut files: Vec<DeployedFile>,
        published_by: String,
        published_at_ms: u64,
    ) -> Self {
        files.sort();
        Self {
            version: MANIFEST_VERSION,
            workspace: workspace.to_owned(),
            files,
            accepted_settings: BTreeSet::new(),
            accepted_workers: BTreeSet::new(),
            grants: BTreeMap::new(),
            published_by,
            published_at_ms,
        }
    }

    /// Returns the description of a file with this content.
    pub fn file(path: &str, content: &[u8], executable: bool) -> DeployedFile {
        DeployedFile {
            path: path.to_owned(),
            sha256: object_digest(content),
            size: content.len() as u64,
            executable,
        }
    }

    /// Checks that all files can be written into a folder.
    fn check(&self) -> Result<(), DeploymentError> {
        let invalid = |text: String| Err(DeploymentError::Invalid(text));
        if self.version != MANIFEST_VERSION {
            return invalid(format!(
                "its format version is {}: expected {MANIFEST_VERSION}; update mimir",
                self.version
            ));
        }
        if self.files.len() > FILES_MAX {
            return invalid(format!(
                "it has {} files: expected at most {FILES_MAX}",
                self.files.len()
            ));
        }
        let size: u64 = self
            .files
            .iter()
            .map(|file| file.size)
            .fold(0, u64::saturating_add);
        if size > SIZE_MAX {
            return invalid(format!("it has {size} bytes: expected at most {SIZE_MAX}"));
        }
        // File systems that ignore case would write two files to one path.
        let mut paths = BTreeSet::new();
        for file in &self.files {
            if !is_deployable(&file.path) {
                return invalid(format!(
                    "the path {:?} is not allowed in a deployment",
                    file.path
                ));
            }
            if !paths.insert(file.path.to_lowercase()) {
                return invalid(format!("the path {:?} is not unique", file.path));
            }
        }
        Ok(())
    }
}

/// Returns true if a file below `.mimir` belongs to a deployment: settings, the lock file, and all below `tools`,
/// `workers` and `skills`, except hidden files. Skills may have hidden files, because a person has accepted all of them.
pub fn is_deployable(path: &str) -> bool {
    let is_name = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.contains(['\\', ':', '\0'])
            && !part.chars().any(char::is_control)
    };
    let is_plain = |part: &str| is_name(part) && !part.starts_with('.');
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    match first {
        "config.yml" | "tools.lock" => rest.is_empty(),
        "tools" | "workers" => !rest.is_empty() && rest.iter().all(|part| is_plain(part)),
        "skills" => {
            let (skill, files) = rest.split_first().unwrap_or((&"", &[]));
            is_plain(skill) && files.iter().all(|part| is_name(part))
        }
        _ => false,
    }
}

/// A published deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The description.
    pub manifest: DeploymentManifest,
    /// The revision, for the next publication.
    pub revision: StateRevision,
}

/// The entry of a workspace in the shared state.
#[derive(Debug)]
pub struct PublishedEntry {
    /// The revision, for the next publication.
    pub revision: StateRevision,
    /// The description, or why it is not valid.
    pub manifest: Result<DeploymentManifest, DeploymentError>,
}

/// The format version of an entry, whatever else is in it.
#[derive(Deserialize)]
struct StatedVersion {
    version: u32,
}

/// Error of a deployment.
#[derive(Debug, thiserror::Error)]
pub enum DeploymentError {
    /// The manifest is not valid.
    #[error("the deployment is not valid: {0}")]
    Invalid(String),
    /// Another administrator has published in between.
    #[error(
        "someone else has published in the meantime, so nothing was published: look at the changes again"
    )]
    Conflict,
    /// The shared state.
    #[error(transparent)]
    State(SharedStateError),
    /// The objects.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The decisions that come with the deployment cannot be stored.
    #[error("the grants of the deployment cannot be stored: {0}")]
    Decisions(String),
    /// A file of the node.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
}

impl From<SharedStateError> for DeploymentError {
    fn from(error: SharedStateError) -> Self {
        match error {
            SharedStateError::Conflict => Self::Conflict,
            error => Self::State(error),
        }
    }
}

/// The deployment that a node uses, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentInForce {
    /// The name of the workspace.
    pub workspace: String,
    /// The revision in force. `None` if the node uses its own files.
    pub revision: Option<StateRevision>,
    /// The cause if a newer revision could not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Settings that have changed since the process started, and that it only reads at its start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
    /// Files of tools that the node cannot use, each with the problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The teams whose members the node is, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub teams: BTreeMap<String, TeamInUse>,
}

/// The bundle of a team that a node uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamInUse {
    /// The version of the stored bundle. `None` if none is stored, or if it cannot be used.
    pub version: Option<u64>,
    /// The cause if the published bundle could not be put in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The facts that a node reports beside its deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCondition {
    /// Settings that have changed and that the process only reads at its start.
    pub needs_restart: Vec<String>,
    /// Files of tools that the process cannot use, each with the problem.
    pub left_out: Vec<String>,
    /// The teams whose members the node is, by id.
    pub teams: BTreeMap<String, TeamInUse>,
}

/// Access to the deployments of a cluster.
#[derive(Clone)]
pub struct Deployments {
    state: SharedStateHandle,
    store: ComponentStore,
}

impl Deployments {
    /// Creates access to the deployments in this state and store.
    pub fn new(state: SharedStateHandle, store: ComponentStore) -> Self {
        Self { state, store }
    }

    /// Returns the published deployment of a workspace.
    pub async fn current(&self, workspace: &str) -> Result<Option<Deployment>, DeploymentError> {
        let entry = self
            .state
            .get(StateArea::Deployment, &deployment_key(workspace))
            .await?;
        entry
            .map(|entry| parse(&entry.value, entry.revision))
            .transpose()
    }

    /// Returns the entry that a publication replaces, also if it is not a valid deployment. Fails if a newer release has
    /// written it.
    pub async fn published(
        &self,
        workspace: &str,
    ) -> Result<Option<PublishedEntry>, DeploymentError> {
        let key = deployment_key(workspace);
        let Some(entry) = self.state.get(StateArea::Deployment, &key).await? else {
            return Ok(None);
        };
        let manifest = parse(&entry.value, entry.revision).map(|deployment| deployment.manifest);
        let stated: Option<StatedVersion> = serde_json::from_slice(&entry.value).ok();
        match manifest {
            Err(error) if stated.is_some_and(|stated| stated.version > MANIFEST_VERSION) => {
                Err(error)
            }
            manifest => Ok(Some(PublishedEntry {
                revision: entry.revision,
                manifest,
            })),
        }
    }

    /// Stores the content of a file.
    pub async fn store_file(&self, content: Vec<u8>) -> Result<(), DeploymentError> {
        self.store.put(content.into()).await?;
        Ok(())
    }

    /// Publishes a deployment whose files are stored. `replaced` is the revision that the administrator has seen, or
    /// `None` for the first one.
    pub async fn publish(
        &self,
        manifest: &DeploymentManifest,
        replaced: Option<StateRevision>,
    ) -> Result<StateRevision, DeploymentError> {
        manifest.check()?;
        let value = serde_json::to_vec(manifest);
        let value = value.map_err(|error| DeploymentError::Invalid(error.to_string()))?;
        let (area, key) = (StateArea::Deployment, deployment_key(&manifest.workspace));
        let revision = match replaced {
            Some(revision) => self.state.update(area, &key, value, revision, None).await?,
            None => self.state.create(area, &key, value, None).await?,
        };
        Ok(revision)
    }

    /// Returns the deployments that nodes report, by the id of the node.
    pub async fn in_force(&self) -> Result<Vec<(String, DeploymentInForce)>, DeploymentError> {
        let prefix = StateKey::new([IN_FORCE_KEYS]);
        let entries = self.state.list(StateArea::Nodes, Some(&prefix)).await?;
        let reports = entries.iter().filter_map(|entry| {
            let node = entry.key.as_str().rsplit('.').next()?;
            Some((node.to_owned(), serde_json::from_slice(&entry.value).ok()?))
        });
        Ok(reports.collect())
    }

    /// Returns all published deployments.
    pub async fn list(&self) -> Result<Vec<Deployment>, DeploymentError> {
        let prefix = StateKey::new([DEPLOYMENT_KEYS]);
        let entries = self
            .state
            .list(StateArea::Deployment, Some(&prefix))
            .await?;
        entries
            .iter()
            .map(|entry| parse(&entry.value, entry.revision))
            .collect()
    }
}

fn deployment_key(workspace: &str) -> StateKey {
    StateKey::new([DEPLOYMENT_KEYS, workspace])
}

fn in_force_key(node: &str) -> StateKey {
    StateKey::new([IN_FORCE_KEYS, node])
}

fn parse(value: &[u8], revision: StateRevision) -> Result<Deployment, DeploymentError> {
    let manifest: DeploymentManifest = serde_json::from_slice(value)
        .map_err(|error| DeploymentError::Invalid(error.to_string()))?;
    manifest.check()?;
    Ok(Deployment { manifest, revision })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_paths_cannot_leave_the_folder() {
        for path in [
            "config.yml",
            "tools.lock",
            "tools/a.wasm",
            "tools/x/tool.yml",
            "workers/a.md",
            "skills/forms/scripts/fill.py",
            "skills/forms/.github/x",
        ] {
            assert!(is_deployable(path), "{path}");
        }
        for path in [
            "",
            "/",
            "tools",
            "tools/",
            "tools/../config.yml",
            "../x",
            "/etc/passwd",
            "state/audit.jsonl",
            "tools//a",
            "tools/.git/x",
            "tools/a\\b",
            "tools/c:x",
            "config.yml/x",
            "tools/a\nb",
            ".gitignore",
            "signatures/a",
            "skills",
            "skills/.forms/a",
            "skills/forms/../../config.yml",
            "skills/forms/./a",
        ] {
            assert!(!is_deployable(path), "{path}");
        }
    }

    #[test]
    fn manifests_with_bad_files_are_refused() {
        let file = |path: &str, size| DeployedFile {
            path: path.to_owned(),
            sha256: "0".repeat(64),
            size,
            executable: false,
        };
        let check = |files| DeploymentManifest::new("w", files, "a".to_owned(), 0).check();
        assert!(check(vec![file("config.yml", 1), file("tools/a", 1)]).is_ok());
        assert!(check(vec![file("tools/a", 1), file("tools/A", 1)]).is_err());
        assert!(check(vec![file("tools/a", u64::MAX), file("tools/b", 1)]).is_err());
        assert!(check(vec![file("state/x", 1)]).is_err());
        assert!(check(vec![file("tools/x", 1); 2001]).is_err());
        let mut newer = DeploymentManifest::new("w", Vec::new(), "a".to_owned(), 0);
        newer.version = 2;
        assert!(
            newer
                .check()
                .unwrap_err()
                .to_string()
                .contains("update mimir")
        );
    }
}
