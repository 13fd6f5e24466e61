//! Difference between two bundles of a team, for the person who publishes the newer one, and for its members.

use std::collections::BTreeMap;

use mimir_core::grants::Grant;
use mimir_core::text::visible;
use mimir_registry::signature::VerifyingKey;
use mimir_registry::team::{BundledFile, BundledTool, TeamBundle};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::key_names::KeyNames;

/// Differences, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BundleDifference {
    /// The lines. Empty if only version and times differ.
    pub lines: Vec<String>,
}

impl BundleDifference {
    /// Compares two bundles. Without an earlier one, everything is new. Keys are named by their ids.
    pub fn between(before: Option<&TeamBundle>, after: &TeamBundle) -> Self {
        Self::between_named(before, after, &KeyNames::default())
    }

    /// Compares two bundles as [`Self::between`] does, and adds the names of keys that are known.
    pub fn between_named(
        before: Option<&TeamBundle>,
        after: &TeamBundle,
        names: &KeyNames,
    ) -> Self {
        let mut lines = Vec::new();
        if let Some(before) = before
            && before.team.name != after.team.name
        {
            lines.push(format!("name: {} → {}", before.team.name, after.team.name));
        }
        let old_tools = before.map_or(&[][..], |bundle| &bundle.tools);
        for tool in &after.tools {
            let old = old_tools.iter().find(|old| old.file == tool.file);
            tool_lines(old, tool, &mut lines);
        }
        for old in old_tools {
            if !after.tools.iter().any(|tool| tool.file == old.file) {
                lines.push(format!("tool {}: removed", old.file));
            }
        }
        type FileList = fn(&TeamBundle) -> &[BundledFile];
        let lists: [(&str, FileList); 3] = [
            ("worker", |bundle| &bundle.workers),
            ("prompt", |bundle| &bundle.prompts),
            ("skill", |bundle| &bundle.skills),
        ];
        for (kind, files) in lists {
            file_lines(kind, before.map_or(&[], files), files(after), &mut lines);
        }
        settings_lines(
            before.map_or("", |bundle| &bundle.settings),
            &after.settings,
            &mut lines,
        );
        type TextList = fn(&TeamBundle) -> &[String];
        let lists: [(&str, TextList); 3] = [
            ("model", |bundle| &bundle.models),
            ("key", |bundle| &bundle.keys),
            ("revoked key", |bundle| &bundle.revoked_keys),
        ];
        for (kind, texts) in lists {
            let (old, new) = (before.map_or(&[][..], texts), texts(after));
            let added = new.iter().filter(|text| !old.contains(text));
            lines.extend(added.map(|text| format!("{kind} added: {}", shown(text, names))));
            let removed = old.iter().filter(|text| !new.contains(text));
            lines.extend(removed.map(|text| format!("{kind} removed: {}", shown(text, names))));
        }
        Self {
            lines: lines.iter().map(|line| visible(line)).collect(),
        }
    }
}

/// Returns a key in PEM or a key's id as its id and name, and other texts as they are.
fn shown(text: &str, names: &KeyNames) -> String {
    match VerifyingKey::from_pem(text.as_bytes()) {
        Ok(key) => names.describe(&key.id()),
        Err(_) => names.describe(text),
    }
}

fn tool_lines(old: Option<&BundledTool>, tool: &BundledTool, lines: &mut Vec<String>) {
    let file = &tool.file;
    let Some(old) = old else {
        let enforced = if tool.enforced { ", enforced" } else { "" };
        lines.push(format!("tool {file}: added, {}{enforced}", tool.digest));
        rights_lines(file, &[], &granted_rights(tool), lines);
        return;
    };
    if old.digest != tool.digest {
        lines.push(format!("tool {file}: {} → {}", old.digest, tool.digest));
    }
    match (old.enforced, tool.enforced) {
        (false, true) => lines.push(format!("tool {file}: members can no longer disable it")),
        (true, false) => lines.push(format!("tool {file}: members can disable it")),
        _ => {}
    }
    rights_lines(file, &granted_rights(old), &granted_rights(tool), lines);
}

fn rights_lines(file: &str, old: &[String], new: &[String], lines: &mut Vec<String>) {
    let added = new.iter().filter(|line| !old.contains(line));
    lines.extend(added.map(|line| format!("tool {file}: may now {line}")));
    let removed = old.iter().filter(|line| !new.contains(line));
    lines.extend(removed.map(|line| format!("tool {file}: may no longer {line}")));
}

/// Returns the rights that a bundle grants to a tool's component, without the withheld ones, sorted.
pub fn granted_rights(tool: &BundledTool) -> Vec<String> {
    let mut lines = tool.grant.as_ref().map_or_else(Vec::new, grant_lines);
    lines.sort();
    lines.dedup();
    lines
}

