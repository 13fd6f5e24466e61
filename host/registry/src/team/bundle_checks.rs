//! Checks of a team's bundle: ranges, and paths that are safe on every platform.

use std::collections::{BTreeMap, BTreeSet};

use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};

use super::bundle::{MAX_BLOB_SIZE, TeamBundle};

/// Maximum number of tools, and of files of each kind.
const MAX_ENTRIES: usize = 500;

/// Maximum number of keys, models and revoked keys.
const MAX_LIST: usize = 1000;

/// Maximum size of the settings in bytes, as for other config files.
const MAX_SETTINGS_SIZE: usize = 1 << 20;

/// Maximum length of a path in bytes.
const MAX_PATH_LENGTH: usize = 200;

/// Maximum length of the id and the name of a team in characters.
const MAX_NAME_LENGTH: usize = 64;

/// A bundle that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The payload has another format.
    #[error("the team's bundle is not valid: {0}")]
    Format(String),
    /// A value is not allowed.
    #[error("the team's bundle is not valid: {key}: {why}")]
    Value {
        /// The key in the bundle.
        key: String,
        /// The fault, and what was expected.
        why: String,
    },
}

impl From<BundleError> for ToolError {
    fn from(error: BundleError) -> Self {
        Self::new(ToolErrorCode::InvalidInput, visible(&error.to_string()))
    }
}

fn fault(key: impl Into<String>, why: impl Into<String>) -> BundleError {
    BundleError::Value {
        key: key.into(),
        why: why.into(),
    }
}

/// Checks the id of a team: 1 to 64 characters of `a-z`, `0-9` and `-`, the first and the last not `-`. It becomes the
/// name of a folder.
pub fn check_org_id(org_id: &str) -> Result<(), BundleError> {
    let is_id = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_valid = !org_id.is_empty()
        && org_id.len() <= MAX_NAME_LENGTH
        && org_id.bytes().all(is_id)
        && !org_id.starts_with('-')
        && !org_id.ends_with('-');
    if is_valid {
        return Ok(());
    }
    let shown = visible(prefix(org_id, MAX_NAME_LENGTH));
    let why = format!(
        "`{shown}` is not a valid id: use 1 to {MAX_NAME_LENGTH} characters of a-z, 0-9 and -"
    );
    Err(fault("team.orgId", why))
}

pub(super) fn check(bundle: &TeamBundle) -> Result<(), BundleError> {
    if bundle.version == 0 {
        return Err(fault("version", "versions begin with 1"));
    }
    check_org_id(&bundle.team.org_id)?;
    let name = &bundle.team.name;
    let is_plain = |c: char| !c.is_control() && c != '\u{feff}';
    if name.trim().is_empty()
        || name.chars().count() > MAX_NAME_LENGTH
        || !name.chars().all(is_plain)
        || visible(name) != *name
    {
        let why = format!("expected 1 to {MAX_NAME_LENGTH} printable characters in one line");
        return Err(fault("team.name", why));
    }
    if bundle.expires_at <= bundle.issued_at {
        return Err(fault("expiresAt", "must be after `issuedAt`"));
    }
    if bundle.settings.len() > MAX_SETTINGS_SIZE {
        return Err(fault(
            "settings",
            "larger than 1 MB, the maximum for a config file",
        ));
    }
    for (key, length, maximum) in [
        ("tools", bundle.tools.len(), MAX_ENTRIES),
        ("workers", bundle.workers.len(), MAX_ENTRIES),
        ("prompts", bundle.prompts.len(), MAX_ENTRIES),
        ("skills", bundle.skills.len(), MAX_ENTRIES),
        ("keys", bundle.keys.len(), MAX_LIST),
        ("revokedKeys", bundle.revoked_keys.len(), MAX_LIST),
        ("models", bundle.models.len(), MAX_LIST),
    ] {
        if length > maximum {
            let why = format!("{length} entries: expected at most {maximum}");
            return Err(fault(key, why));
        }
    }
    check_tools(bundle)?;
    for (key, files, ending) in [
        ("workers", &bundle.workers, Some(".yml")),
        ("prompts", &bundle.prompts, Some(".md")),
        ("skills", &bundle.skills, None),
    ] {
        let mut seen = BTreeSet::new();
        for (at, file) in files.iter().enumerate() {
            let key = format!("{key}[{at}]");
            check_path(&format!("{key}.path"), &file.path)?;
            check_size(&format!("{key}.size"), file.size)?;
            // Workers and prompts are named by their files.
            if let Some(ending) = ending
                && (!file.path.ends_with(ending) || file.path.contains('/'))
            {
                let why = format!(
                    "`{}`: expected a file name that ends in {ending}",
                    file.path
                );
                return Err(fault(format!("{key}.path"), why));
            }
            if !seen.insert(file.path.to_ascii_lowercase()) {
                return Err(fault(
                    format!("{key}.path"),
                    format!("`{}` is named twice", file.path),
                ));
            }
        }
    }
    check_blob_sizes(bundle)?;
    for (at, id) in bundle.revoked_keys.iter().enumerate() {
        let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if id.len() != 64 || !id.bytes().all(is_hex) {
            let why = "expected the id of a key: 64 hexadecimal digits in lower case";
            return Err(fault(format!("revokedKeys[{at}]"), why));
        }
    }
    for (at, pattern) in bundle.models.iter().enumerate() {
        if pattern.trim().is_empty() || pattern.len() > MAX_PATH_LENGTH {
            let why = "expected a pattern such as `anthropic/*`";
            return Err(fault(format!("models[{at}]"), why));
        }
    }
    Ok(())
}

