//! Settings of third-party MCP servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::launch::LaunchFolder;
use crate::network::HostPattern;

use super::{BindMount, SandboxMode, SandboxSettings};

mod check;
mod oauth;
mod package;

pub use check::McpServerError;
pub use oauth::{McpOauthSettings, is_scope};
pub use package::{McpPackage, PackageRegistry};

/// The block `mcp`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct McpSettings {
    /// `false` disables all servers.
    pub enabled: Option<bool>,
    /// URL of the registry for `mimir mcp add --registry`. Default: the official registry.
    pub registry: Option<String>,
    /// The servers, by name.
    pub servers: BTreeMap<String, McpServerSettings>,
    /// The untrusted content to mark for clients of `mimir serve`.
    pub marks: UntrustedMarking,
}

/// The untrusted content to mark for MCP clients, which pass it to their models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UntrustedMarking {
    /// Texts, resources, prompts, and each string in a structured result.
    #[default]
    All,
    /// Texts, resources and prompts. Structured results are sent as marked text only, and tools are listed without an
    /// output schema.
    Text,
    /// Texts and prompts. Structured results and resources are sent unmarked, for clients that parse them.
    Minimal,
}

/// The protocol generation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum McpProtocol {
    /// Versions up to 2025-11-25, with a handshake and server requests.
    #[serde(rename = "2025-11-25")]
    Handshake,
    /// Versions from 2026-07-28 on, without a handshake.
    #[serde(rename = "2026-07-28")]
    Discovery,
}

/// An MCP server: `command` or `package` for a local server, `url` for a server reached over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct McpServerSettings {
    /// The program of a local server, started in the sandbox.
    pub command: Option<String>,
    /// The package of a local server, downloaded once and then started without network access. `mimir mcp add NAME --
    /// npx PACKAGE` (or `uvx`) writes this key.
    pub package: Option<McpPackage>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program. `${NAME}` is replaced by the secret `NAME`.
    pub env: BTreeMap<String, String>,
    /// The working directory, relative to the workspace. Default: an empty folder of the server's own.
    pub cwd: Option<String>,
    /// Lets a server without a sandbox, or with secrets, use paths into the workspace. Risky: if the server runs code
    /// from the workspace, anyone who can write there, such as a model, can run code as you or read the secrets.
    pub workspace_code: Option<bool>,
    /// The URL of a server reached over HTTP.
    pub url: Option<String>,
    /// Headers of each request to `url`. `${NAME}` is replaced by the secret `NAME`.
    pub headers: BTreeMap<String, String>,
    /// Login settings, if the server requires a login.
    pub oauth: Option<McpOauthSettings>,
    /// The protocol generation: `2025-11-25` or `2026-07-28`. Default: both are tried.
    pub protocol: Option<McpProtocol>,
    /// `false` disables the server.
    pub enabled: Option<bool>,
    /// Timeout of one call in milliseconds, capped by the limits of calls.
    pub timeout_ms: Option<u64>,
    /// Timeout of the server's start in milliseconds.
    pub start_timeout_ms: Option<u64>,
    /// Time without a call after which the server is stopped, in milliseconds.
    pub idle_ms: Option<u64>,
    /// Prefix of the server's tool names; may be empty. Default: `mcp_<server>_`.
    pub prefix: Option<String>,
    /// `false` hides the server's resources from clients of mimir.
    pub resources: Option<bool>,
    /// `false` hides the server's prompts from clients of mimir.
    pub prompts: Option<bool>,
    /// `false` forbids the server to ask the client's user to fill in a form.
    pub elicitation: Option<bool>,
    /// `true` allows the server to request completions from the client's model.
    pub sampling: Option<bool>,
    /// `true` passes the workspace to the server as its root.
    pub roots: Option<bool>,
    /// The sandbox of the server. Default: the command sandbox.
    pub sandbox: Option<SandboxMode>,
    /// Gives the server network access. If the sandbox does not support that, the server is not started.
    pub network_access: Option<bool>,
    /// Hosts that the server can reach from its sandbox, through mimir's proxy: `api.example.com`, `*.example.com`, or
    /// `*` for every public host.
    pub network: Vec<String>,
    /// Workspace folders that the program of a package can access: `.` for the whole workspace, `docs:ro` for read-only
    /// access. An argument that names one of them is passed as an absolute path. Default: none.
    pub folders: Vec<String>,
    /// Mounts in addition to those of the command sandbox.
    #[schemars(with = "Vec<String>")]
    pub bind_mounts: Vec<BindMount>,
}

