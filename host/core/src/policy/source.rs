//! Locations of rules in their files, for display.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The line numbers of a file's keys, counted from 1.
type KeyLines = BTreeMap<String, u64>;

/// A file name with the line numbers of the file's keys, which are computed at the first lookup.
pub struct RuleSource {
    file: String,
    lines: LazyLock<KeyLines, Box<dyn FnOnce() -> KeyLines + Send>>,
}

impl RuleSource {
    /// Creates a source for the rules in `file`. `lines` computes the line numbers of the file's keys
    /// (`policy.deny[0]`, `tools.git.approval`), counted from 1.
    pub fn new(
        file: impl Into<String>,
        lines: impl FnOnce() -> BTreeMap<String, u64> + Send + 'static,
    ) -> Self {
        Self {
            file: file.into(),
            lines: LazyLock::new(Box::new(lines)),
        }
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns `file:line` of a key or its nearest enclosing key with a known line. Returns only the file name if no
    /// such line is known.
    pub fn at(&self, key: &str) -> String {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return format!("{}:{line}", self.file);
            }
            match key.rfind(['.', '[']) {
                Some(end) => key = &key[..end],
                None => return self.file.clone(),
            }
        }
    }
}

impl From<&str> for RuleSource {
    fn from(file: &str) -> Self {
        Self::new(file, BTreeMap::new)
    }
}

impl From<String> for RuleSource {
    fn from(file: String) -> Self {
        Self::new(file, BTreeMap::new)
    }
}

impl Default for RuleSource {
    fn default() -> Self {
        Self::from("")
    }
}

impl fmt::Debug for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuleSource").field(&self.file).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_source_names_the_nearest_line() {
        let lines = [("policy", 3), ("policy.deny[1]", 6)];
        let source = RuleSource::new("config.yml", move || {
            lines.map(|(key, line)| (key.to_owned(), line)).into()
        });
        assert_eq!(source.at("policy.deny[1]"), "config.yml:6");
        assert_eq!(source.at("policy.deny[0]"), "config.yml:3");
        assert_eq!(source.at("tools.git"), "config.yml");
    }
}
