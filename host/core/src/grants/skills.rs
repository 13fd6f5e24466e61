//! Pins of skills in the lock file: the content that a person has accepted, and the permissions that a skill has while
//! it is in use.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::SourceSigner;

/// A skill of a workspace, pinned to the content of its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SkillPin {
    /// The folder of the skill, relative to the workspace root, with `/` between components.
    pub folder: String,
    /// The source that a person named: a reference in a registry, a URL or a folder.
    pub source: String,
    /// The digest of the artifact in the registry, or of the file behind the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// The signer of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<SourceSigner>,
    /// sha256 over the names and contents of all files, in lower-case hex.
    pub digest: String,
    /// True if a person has accepted the instructions as their own. The content of other skills counts as untrusted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    /// The entries of `allowed-tools` that a person has granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
}

impl SkillPin {
    /// Returns the id of the pin of the skill `name`: sha256 over the name and all fields, in lower-case hex. The user's
    /// own record of consents stores this id, so a lock file from a checkout accepts no skill.
    pub fn id(&self, name: &str) -> String {
        let mut hash = Sha256::new();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        // Fields have a fixed order, so equal pins have equal JSON.
        hash.update(serde_json::to_vec(self).unwrap_or_default());
        format!("{:x}", hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_pin_id_depends_on_every_field() {
        let pin = SkillPin {
            folder: ".mimir/skills/a".to_owned(),
            source: "a".to_owned(),
            artifact: None,
            signer: None,
            digest: "00".to_owned(),
            trusted: false,
            allowed_tools: Vec::new(),
        };
        let id = pin.id("a");
        assert_ne!(pin.id("b"), id);
        type Change = fn(&mut SkillPin);
        let changes: [Change; 7] = [
            |pin| pin.folder.push('x'),
            |pin| pin.source.push('x'),
            |pin| pin.artifact = Some("x".to_owned()),
            |pin| {
                pin.signer = Some(SourceSigner::Key {
                    key: "x".to_owned(),
                    name: None,
                });
            },
            |pin| pin.digest.push('1'),
            |pin| pin.trusted = true,
            |pin| pin.allowed_tools.push("Read".to_owned()),
        ];
        for change in changes {
            let mut other = pin.clone();
            change(&mut other);
            assert_ne!(other.id("a"), id, "{other:?}");
        }
    }
}
