//! Permissions that tools request and are granted. A request by itself grants nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::network::{HostPattern, HostPatternError};

/// The access to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryAccess {
    /// Files can be read and listed.
    Read,
    /// Files can also be created, changed and removed.
    ReadWrite,
}

/// Access to a directory of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNeed {
    /// The directory, relative to the workspace root, with `/` between components. `.` is the root.
    pub path: String,
    /// The access.
    pub access: DirectoryAccess,
    /// The author's explanation for the person who grants it.
    pub reason: String,
}

/// Access to hosts with certain HTTP methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNeed {
    /// The host pattern: `api.example.com` or `*.example.com`, optionally with `:port`; or `*` for any host that the
    /// settings allow.
    pub host: String,
    /// HTTP methods in upper case.
    pub methods: Vec<String>,
    /// The author's explanation for the person who grants it.
    pub reason: String,
}

/// The host pattern of a tool that takes arbitrary URLs.
pub const ANY_HOST: &str = "*";

impl HostNeed {
    /// Parses the host pattern.
    pub fn pattern(&self) -> Result<HostPattern, HostPatternError> {
        if self.is_any() {
            Ok(HostPattern::any())
        } else {
            self.host.parse()
        }
    }

    /// Returns true for the pattern `*`. The settings then determine the allowed hosts; other hosts need approval.
    pub fn is_any(&self) -> bool {
        self.host == ANY_HOST
    }
}

/// A command pattern, matched word by word against an argument vector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandNeed {
    /// The pattern, such as `git status *`.
    pub pattern: String,
    /// The author's explanation for the person who grants it.
    pub reason: String,
}

/// A credential that the host adds to requests; the plugin never sees its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretNeed {
    /// The name of the stored secret.
    pub name: String,
    /// The only host that the secret is sent to.
    pub host: String,
    /// The header that contains the secret.
    pub header: String,
    /// The author's explanation for the person who grants it.
    pub reason: String,
}

/// Prefix of secret placeholders in `wasi:config/store`. The name of the secret follows it.
pub const SECRET_PREFIX: &str = "secret:";

/// All permissions that a tool requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Needs {
    /// Directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileNeed>,
    /// Hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostNeed>,
    /// Commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandNeed>,
    /// Credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretNeed>,
    /// Names of environment or configuration values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// Environment variables with values, set by a person for a component that cannot declare its needs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Values of `wasi:config/store`, set by a person for such a component. A value with the prefix [`SECRET_PREFIX`]
    /// is the placeholder of a secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// Names of other tools that the tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// True if the tool uses a language model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model: bool,
}

/// A kind of need, which a person grants or withholds as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeedKind {
    /// Directories.
    Files,
    /// Hosts.
    Hosts,
    /// Commands.
    Commands,
    /// Credentials.
    Secrets,
    /// Environment or configuration values.
    Variables,
    /// Other tools.
    Tools,
    /// The language model.
    Model,
}

impl NeedKind {
    /// Returns the spelling used in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            NeedKind::Files => "files",
            NeedKind::Hosts => "hosts",
            NeedKind::Commands => "commands",
            NeedKind::Secrets => "secrets",
            NeedKind::Variables => "variables",
            NeedKind::Tools => "tools",
            NeedKind::Model => "model",
        }
    }
}

impl Needs {
    /// Returns true if nothing is requested.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Removes all needs that are not in `granted`, and reduces access to what is granted. The explanations of the author
    /// do not matter.
    pub fn retain_granted(&mut self, granted: &Self) {
        self.files.retain_mut(|need| {
            let mut matches = granted.files.iter().filter(|other| other.path == need.path);
            let Some(other) = matches.next() else {
                return false;
            };
            need.access = need.access.min(other.access);
            true
        });
        self.hosts.retain(|need| {
            let mut granted = granted.hosts.iter();
            granted.any(|other| other.host == need.host && other.methods == need.methods)
        });
        self.commands.retain(|need| {
            let mut granted = granted.commands.iter();
            granted.any(|other| other.pattern == need.pattern)
        });
        self.secrets.retain(|need| {
            let mut granted = granted.secrets.iter();
            granted.any(|other| {
                (&other.name, &other.host, &other.header) == (&need.name, &need.host, &need.header)
            })
        });
        self.variables
            .retain(|name| granted.variables.contains(name));
        self.environment
            .retain(|name, value| granted.environment.get(name) == Some(value));
        self.config
            .retain(|key, value| granted.config.get(key) == Some(value));
        self.tools.retain(|name| granted.tools.contains(name));
        self.model &= granted.model;
    }

