//! The fingerprint that an approval is bound to.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::call::CallingTool;

/// sha256 over the tool's name, the digest of its build, the arguments and the callers, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

/// Length of the short form in characters: enough to distinguish the fingerprints in a list.
const SHORT_LEN: usize = 12;

impl Fingerprint {
    /// Returns the fingerprint of a top-level call.
    pub fn new(tool: &str, digest: &str, arguments: &Value) -> Self {
        Self::for_nested_call(tool, digest, arguments, &[])
    }

    /// Returns the fingerprint of a nested call. `callers` begins with the outermost.
    pub fn for_nested_call(
        tool: &str,
        digest: &str,
        arguments: &Value,
        callers: &[CallingTool],
    ) -> Self {
        let mut hash = Sha256::new();
        for part in [tool, digest] {
            hash_part(&mut hash, part);
        }
        hash_value(&mut hash, arguments);
        for caller in callers {
            hash_part(&mut hash, caller.tool.as_str());
            hash_part(&mut hash, &caller.digest);
        }
        Self(format!("{:x}", hash.finalize()))
    }

    /// Returns the fingerprint as 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 12 hex digits, for display.
    pub fn short(&self) -> &str {
        crate::text::prefix_bytes(&self.0, SHORT_LEN)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Hashes the length of a text, then the text.
fn hash_part(hash: &mut Sha256, part: &str) {
    hash.update((part.len() as u64).to_le_bytes());
    hash.update(part);
}

/// Hashes a JSON value independently of the order of object members.
fn hash_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            hash.update([b'{']);
            hash.update((members.len() as u64).to_le_bytes());
            for (name, item) in members {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name);
                hash_value(hash, item);
            }
        }
        Value::Array(items) => {
            hash.update([b'[']);
            hash.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| hash_value(hash, item));
        }
        Value::String(text) => {
            hash.update([b'"']);
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        plain => {
            let text = plain.to_string();
            hash.update([b'=']);
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fingerprint_depends_on_tool_digest_and_arguments() {
        let base = Fingerprint::new("a", "d", &json!({"x": "1", "y": [1, 2]}));
        assert_eq!(
            base,
            Fingerprint::new("a", "d", &json!({"y": [1, 2], "x": "1"}))
        );
        for (tool, digest, arguments) in [
            ("b", "d", json!({"x": "1", "y": [1, 2]})),
            ("a", "e", json!({"x": "1", "y": [1, 2]})),
            ("ad", "", json!({"x": "1", "y": [1, 2]})),
            ("a", "d", json!({"x": 1, "y": [1, 2]})),
            ("a", "d", json!({"x": "1", "y": [2, 1]})),
            ("a", "d", json!({"x": "1", "y": [[1], 2]})),
            ("a", "d", json!({"x": "1"})),
        ] {
            assert_ne!(
                base,
                Fingerprint::new(tool, digest, &arguments),
                "{tool} {arguments}"
            );
        }
        assert_eq!(base.as_str().len(), 64);
    }
}