fn check_tools(bundle: &TeamBundle) -> Result<(), BundleError> {
    let mut seen = BTreeSet::new();
    for (at, tool) in bundle.tools.iter().enumerate() {
        let key = format!("tools[{at}]");
        check_path(&format!("{key}.file"), &tool.file)?;
        check_size(&format!("{key}.size"), tool.size)?;
        if !tool.file.ends_with(".wasm") || tool.file.contains('/') {
            let why = format!("`{}`: expected a file name that ends in .wasm", tool.file);
            return Err(fault(format!("{key}.file"), why));
        }
        if !seen.insert(tool.file.to_ascii_lowercase()) {
            return Err(fault(
                format!("{key}.file"),
                format!("`{}` is named twice", tool.file),
            ));
        }
        if let Some(grant) = &tool.grant
            && grant.digest != tool.digest.hex()
        {
            let why = "the grant is for another build: `grant.digest` differs from `digest`";
            return Err(fault(format!("{key}.grant"), why));
        }
    }
    Ok(())
}

fn check_size(key: &str, size: u64) -> Result<(), BundleError> {
    if size == 0 || size > MAX_BLOB_SIZE {
        let why = format!("{size} bytes: expected 1 to {MAX_BLOB_SIZE}");
        return Err(fault(key, why));
    }
    Ok(())
}

/// Checks that equal digests have equal sizes.
fn check_blob_sizes(bundle: &TeamBundle) -> Result<(), BundleError> {
    let mut sizes = BTreeMap::new();
    let tools = bundle.tools.iter().map(|tool| (tool.digest, tool.size));
    for (digest, size) in tools.chain(bundle.files().map(|file| (file.digest, file.size))) {
        if *sizes.entry(digest).or_insert(size) != size {
            let why = format!("{digest} is named with two sizes");
            return Err(fault("size", why));
        }
    }
    Ok(())
}

/// Checks a relative path of letters, digits, `.`, `_` and `-`, in which no component begins with `.`.
fn check_path(key: &str, path: &str) -> Result<(), BundleError> {
    let is_safe = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let is_component = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && part.bytes().all(is_safe)
    };
    if path.len() <= MAX_PATH_LENGTH && path.split('/').all(is_component) {
        return Ok(());
    }
    let shown = visible(prefix(path, MAX_PATH_LENGTH));
    let why = format!(
        "`{shown}` is not a safe path: use letters, digits, `.`, `_` and `-`, relative, without `..`"
    );
    Err(fault(key, why))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle() -> Value {
        let digest = format!("sha256:{}", "a".repeat(64));
        json!({
            "version": 3,
            "team": {"orgId": "acme", "name": "Acme Tools"},
            "issuedAt": "2026-01-01T00:00:00Z",
            "expiresAt": "2026-02-01T00:00:00Z",
            "settings": "profile: fine\n",
            "tools": [{
                "file": "weather.wasm", "digest": digest, "size": 5, "enforced": true,
                "grant": {"digest": "a".repeat(64), "imports": [], "tools": {}},
            }],
            "workers": [{"path": "reviewer.yml", "digest": digest, "size": 5}],
            "skills": [{"path": "notes/SKILL.md", "digest": digest, "size": 5}],
            "revokedKeys": ["b".repeat(64)],
            "models": ["anthropic/*"],
        })
    }

    #[test]
    fn team_bundle_round_trips_and_lists_each_blob_once() {
        let payload = bundle().to_string();
        let read = TeamBundle::from_payload(payload.as_bytes()).unwrap();
        assert_eq!(read.blobs().len(), 1);
        let again = read.to_payload().unwrap();
        assert_eq!(TeamBundle::from_payload(&again).unwrap(), read);
    }

    #[test]
    fn team_bundle_with_a_bad_value_names_the_key() {
        for (pointer, value, wanted) in [
            ("/version", json!(0), "version:"),
            ("/team/orgId", json!("../up"), "team.orgId:"),
            ("/team/orgId", json!(""), "team.orgId:"),
            ("/team/name", json!("a\nb"), "team.name:"),
            ("/team/name", json!("a\u{202e}b"), "team.name:"),
            ("/expiresAt", json!("2025-12-31T00:00:00Z"), "expiresAt:"),
            ("/tools/0/file", json!("../x.wasm"), "tools[0].file:"),
            ("/tools/0/file", json!("x.yml"), "tools[0].file:"),
            ("/tools/0/size", json!(0), "tools[0].size:"),
            ("/tools/0/grant/digest", json!("c"), "tools[0].grant:"),
            ("/tools/0/digest", json!("sha256:zz"), "not a valid digest"),
            ("/workers/0/path", json!("a/b.yml"), "workers[0].path:"),
            ("/workers/0/path", json!("/etc/passwd"), "workers[0].path:"),
            ("/workers/0/size", json!(6), "two sizes"),
            ("/skills/0/path", json!(".git/config"), "skills[0].path:"),
            ("/revokedKeys/0", json!("B"), "revokedKeys[0]:"),
            ("/models/0", json!(" "), "models[0]:"),
        ] {
            let mut changed = bundle();
            *changed.pointer_mut(pointer).unwrap() = value.clone();
            let error = TeamBundle::from_payload(changed.to_string().as_bytes()).unwrap_err();
            assert!(
                error.to_string().contains(wanted),
                "{pointer} {value}: {error}"
            );
        }
        let mut unknown = bundle();
        unknown["policy"] = json!({});
        let error = TeamBundle::from_payload(unknown.to_string().as_bytes()).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `policy`"),
            "{error}"
        );
        let mut twice = bundle();
        let tool = twice["tools"][0].clone();
        twice["tools"].as_array_mut().unwrap().push(tool);
        let error = TeamBundle::from_payload(twice.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("named twice"), "{error}");
    }
}