    /// Removes all needs of one kind.
    pub fn clear(&mut self, kind: NeedKind) {
        match kind {
            NeedKind::Files => self.files.clear(),
            NeedKind::Hosts => self.hosts.clear(),
            NeedKind::Commands => self.commands.clear(),
            NeedKind::Secrets => self.secrets.clear(),
            NeedKind::Variables => {
                self.variables.clear();
                self.environment.clear();
                self.config.clear();
            }
            NeedKind::Tools => self.tools.clear(),
            NeedKind::Model => self.model = false,
        }
    }

    /// Describes each need on one line, for display.
    pub fn lines(&self) -> Vec<String> {
        let explanation = |reason: &str| {
            if reason.is_empty() {
                String::new()
            } else {
                format!(" — {reason}")
            }
        };
        let mut lines = Vec::new();
        for need in &self.files {
            let verb = match need.access {
                DirectoryAccess::Read => "read",
                DirectoryAccess::ReadWrite => "read and write",
            };
            let folder = if need.path == "." {
                "the workspace".to_owned()
            } else {
                format!("`{}`", need.path)
            };
            lines.push(format!("{verb} {folder}{}", explanation(&need.reason)));
        }
        for need in &self.hosts {
            let methods = need.methods.join(", ");
            let host = if need.is_any() {
                "any host that `network` in the settings allows"
            } else {
                &need.host
            };
            let pattern = need.pattern();
            let place = match pattern.is_ok_and(|pattern| pattern.is_this_machine()) {
                true => ", which is this machine",
                false => "",
            };
            lines.push(format!(
                "send {methods} to {host}{place}{}",
                explanation(&need.reason)
            ));
        }
        for need in &self.commands {
            lines.push(format!(
                "run `{}`{}",
                need.pattern,
                explanation(&need.reason)
            ));
        }
        for need in &self.secrets {
            lines.push(format!(
                "use the secret `{}` in `{}` for {}{}",
                need.name,
                need.header,
                need.host,
                explanation(&need.reason)
            ));
        }
        for name in &self.variables {
            lines.push(format!("see the value of `{name}`"));
        }
        for (name, value) in &self.environment {
            lines.push(format!("see the variable `{name}`, set to `{value}`"));
        }
        for (key, value) in &self.config {
            lines.push(format!("read the setting `{key}`, which is `{value}`"));
        }
        for name in &self.tools {
            lines.push(format!("call the tool `{name}`"));
        }
        if self.model {
            lines.push("ask the language model".to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needs(value: serde_json::Value) -> Needs {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn needs_name_hosts_that_are_this_machine() {
        let host = |host: &str| json!({"host": host, "methods": ["GET"], "reason": "why"});
        let hosts = [
            "http://127.0.0.1:8931",
            "[::1]",
            "localhost:80",
            "10.0.0.1",
            "example.com",
        ];
        assert_eq!(
            needs(json!({ "hosts": hosts.map(host) })).lines(),
            [
                "send GET to http://127.0.0.1:8931, which is this machine — why",
                "send GET to [::1], which is this machine — why",
                "send GET to localhost:80, which is this machine — why",
                "send GET to 10.0.0.1 — why",
                "send GET to example.com — why",
            ]
        );
    }

    #[test]
    fn needs_keep_grants_whose_explanation_changed() {
        let explained = |reason: &str| {
            needs(json!({
                "files": [{"path": ".", "access": "read", "reason": reason}],
                "hosts": [{"host": "example.com", "methods": ["GET"], "reason": reason}],
                "commands": [{"pattern": "ls *", "reason": reason}],
                "secrets": [{"name": "T", "host": "example.com", "header": "X-Key", "reason": reason}],
            }))
        };
        let mut current = explained("new");
        current.retain_granted(&explained("old"));
        assert_eq!(current, explained("new"));
    }

    #[test]
    fn needs_beyond_the_grant_are_reduced_or_removed() {
        let mut current = needs(json!({
            "files": [
                {"path": ".", "access": "read-write", "reason": ""},
                {"path": "docs", "access": "read", "reason": ""},
                {"path": "src", "access": "read", "reason": ""},
            ],
            "hosts": [{"host": "example.com", "methods": ["GET", "POST"], "reason": ""}],
            "commands": [{"pattern": "*", "reason": ""}],
            "secrets": [{"name": "T", "host": "evil.example", "header": "X-Key", "reason": ""}],
        }));
        current.retain_granted(&needs(json!({
            "files": [
                {"path": ".", "access": "read", "reason": ""},
                {"path": "docs", "access": "read-write", "reason": ""},
            ],
            "hosts": [{"host": "example.com", "methods": ["GET"], "reason": ""}],
            "commands": [{"pattern": "ls *", "reason": ""}],
            "secrets": [{"name": "T", "host": "example.com", "header": "X-Key", "reason": ""}],
        })));
        let expected = needs(json!({
            "files": [
                {"path": ".", "access": "read", "reason": ""},
                {"path": "docs", "access": "read", "reason": ""},
            ],
        }));
        assert_eq!(current, expected);
    }
}