/// Describes the rights of a grant, one line each.
fn grant_lines(grant: &Grant) -> Vec<String> {
    let own = grant.tools.values().map(|tool| tool.needs.clone());
    let all = own.chain([grant.named()]);
    let lines = all.flat_map(|mut needs| {
        grant.withheld.iter().for_each(|kind| needs.clear(*kind));
        needs.lines()
    });
    lines.collect()
}

fn file_lines(kind: &str, old: &[BundledFile], new: &[BundledFile], lines: &mut Vec<String>) {
    let by_path = |files: &[BundledFile]| -> BTreeMap<String, String> {
        let files = files.iter();
        files
            .map(|file| (file.path.clone(), file.digest.to_string()))
            .collect()
    };
    let (old, new) = (by_path(old), by_path(new));
    for (path, digest) in &new {
        match old.get(path) {
            None => lines.push(format!("{kind} {path}: added")),
            Some(before) if before != digest => lines.push(format!("{kind} {path}: changed")),
            Some(_) => {}
        }
    }
    let removed = old.keys().filter(|path| !new.contains_key(*path));
    lines.extend(removed.map(|path| format!("{kind} {path}: removed")));
}

fn settings_lines(old: &str, new: &str, lines: &mut Vec<String>) {
    for change in TextDiff::from_lines(old, new).iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => continue,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        let text = change.value().trim_end();
        if !text.is_empty() {
            lines.push(format!("settings: {sign} {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use mimir_registry::signature::{KeyAlgorithm, SigningKey};
    use serde_json::{Value, json};

    use super::*;

    fn bundle(change: impl FnOnce(&mut Value)) -> TeamBundle {
        let digest = format!("sha256:{}", "a".repeat(64));
        let mut value = json!({
            "version": 1, "team": {"orgId": "acme", "name": "Acme"},
            "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-02-01T00:00:00Z",
            "settings": "limits:\n  timeMs: 5000\n",
            "tools": [{"file": "a.wasm", "digest": digest, "size": 1, "enforced": true}],
            "prompts": [{"path": "hello.md", "digest": digest, "size": 1}],
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn bundle_difference_names_tools_rights_files_and_settings() {
        let before = bundle(|_| {});
        assert_eq!(
            BundleDifference::between(Some(&before), &before),
            BundleDifference::default()
        );
        let new = format!("sha256:{}", "b".repeat(64));
        let after = bundle(|value| {
            value["version"] = json!(2);
            value["settings"] = json!("limits:\n  timeMs: 9000\n");
            value["tools"][0]["digest"] = json!(new);
            value["tools"][0]["enforced"] = json!(false);
            value["tools"][0]["grant"] = json!({
                "digest": "b".repeat(64), "imports": [], "withheld": ["commands"],
                "tools": {"a": {"definition": "", "needs": {
                    "hosts": [{"host": "example.com", "methods": ["GET"], "reason": ""}],
                    "commands": [{"pattern": "ls", "reason": ""}],
                }}},
            });
            value["prompts"] = json!([]);
            value["models"] = json!(["anthropic/*"]);
        });
        let lines = BundleDifference::between(Some(&before), &after).lines;
        let a = format!("sha256:{}", "a".repeat(64));
        assert_eq!(
            lines,
            [
                format!("tool a.wasm: {a} → {new}"),
                "tool a.wasm: members can disable it".to_owned(),
                "tool a.wasm: may now send GET to example.com".to_owned(),
                "prompt hello.md: removed".to_owned(),
                "settings: -   timeMs: 5000".to_owned(),
                "settings: +   timeMs: 9000".to_owned(),
                "model added: anthropic/*".to_owned(),
            ]
        );
        let key = SigningKey::generate(KeyAlgorithm::Ed25519).unwrap();
        let (pem, id) = (key.verifying_key().to_pem(), key.verifying_key().id());
        let keyed = bundle(|value| {
            value["keys"] = json!([pem]);
            value["revokedKeys"] = json!(["c".repeat(64)]);
        });
        let names = KeyNames::from_iter([(id.clone(), "release".to_owned())]);
        let lines = BundleDifference::between_named(Some(&before), &keyed, &names).lines;
        let revoked = format!("revoked key added: {}", "c".repeat(64));
        assert_eq!(lines, [format!("key added: {id} (release)"), revoked]);
        let all = BundleDifference::between(None, &before).lines;
        assert!(
            all.contains(&format!("tool a.wasm: added, {a}, enforced")),
            "{all:?}"
        );
    }
}
