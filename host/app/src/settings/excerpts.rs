//! Excerpts of a config file, which are shown before a person accepts it.

use std::collections::BTreeMap;

use mimir_core::text::visible;
use serde_yaml::Value;

use super::{ConfigFile, key_lines};

impl ConfigFile {
    /// Returns an excerpt per key: a heading with the key and `file:line`, and the lines of its value. Anchors are
    /// resolved, and control characters are escaped.
    pub fn excerpts(&self, keys: &[String]) -> Vec<(String, Vec<String>)> {
        let lines = key_lines::key_lines(&self.text);
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for key in keys {
            let key = shown_key(key);
            let heading = format!("{} ({})", visible(key), self.key_location(&lines, key));
            if all.iter().any(|(known, _)| *known == heading) {
                continue;
            }
            let text = find(&self.value, key).map(serde_yaml::to_string);
            let text = match text {
                Some(Ok(text)) => text.lines().map(visible).collect(),
                // A key whose value cannot be shown is still listed, so that it is not overlooked.
                Some(Err(_)) | None => vec![format!("see {}", self.shown)],
            };
            all.push((heading, text));
        }
        all
    }

    /// Returns `file:line` of a key, or only the file if the line is not known.
    pub(super) fn key_location(&self, lines: &BTreeMap<String, u64>, key: &str) -> String {
        match lines.get(key) {
            Some(line) => format!("{}:{line}", self.shown),
            None => self.shown.clone(),
        }
    }
}

/// Returns the key whose value is shown: without a value after `: `, and the whole block for keys of `execApprovals`.
fn shown_key(key: &str) -> &str {
    let key = match key.strip_prefix("secrets.") {
        // A secret's name may contain any characters.
        Some(_) => key,
        None => key.split_once(": ").map_or(key, |(key, _)| key),
    };
    if key.starts_with("execApprovals.") {
        "execApprovals"
    } else {
        key
    }
}

fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    if let Some(name) = key.strip_prefix("secrets.") {
        return value.get("secrets")?.get(name);
    }
    let mut value = value;
    for part in key.split('.') {
        let (name, rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        value = value.get(name)?;
        for index in rest.split('[').skip(1) {
            value = value.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ConfigLocation, ConfigOwner};

    #[test]
    fn config_excerpts_show_lines_and_escape_control_characters() {
        let text = "x: &all [{decision: allow, reason: \"a\\e[2Kb\"}]\n";
        let text = text.replace("x: ", "policy:\n  rules: ");
        let text = format!(
            "{text}tools:\n  git: {{rules: *all, reveal: [.env]}}\nsecrets: {{a.b: {{env: HOME}}}}\n"
        );
        let place = ConfigLocation {
            path: "c".into(),
            shown: ".mimir/config.yml".into(),
            owner: ConfigOwner::Project,
        };
        let file = ConfigFile::parse(place, &text).unwrap();
        let keys = [
            "policy.rules[0]: allow",
            "tools.git.rules[0]: allow",
            "tools.git.reveal: [.env]",
            "secrets.a.b",
        ];
        let shown = file.excerpts(&keys.map(str::to_owned));
        assert_eq!(shown[0].0, "policy.rules[0] (.mimir/config.yml:2)");
        assert_eq!(shown[0].1[0], "decision: allow");
        let reason = &shown[0].1[1];
        assert!(
            reason.contains('a') && !reason.contains('\u{1b}'),
            "{reason:?}"
        );
        // The resolved anchor, not its name.
        assert_eq!(shown[1].1, shown[0].1);
        assert_eq!(shown[2].1, ["- .env"]);
        assert_eq!(shown[3].1, ["env: HOME"]);
    }
}