impl McpServerSettings {
    /// Returns true unless the server is disabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled != Some(false)
    }

    /// Returns the sandbox settings of the server: its own settings, with unset keys taken from the command sandbox.
    pub fn sandbox_over(&self, base: &SandboxSettings) -> SandboxSettings {
        let mut bind_mounts = base.bind_mounts.clone();
        bind_mounts.extend(self.bind_mounts.iter().cloned());
        SandboxSettings {
            mode: self.sandbox.or(base.mode),
            network_access: if !self.network.is_empty() {
                Some(true)
            } else if self.package.is_some() {
                // The network access of commands does not extend to a third-party package.
                self.network_access
            } else {
                self.network_access.or(base.network_access)
            },
            bind_mounts,
            ..base.clone()
        }
    }

    /// Returns true if `headers` has an `Authorization` header. Then no login is used.
    pub fn has_authorization(&self) -> bool {
        let mut names = self.headers.keys();
        names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Parses the hosts of `network`. The error is the reason why a host is not valid.
    pub fn hosts(&self) -> Result<Vec<HostPattern>, String> {
        let hosts = self.network.iter().map(|text| match text.as_str() {
            "*" => Ok(HostPattern::any()),
            text => text.parse().map_err(|error| format!("`network`: {error}")),
        });
        hosts.collect()
    }

    /// Parses `folders`. The error is the reason why a folder is not valid.
    pub fn launch_folders(&self) -> Result<Vec<LaunchFolder>, String> {
        let folders = self.folders.iter().map(|text| {
            let (path, writable) = match text.strip_suffix(":ro") {
                Some(path) => (path, false),
                None => (text.as_str(), true),
            };
            let parts: Vec<&str> = path.split(['/', '\\']).collect();
            if path.is_empty() || path.starts_with(['/', '\\', '~']) || parts.contains(&"..") {
                return Err(format!(
                    "`folders`: `{}` is not a folder of the workspace: write its path below the workspace, without `..`",
                    crate::text::visible(crate::text::prefix(text, 80))
                ));
            }
            Ok(LaunchFolder { path: path.to_owned(), writable })
        });
        folders.collect()
    }
}

impl McpSettings {
    /// Returns true unless `enabled` disables all servers.
    pub fn is_enabled(&self) -> bool {
        self.enabled != Some(false)
    }

    /// Returns the enabled servers, by name.
    pub fn enabled_servers(&self) -> impl Iterator<Item = (&String, &McpServerSettings)> {
        let servers = self.servers.iter().filter(|_| self.is_enabled());
        servers.filter(|(_, server)| server.is_enabled())
    }

    /// Collects the servers that differ from those of the weaker files, `enabled` if it enables servers that a weaker
    /// file disables, and `marks` if it removes marks.
    pub(super) fn collect_weakening_keys(&self, below: &Self, keys: &mut Vec<String>) {
        if self.enabled == Some(true) && !below.is_enabled() {
            keys.push("mcp.enabled: true".to_owned());
        }
        if self.registry.is_some() && self.registry != below.registry {
            keys.push("mcp.registry".to_owned());
        }
        if self.marks == UntrustedMarking::Minimal && below.marks != UntrustedMarking::Minimal {
            keys.push("mcp.marks: minimal".to_owned());
        }
        for (name, server) in &self.servers {
            let is_known = below.servers.get(name) == Some(server);
            if !is_known && *server != McpServerSettings::disabled() {
                let package = server.package.as_ref().map(McpPackage::to_string);
                let program = package
                    .as_ref()
                    .or(server.command.as_ref())
                    .or(server.url.as_ref());
                let program = program.map_or_else(String::new, |program| {
                    format!(
                        ": {}",
                        crate::text::visible(crate::text::prefix(program, 80))
                    )
                });
                keys.push(format!("mcp.servers.{name}{program}"));
            }
        }
    }

