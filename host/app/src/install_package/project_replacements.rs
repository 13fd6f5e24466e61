//! Entries of a project that replace a package by another one: the registry's facts, which a person approves, would not
//! be about what is installed.

use std::path::Path;

use mimir_core::{ToolError, text};
use serde_json::Value;
use toml_edit::{Item, TableLike};

use super::manager::PackageManager;
use super::package_spec::normalize_python;
use super::project_sources::find_in_settings;

/// Fails if a file of the project, in `folder` or a folder above it in the workspace, replaces one of the packages.
pub(super) fn check(
    workspace: &Path,
    folder: &Path,
    manager: PackageManager,
    names: &[&str],
) -> Result<(), ToolError> {
    let files: &[&str] = match manager {
        PackageManager::Pip => &[],
        PackageManager::Uv => &["pyproject.toml", "uv.toml"],
        PackageManager::Cargo => &["Cargo.toml", ".cargo/config.toml", ".cargo/config"],
        PackageManager::Go => &["go.mod", "go.work"],
        PackageManager::Npm | PackageManager::Pnpm | PackageManager::Yarn => {
            &["package.json", "pnpm-workspace.yaml"]
        }
    };
    let found = find_in_settings(workspace, folder, files, |file, content| {
        names.iter().find_map(|name| {
            let key = match manager {
                PackageManager::Cargo => cargo_replacement(content, name),
                PackageManager::Go => go_replacement(content, name),
                PackageManager::Pip | PackageManager::Uv => uv_replacement(content, name),
                _ if file.ends_with(".yaml") => pnpm_replacement(content, name),
                _ => npm_replacement(content, name),
            };
            Some((*name, key?))
        })
    })?;
    match found {
        Some((file, (name, key))) => Err(refusal(&file, key, name, manager)),
        None => Ok(()),
    }
}

fn refusal(file: &str, key: &str, name: &str, manager: PackageManager) -> ToolError {
    let name = text::visible(name);
    ToolError::permission_denied(format!(
        "`{file}` of the project may replace `{name}` by another package ({key}), so what the registry says about it would not count"
    ))
    .with_remedies([format!(
        "remove the entry, or install the package yourself with {}",
        manager.as_str()
    )])
}

/// Returns the key with which a `Cargo.toml` or a configuration file of Cargo replaces a crate.
fn cargo_replacement(content: &str, name: &str) -> Option<&'static str> {
    let Ok(file) = content.parse::<toml_edit::DocumentMut>() else {
        return Some("invalid TOML");
    };
    if file.get("paths").is_some() {
        return Some("paths");
    }
    let is_crate = |key: &str, value: &Item| {
        let renamed = value
            .as_table_like()
            .and_then(|entry| entry.get("package")?.as_str());
        let key = key.split([':', '@']).next().unwrap_or(key);
        renamed.unwrap_or(key).replace('_', "-") == name.replace('_', "-")
    };
    let has = |table: &dyn TableLike| table.iter().any(|(key, value)| is_crate(key, value));
    let patches = file.get("patch").and_then(Item::as_table_like);
    let patches = patches.into_iter().flat_map(TableLike::iter);
    let mut patches = patches.filter_map(|(_, source)| source.as_table_like());
    if patches.any(has) {
        return Some("patch");
    }
    let replaced = file.get("replace").and_then(Item::as_table_like);
    replaced.filter(|table| has(*table)).map(|_| "replace")
}

/// Returns the directive with which a `go.mod` or `go.work` replaces a module.
fn go_replacement(content: &str, name: &str) -> Option<&'static str> {
    let lines = content.lines().map(|line| {
        let (line, _) = line.split_once("//").unwrap_or((line, ""));
        line.trim()
    });
    let mut replaced = lines.filter_map(|line| line.split_once("=>"));
    let is_module = |left: &str| {
        let mut words = left.split_whitespace().filter(|word| *word != "replace");
        words
            .next()
            .is_some_and(|path| path.trim_matches(['"', '`', '(']) == name)
    };
    replaced
        .any(|(left, _)| is_module(left))
        .then_some("replace")
}

/// Returns the key with which settings of uv replace a package.
fn uv_replacement(content: &str, name: &str) -> Option<&'static str> {
    let Ok(file) = content.parse::<toml_edit::DocumentMut>() else {
        return Some("invalid TOML");
    };
    let own = file.get("tool").and_then(|tool| tool.get("uv"));
    let settings = own.unwrap_or(file.as_item());
    let sources = settings.get("sources").and_then(Item::as_table_like);
    let mut sources = sources.into_iter().flat_map(TableLike::iter);
    if sources.any(|(key, _)| normalize_python(key) == name) {
        return Some("sources");
    }
    ["override-dependencies", "constraint-dependencies"]
        .into_iter()
        .find(|key| {
            let listed = settings.get(key).and_then(Item::as_array);
            let mut listed = listed.into_iter().flat_map(toml_edit::Array::iter);
            // A requirement with a URL: `NAME @ URL`.
            listed.any(|entry| {
                let entry = entry.as_str().unwrap_or_default();
                entry
                    .split_once('@')
                    .is_some_and(|(left, _)| normalize_python(left.trim()) == name)
            })
        })
}

