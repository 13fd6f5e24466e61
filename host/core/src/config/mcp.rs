//! What a person may set about other people's MCP servers: how each is started or reached, and in what bounds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::network::Target;

use super::{BindMount, OutOfRange, SandboxMode, SandboxSettings};

mod oauth;

pub use oauth::{McpOauth, is_scope};

/// The block `mcp`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct McpSettings {
    /// Servers whose tools can be called, by the names that a person gives them.
    pub servers: BTreeMap<String, McpServer>,
}

/// One server: `command` for one that is started here, `url` for one that is reached over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct McpServer {
    /// The program that is the server, started in the sandbox.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables; `${NAME}` is the secret of that name.
    pub env: BTreeMap<String, String>,
    /// The folder that it starts in, from the workspace; an empty one of its own where none is named.
    pub cwd: Option<String>,
    /// Lets a server that is in no sandbox, or is given secrets, start with what leads into the workspace. Risky: if it
    /// runs what lies there, whoever may write a file there, as a model may, runs code as you, or reads those secrets.
    pub workspace_code: Option<bool>,
    /// Where a server is reached over HTTP.
    pub url: Option<String>,
    /// Headers of each request to it; `${NAME}` is the secret of that name.
    pub headers: BTreeMap<String, String>,
    /// How a login at it goes, where it wants one.
    pub oauth: Option<McpOauth>,
    /// `false` leaves it alone.
    pub enabled: Option<bool>,
    /// Longest time of one call, in milliseconds; the limits of calls hold all the same.
    pub timeout_ms: Option<u64>,
    /// Longest time until it is ready, in milliseconds.
    pub start_timeout_ms: Option<u64>,
    /// After how long without a call it is stopped, in milliseconds.
    pub idle_ms: Option<u64>,
    /// What stands before the names of its tools, in place of `mcp_<server>_`; it may be nothing.
    pub prefix: Option<String>,
    /// Whether clients of mimir see its resources; they do, unless this is `false`.
    pub resources: Option<bool>,
    /// Whether clients of mimir see its prompts; they do, unless this is `false`.
    pub prompts: Option<bool>,
    /// Whether it may have the client's person fill in a form; it may, unless this is `false`.
    pub elicitation: Option<bool>,
    /// Whether it may have the client's model complete a text.
    pub sampling: Option<bool>,
    /// Whether it is told the workspace as its root.
    pub roots: Option<bool>,
    /// The sandbox that it runs in, in place of that of commands.
    pub sandbox: Option<SandboxMode>,
    /// Whether it reaches the network from there. Asked for and not to be had, it is not started.
    pub network_access: Option<bool>,
    /// What it sees beside the workspace and what all commands see.
    #[schemars(with = "Vec<String>")]
    pub bind_mounts: Vec<BindMount>,
}

/// A block that describes no server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mcp.servers.{server}: {why}")]
pub struct NoServer {
    server: String,
    why: String,
}

/// The longest name of a server: with its prefix it leaves room for the names of tools.
const NAME_MAX: usize = 40;

/// A millisecond is the least that is a time, and a day the most that anyone waits.
const TIME: (u64, u64) = (1, 86_400_000);

impl McpServer {
    /// Whether it may be used.
    pub fn is_enabled(&self) -> bool {
        self.enabled != Some(false)
    }

    /// The sandbox of the server: that of commands, with what is set for this one.
    pub fn sandbox_over(&self, base: &SandboxSettings) -> SandboxSettings {
        let mut bind_mounts = base.bind_mounts.clone();
        bind_mounts.extend(self.bind_mounts.iter().cloned());
        SandboxSettings {
            mode: self.sandbox.or(base.mode),
            network_access: self.network_access.or(base.network_access),
            bind_mounts,
            ..base.clone()
        }
    }