    /// Replaces the servers by those of the weaker files. Servers that are disabled here stay disabled.
    pub(super) fn clamp_to(&mut self, below: &Self) {
        if !below.is_enabled() {
            self.enabled = Some(false);
        }
        self.registry.clone_from(&below.registry);
        if self.marks == UntrustedMarking::Minimal {
            self.marks = below.marks;
        }
        let is_disabled = |name: &String| {
            self.servers
                .get(name)
                .is_some_and(|server| !server.is_enabled())
        };
        let servers = below.servers.iter().map(|(name, server)| {
            let mut server = server.clone();
            if is_disabled(name) {
                server.enabled = Some(false);
            }
            (name.clone(), server)
        });
        self.servers = servers.collect();
    }

    /// Merges the blocks of several files, the strongest last. A server replaces the whole entry of an earlier file, so
    /// that the secrets of one file are never passed to a program of another. An entry that only has `enabled` changes
    /// just that key.
    pub fn merge_files(&mut self, files: &[&Self]) {
        for (name, server) in &mut self.servers {
            let mut entries = files.iter().filter_map(|file| file.servers.get(name));
            let Some(first) = entries.next() else {
                continue;
            };
            let mut merged = first.clone();
            for entry in entries {
                match (&entry.command, &entry.url) {
                    (None, None) if entry.package.is_none() => {
                        merged.enabled = entry.enabled.or(merged.enabled)
                    }
                    _ => merged = entry.clone(),
                }
            }
            *server = merged;
        }
    }
}

