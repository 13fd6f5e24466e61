//! The single settings of a config file: each key that has a value, and the keys that an edit changes.

use mimir_core::ToolError;
use serde_yaml::{Mapping, Value};

use super::edit::strip_bom;
use super::{ConfigFile, ConfigPreview, explain};

/// A key of a config file and its value. Lists are values.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafSetting {
    /// The keys from the outermost to the innermost.
    pub path: Vec<String>,
    /// The value as the file has it.
    pub value: Value,
}

impl ConfigFile {
    /// Returns the settings of the file, in its order. Keys without a value are left out.
    pub fn leaf_settings(&self) -> Vec<LeafSetting> {
        let mut leaves = leaf_settings(&self.value);
        leaves.retain(|setting| !is_empty_block(&setting.value));
        leaves
    }
}

impl ConfigPreview {
    /// Returns the keys whose values the edit changes, also those that it changes through an anchor of the file, and those
    /// that it moves: the order of some blocks has a meaning.
    ///
    /// # Errors
    /// One of the texts is not valid YAML.
    pub fn changed_paths(&self) -> Result<Vec<Vec<String>>, ToolError> {
        let read = |text: &str| {
            let value = serde_yaml::from_str(strip_bom(text));
            let value: Value = value.map_err(|error| explain(&self.shown, &error))?;
            Ok::<_, ToolError>(leaf_settings(&value))
        };
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        // A block without settings is a setting of its own, unless it only gains or loses settings.
        let has_settings = |setting: &LeafSetting, others: &[LeafSetting]| {
            let mut others = others.iter().map(|other| &other.path);
            let depth = setting.path.len();
            is_empty_block(&setting.value)
                && others.any(|path| path.len() > depth && path.starts_with(&setting.path))
        };
        let removed = before
            .iter()
            .filter(|setting| !after.contains(setting) && !has_settings(setting, &after));
        let added = after
            .iter()
            .filter(|setting| !before.contains(setting) && !has_settings(setting, &before));
        let kept = before.iter().filter(|setting| after.contains(setting));
        let kept = kept.zip(after.iter().filter(|setting| before.contains(setting)));
        let moved = kept.filter_map(|(old, new)| (old != new).then_some(new));
        let mut paths: Vec<Vec<String>> = removed
            .chain(added)
            .chain(moved)
            .map(|setting| setting.path.clone())
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }
}

/// Returns true for a key without a value, and for a block without keys.
fn is_empty_block(value: &Value) -> bool {
    value.is_null() || value.as_mapping().is_some_and(Mapping::is_empty)
}

fn leaf_settings(value: &Value) -> Vec<LeafSetting> {
    let mut leaves = Vec::new();
    collect_leaves(value, &mut Vec::new(), &mut leaves);
    leaves
}

fn collect_leaves(value: &Value, path: &mut Vec<String>, leaves: &mut Vec<LeafSetting>) {
    match value {
        Value::Mapping(map) if !map.is_empty() => {
            for (key, value) in map {
                // Keys of settings are texts; another kind of key is not valid, and must not hide what is below.
                path.push(match key {
                    Value::String(key) => key.clone(),
                    other => serde_yaml::to_string(other).unwrap_or_default(),
                });
                collect_leaves(value, path, leaves);
                path.pop();
            }
        }
        _ => leaves.push(LeafSetting {
            path: path.clone(),
            value: value.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(before: &str, after: &str) -> ConfigPreview {
        ConfigPreview {
            shown: "config.yml".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            digest: String::new(),
            settings: super::super::MergedSettings::default(),
        }
    }

    #[test]
    fn config_changed_paths_include_what_an_anchor_changes_elsewhere() {
        let before = "tools:\n  a: &x\n    limits: {timeMs: 1}\nsandbox: {mode: none}\n";
        let cases = [
            ("", vec!["sandbox.mode", "tools.a.limits.timeMs"]),
            (
                "tools: {a: {limits: {timeMs: 1}}, b: ~}\nsandbox: {mode: none}\n",
                vec!["tools.b"],
            ),
            // A block without settings can switch something on.
            (
                "tools: {a: {limits: {timeMs: 1}}}\nsandbox: {mode: none}\nbrowser: {}\n",
                vec!["browser"],
            ),
            (
                "sandbox: {mode: none}\ntools: {a: {limits: {timeMs: 1}}}\n",
                vec!["sandbox.mode", "tools.a.limits.timeMs"],
            ),
            (
                "tools: {a: {limits: {timeMs: 2}}}\nsandbox: {mode: none}\n",
                vec!["tools.a.limits.timeMs"],
            ),
            (
                "tools: &y {a: {limits: {timeMs: 1}}}\nsandbox: {mode: none}\nz: *y\n",
                vec!["z.a.limits.timeMs"],
            ),
            (
                "tools: none\nsandbox: {mode: none}\n",
                vec!["tools", "tools.a.limits.timeMs"],
            ),
        ];
        for (after, expected) in cases {
            let paths = preview(before, after).changed_paths().unwrap();
            let paths: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
            assert_eq!(paths, expected, "{after}");
        }
        assert!(preview(before, "a: [").changed_paths().is_err());
        let paths = preview("browser: ~\n", "browser: {}\n").changed_paths();
        assert_eq!(paths.unwrap(), [["browser"]]);
        // An empty block that gains a rule, or loses its last one, is no change of its own.
        for (one, other) in [
            ("tools: ~\n", "tools: {a: {deny: [x]}}\n"),
            ("tools: {}\n", "tools: {a: {deny: [x]}}\n"),
        ] {
            for (before, after) in [(one, other), (other, one)] {
                let paths = preview(before, after).changed_paths().unwrap();
                assert_eq!(paths, [["tools", "a", "deny"]], "{before} {after}");
            }
        }
    }
}