/// Returns the key with which a `package.json` replaces a package.
fn npm_replacement(content: &str, name: &str) -> Option<&'static str> {
    let Ok(file) = serde_json::from_str::<Value>(content) else {
        // The package manager reports it.
        return None;
    };
    let groups = [
        ("resolutions", &file["resolutions"]),
        ("overrides", &file["overrides"]),
        ("pnpm.overrides", &file["pnpm"]["overrides"]),
    ];
    groups
        .into_iter()
        .find(|(_, group)| names_package(group, name))
        .map(|(key, _)| key)
}

/// Returns the key with which a `pnpm-workspace.yaml` replaces a package.
fn pnpm_replacement(content: &str, name: &str) -> Option<&'static str> {
    let file: Value = serde_yaml::from_str(content).ok()?;
    names_package(&file["overrides"], name).then_some("overrides")
}

/// Returns true if a group of overrides names a package: `NAME`, `NAME@RANGE`, `**/NAME` or `PARENT>NAME`, also in groups
/// of groups.
fn names_package(group: &Value, name: &str) -> bool {
    let Some(group) = group.as_object() else {
        return false;
    };
    group.iter().any(|(key, value)| {
        let key = key.rsplit('>').next().unwrap_or(key).trim();
        let key = key.strip_prefix("**/").unwrap_or(key);
        let end = key[1.min(key.len())..]
            .find('@')
            .map_or(key.len(), |at| at + 1);
        let key = key.get(..end).unwrap_or(key);
        let is_last_part = key
            .strip_suffix(name)
            .is_some_and(|before| before.is_empty() || before.ends_with('/'));
        is_last_part || names_package(value, name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_replacements_of_a_project_are_found() {
        for (content, key) in [
            ("[dependencies]\nitoa = \"1\"\n", None),
            ("[patch.crates-io]\nryu = { path = \"x\" }\n", None),
            (
                "[patch.crates-io]\nitoa = { path = \"x\" }\n",
                Some("patch"),
            ),
            (
                "[patch.crates-io]\nx = { path = \"x\", package = \"itoa\" }\n",
                Some("patch"),
            ),
            (
                "[replace]\n\"itoa:1.0.0\" = { path = \"x\" }\n",
                Some("replace"),
            ),
            ("paths = [\"x\"]\n", Some("paths")),
            ("[", Some("invalid TOML")),
        ] {
            assert_eq!(cargo_replacement(content, "itoa"), key, "{content}");
        }
        for (content, key) in [
            ("module a\n", None),
            ("replace example.com/b => ./b\n", None),
            ("// replace example.com/a => ./a\n", None),
            ("replace example.com/a => ./a\n", Some("replace")),
            (
                "replace (\n\texample.com/a v1.0.0 => ./a\n)\n",
                Some("replace"),
            ),
            ("replace \"example.com/a\" => ./a\n", Some("replace")),
        ] {
            assert_eq!(go_replacement(content, "example.com/a"), key, "{content}");
        }
        for (content, key) in [
            ("[project]\nname = \"x\"\n", None),
            ("[tool.uv.sources]\nother = { path = \"x\" }\n", None),
            (
                "[tool.uv.sources]\nTyping_Extensions = { path = \"x\" }\n",
                Some("sources"),
            ),
            (
                "[tool.uv]\noverride-dependencies = [\"typing-extensions>=4\"]\n",
                None,
            ),
            (
                "[tool.uv]\noverride-dependencies = [\"typing-extensions @ file:x.whl\"]\n",
                Some("override-dependencies"),
            ),
        ] {
            assert_eq!(
                uv_replacement(content, "typing-extensions"),
                key,
                "{content}"
            );
        }
        for (content, key) in [
            (r#"{"dependencies": {"a": "file:x"}}"#, None),
            (r#"{"resolutions": {"b": "file:x", "ab": "1"}}"#, None),
            (r#"{"resolutions": {"a": "file:x"}}"#, Some("resolutions")),
            (
                r#"{"resolutions": {"**/a": "file:x"}}"#,
                Some("resolutions"),
            ),
            (
                r#"{"overrides": {"b": {"a@^1": "file:x"}}}"#,
                Some("overrides"),
            ),
            (
                r#"{"pnpm": {"overrides": {"b>a": "file:x"}}}"#,
                Some("pnpm.overrides"),
            ),
        ] {
            assert_eq!(npm_replacement(content, "a"), key, "{content}");
        }
        let scoped = r#"{"overrides": {"@s/a@1": "file:x"}}"#;
        assert_eq!(npm_replacement(scoped, "@s/a"), Some("overrides"));
        let workspace = "overrides:\n  a: file:x\n";
        assert_eq!(pnpm_replacement(workspace, "a"), Some("overrides"));
    }

    #[test]
    fn package_replacements_above_the_project_count() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a");
        std::fs::create_dir(&inner).unwrap();
        let file = root.path().join("Cargo.toml");
        std::fs::write(file, "[patch.crates-io]\nitoa = { path = \"evil\" }\n").unwrap();
        let error = check(root.path(), &inner, PackageManager::Cargo, &["itoa"]).unwrap_err();
        assert!(
            error.message.contains("`Cargo.toml`") && error.message.contains("(patch)"),
            "{error}"
        );
        check(root.path(), &inner, PackageManager::Cargo, &["ryu"]).unwrap();
    }
}
