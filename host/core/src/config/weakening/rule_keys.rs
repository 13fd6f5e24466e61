//! The keys that are rules about calls, which an administrator of a shared server may change without access to its files.

use super::Config;

/// Keys of rules, with `*` for any name. A key stands for all keys below it.
///
/// Every other key is reserved for the person who runs the process: it may start programs, name people and their roles,
/// read files, or switch protection off. A new key belongs to these unless it is added here.
const RULE_KEYS: [&[&str]; 13] = [
    &["approval"],
    &["execApprovals", "approvals"],
    &["files", "deny"],
    &["limits"],
    &["network", "allowedHosts"],
    &["policy"],
    &["tools", "maxExecutionTime"],
    &["tools", "*", "approval"],
    &["tools", "*", "deny"],
    &["tools", "*", "enabled"],
    &["tools", "*", "limits"],
    &["tools", "*", "network", "allowedHosts"],
    &["tools", "*", "rules"],
];

impl Config {
    /// Returns true if the key at this path is a rule about calls: approvals, lists of tools, files, commands and hosts, and
    /// limits.
    ///
    /// ```
    /// # use mimir_core::config::Config;
    /// assert!(Config::is_rule_key(&["tools", "exec", "approval"]));
    /// assert!(!Config::is_rule_key(&["mcp", "servers", "files", "command"]));
    /// ```
    pub fn is_rule_key(path: &[impl AsRef<str>]) -> bool {
        let is_at = |rule: &&[&str]| {
            rule.len() <= path.len()
                && rule
                    .iter()
                    .zip(path)
                    .all(|(part, key)| *part == "*" || *part == key.as_ref())
        };
        RULE_KEYS.iter().any(is_at)
    }
}