impl McpServerSettings {
    /// Returns an entry that only disables a server.
    fn disabled() -> Self {
        Self {
            enabled: Some(false),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(value: serde_json::Value) -> McpSettings {
        serde_json::from_value(json!({ "servers": value })).unwrap()
    }

    fn package() -> serde_json::Value {
        json!({"registry": "npm", "name": "@a/b", "version": "1.2.3", "integrity": "sha512-x", "program": "b"})
    }

    #[test]
    fn mcp_package_gets_only_the_named_network_and_folders() {
        let base: SandboxSettings = serde_json::from_value(json!({"networkAccess": true})).unwrap();
        let plain = block(json!({"a": {"package": package()}, "b": {"command": "x"}}));
        plain.servers["a"].check("a").unwrap();
        assert_eq!(plain.servers["a"].sandbox_over(&base).network_access, None);
        assert_eq!(
            plain.servers["b"].sandbox_over(&base).network_access,
            Some(true)
        );
        let named = block(json!({"a": {
            "package": package(), "network": ["*", "h.example"], "folders": [".", "docs:ro"]}}));
        named.servers["a"].check("a").unwrap();
        assert!(named.servers["a"].hosts().unwrap()[0].is_any());
        let folders = named.servers["a"].launch_folders().unwrap();
        assert_eq!((folders[0].writable, folders[1].writable), (true, false));
        let none = SandboxSettings::default();
        assert_eq!(
            named.servers["a"].sandbox_over(&none).network_access,
            Some(true)
        );
    }

    #[test]
    fn mcp_server_invalid_settings_are_rejected() {
        for (name, server, words) in [
            ("a", json!({}), "neither"),
            (
                "a",
                json!({"command": "x", "url": "http://h"}),
                "one of them",
            ),
            ("a", json!({"command": " "}), "empty"),
            (
                "a",
                json!({"command": "x", "headers": {"a": "b"}}),
                "`headers`",
            ),
            (
                "a",
                json!({"url": "http://h", "env": {"a": "b"}}),
                "`command`",
            ),
            ("a", json!({"command": "x", "prefix": "A-"}), "`prefix`"),
            ("a", json!({"command": "x", "oauth": {}}), "`oauth`"),
            (
                "a",
                json!({"url": "http://h", "oauth": {}, "headers": {"authorization": "x"}}),
                "one of them",
            ),
            (
                "a",
                json!({"url": "http://h", "oauth": {"clientId": ""}}),
                "clientId",
            ),
            ("a b", json!({"command": "x"}), "the name"),
            (
                "a",
                json!({"package": package(), "command": "x"}),
                "one of them",
            ),
            ("a", json!({"package": package(), "cwd": "."}), "`folders`"),
            ("a", json!({"command": "x", "folders": ["."]}), "`package`"),
            (
                "a",
                json!({"package": package(), "folders": ["../x"]}),
                "`../x`",
            ),
            (
                "a",
                json!({"command": "x", "network": ["a b"]}),
                "`network`",
            ),
            (
                "a",
                json!({"command": "x", "network": ["h.example"], "networkAccess": false}),
                "networkAccess: false",
            ),
        ] {
            let block = block(json!({ name: server }));
            let error = block.servers[name].check(name).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let config = block(json!({"a": {"command": "x", "prefix": ""}, "b": {"enabled": false}}));
        config
            .servers
            .iter()
            .for_each(|(name, server)| server.check(name).unwrap());
        let late = block(json!({"a": {"command": "x", "idleMs": 0}}));
        let error = late.check_times().unwrap_err();
        assert_eq!(error.key, "mcp.servers.a.idleMs");
    }

    #[test]
    fn mcp_untrusted_file_adds_no_server_but_may_disable() {
        let below = block(json!({"mine": {"command": "x"}}));
        let mut above = block(json!({
            "mine": {"command": "x", "enabled": false}, "theirs": {"command": "evil"},
        }));
        let mut keys = Vec::new();
        above.collect_weakening_keys(&below, &mut keys);
        assert!(
            keys.contains(&"mcp.servers.theirs: evil".to_owned()),
            "{keys:?}"
        );
        above.clamp_to(&below);
        assert_eq!(above.servers.len(), 1);
        assert!(!above.servers["mine"].is_enabled());
    }

    #[test]
    fn mcp_servers_are_enabled_only_by_a_trusted_file() {
        let mcp = |enabled: Option<bool>| -> McpSettings {
            serde_json::from_value(
                json!({ "enabled": enabled, "servers": {"a": {"command": "x"}} }),
            )
            .unwrap()
        };
        for (above, below, key, within) in [
            (Some(true), Some(false), true, false),
            (None, Some(false), false, false),
            (Some(false), None, false, false),
            (Some(true), None, false, true),
            (None, None, false, true),
        ] {
            let (mut above, below) = (mcp(above), mcp(below));
            let mut keys = Vec::new();
            above.collect_weakening_keys(&below, &mut keys);
            assert_eq!(keys == ["mcp.enabled: true"], key, "{keys:?}");
            above.clamp_to(&below);
            assert_eq!(above.is_enabled(), within);
            assert_eq!(above.enabled_servers().count(), usize::from(within));
        }
    }

    #[test]
    fn mcp_marks_are_reduced_only_by_a_trusted_file() {
        let marks = |word: &str| -> McpSettings {
            serde_json::from_value(json!({ "marks": word })).unwrap()
        };
        for (above, below, key, within) in [
            ("minimal", "all", true, UntrustedMarking::All),
            ("minimal", "text", true, UntrustedMarking::Text),
            ("minimal", "minimal", false, UntrustedMarking::Minimal),
            ("text", "all", false, UntrustedMarking::Text),
            ("all", "minimal", false, UntrustedMarking::All),
        ] {
            let (mut above, below) = (marks(above), marks(below));
            let mut keys = Vec::new();
            above.collect_weakening_keys(&below, &mut keys);
            assert_eq!(keys == ["mcp.marks: minimal"], key, "{keys:?}");
            above.clamp_to(&below);
            assert_eq!(above.marks, within);
        }
    }

    #[test]
    fn mcp_server_with_new_url_replaces_the_earlier_one() {
        let user =
            block(json!({"a": {"command": "x", "env": {"K": "secret"}}, "b": {"command": "y"}}));
        let project = block(json!({"a": {"url": "http://h"}, "b": {"enabled": false}}));
        let mut merged = block(json!({
            "a": {"command": "x", "env": {"K": "secret"}, "url": "http://h"},
            "b": {"command": "y", "enabled": false},
        }));
        merged.merge_files(&[&user, &project]);
        assert_eq!(merged.servers["a"], project.servers["a"]);
        assert_eq!(merged.servers["b"].command.as_deref(), Some("y"));
        assert!(!merged.servers["b"].is_enabled());
    }
}