    /// Checks that it is one server, and not none or two.
    pub fn check(&self, name: &str) -> Result<(), NoServer> {
        let fault = |why: &str| {
            Err(NoServer {
                server: crate::text::visible(crate::text::prefix(name, NAME_MAX)),
                why: why.to_owned(),
            })
        };
        let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(good) {
            return fault("the name has 1 to 40 letters, digits, `_`, `-` and `.`");
        }
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => {
                return fault("it has a `command` and a `url`; a server has one of them");
            }
            // Another file may say what it is.
            (None, None) if !self.is_enabled() => return Ok(()),
            (None, None) => {
                return fault(
                    "it has neither a `command` that starts it nor a `url` where it is reached",
                );
            }
            (Some(command), None) if command.trim().is_empty() => {
                return fault("its `command` is empty");
            }
            (Some(_), None) if !self.headers.is_empty() => {
                return fault("`headers` go with a `url`; a command has `env`");
            }
            (Some(_), None) if self.oauth.is_some() => {
                return fault("`oauth` goes with a `url`; a command has `env`");
            }
            (None, Some(_)) if self.has_program_keys() => {
                return fault(
                    "`args`, `env`, `cwd`, `workspaceCode`, `sandbox`, `networkAccess` and `bindMounts` go with a `command`",
                );
            }
            _ => {}
        }
        if let Some(Err(error)) = self.url.as_deref().map(Target::parse) {
            return fault(&format!("`url`: {error}"));
        }
        if let Some(why) = self.oauth.as_ref().and_then(McpOauth::fault) {
            return fault(why);
        }
        if self.oauth.is_some() && self.has_authorization() {
            return fault("it has `oauth` and a header `Authorization`; a server has one of them");
        }
        let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if let Some(prefix) = &self.prefix
            && (prefix.len() > NAME_MAX || !prefix.bytes().all(word))
        {
            return fault("`prefix` has at most 40 of a-z, 0-9 and _");
        }
        Ok(())
    }

    /// Whether the settings say who sends the requests: then no login does.
    pub fn has_authorization(&self) -> bool {
        let mut names = self.headers.keys();
        names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    fn has_program_keys(&self) -> bool {
        !self.args.is_empty()
            || !self.env.is_empty()
            || self.cwd.is_some()
            || self.workspace_code.is_some()
            || self.sandbox.is_some()
            || self.network_access.is_some()
            || !self.bind_mounts.is_empty()
    }

    fn check_times(&self, name: &str) -> Result<(), OutOfRange> {
        for (key, value) in [
            ("timeoutMs", self.timeout_ms),
            ("startTimeoutMs", self.start_timeout_ms),
            ("idleMs", self.idle_ms),
        ] {
            let (least, most) = TIME;
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                let key = format!("mcp.servers.{name}.{key}");
                return Err(OutOfRange {
                    key,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}

impl McpSettings {
    pub(super) fn check_times(&self) -> Result<(), OutOfRange> {
        let mut servers = self.servers.iter();
        servers.try_for_each(|(name, server)| server.check_times(name))
    }

    /// The servers that differ from those below: what starts or reaches something else.
    pub(super) fn lowering(&self, below: &Self, keys: &mut Vec<String>) {
        for (name, server) in &self.servers {
            let known = below.servers.get(name) == Some(server);
            if !known && *server != McpServer::off() {
                let what = server.command.as_ref().or(server.url.as_ref());
                let what = what.map_or_else(String::new, |what| {
                    format!(": {}", crate::text::visible(crate::text::prefix(what, 80)))
                });
                keys.push(format!("mcp.servers.{name}{what}"));
            }
        }
    }

    /// Only the servers below, without those that were switched off here.
    pub(super) fn within(&mut self, below: &Self) {
        let off = |name: &String| self.servers.get(name).is_some_and(|one| !one.is_enabled());
        let servers = below.servers.iter().map(|(name, server)| {
            let mut server = server.clone();
            if off(name) {
                server.enabled = Some(false);
            }
            (name.clone(), server)
        });
        self.servers = servers.collect();
    }

    /// A server that a later file describes replaces that of an earlier one as a whole: what one file keeps secret
    /// goes to no program of another. `files` are the blocks, the strongest last.
    pub fn whole(&mut self, files: &[&Self]) {
        for (name, server) in &mut self.servers {
            let mut found = files.iter().filter_map(|file| file.servers.get(name));
            let Some(first) = found.next() else { continue };
            let mut whole = first.clone();
            for one in found {
                match (&one.command, &one.url) {
                    (None, None) => whole.enabled = one.enabled.or(whole.enabled),
                    _ => whole = one.clone(),
                }
            }
            *server = whole;
        }
    }
}

impl McpServer {
    /// What only switches a server off.
    fn off() -> Self {
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

    #[test]
    fn a_block_is_one_server() {
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
        ] {
            let block = block(json!({ name: server }));
            let error = block.servers[name].check(name).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let fine = block(json!({"a": {"command": "x", "prefix": ""}, "b": {"enabled": false}}));
        fine.servers
            .iter()
            .for_each(|(name, server)| server.check(name).unwrap());
        let late = block(json!({"a": {"command": "x", "idleMs": 0}}));
        let error = late.check_times().unwrap_err();
        assert_eq!(error.key, "mcp.servers.a.idleMs");
    }

    #[test]
    fn what_nobody_accepted_starts_nothing_and_may_switch_off() {
        let below = block(json!({"mine": {"command": "x"}}));
        let mut above = block(json!({
            "mine": {"command": "x", "enabled": false}, "theirs": {"command": "evil"},
        }));
        let mut keys = Vec::new();
        above.lowering(&below, &mut keys);
        assert!(
            keys.contains(&"mcp.servers.theirs: evil".to_owned()),
            "{keys:?}"
        );
        above.within(&below);
        assert_eq!(above.servers.len(), 1);
        assert!(!above.servers["mine"].is_enabled());
    }

    #[test]
    fn a_server_of_two_files_is_that_of_the_later_one() {
        let user =
            block(json!({"a": {"command": "x", "env": {"K": "secret"}}, "b": {"command": "y"}}));
        let project = block(json!({"a": {"url": "http://h"}, "b": {"enabled": false}}));
        let mut merged = block(json!({
            "a": {"command": "x", "env": {"K": "secret"}, "url": "http://h"},
            "b": {"command": "y", "enabled": false},
        }));
        merged.whole(&[&user, &project]);
        assert_eq!(merged.servers["a"], project.servers["a"]);
        assert_eq!(merged.servers["b"].command.as_deref(), Some("y"));
        assert!(!merged.servers["b"].is_enabled());
    }
}
