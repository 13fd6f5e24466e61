//! Checks of the block `mcp.servers`: that each entry describes one server, with the keys that go together.

use super::{McpOauthSettings, McpServerSettings, McpSettings};
use crate::config::{OutOfRangeError, limits};
use crate::network::RequestTarget;

/// An invalid server entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mcp.servers.{server}: {why}")]
pub struct McpServerError {
    server: String,
    why: String,
}

/// The maximum length of a server's name: with its prefix it leaves room for tool names.
const NAME_MAX: usize = 40;

/// From a millisecond to a day.
const TIME: (u64, u64) = (1, 86_400_000);

impl McpServerSettings {
    /// Checks that it describes exactly one server.
    pub fn check(&self, name: &str) -> Result<(), McpServerError> {
        let fault = |why: &str| {
            Err(McpServerError {
                server: crate::text::visible(crate::text::prefix(name, NAME_MAX)),
                why: why.to_owned(),
            })
        };
        let is_name_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name_char) {
            return fault("the name has 1 to 40 letters, digits, `_`, `-` and `.`");
        }
        if let Some(package) = &self.package {
            if self.command.is_some() || self.url.is_some() {
                return fault(
                    "it has a `package` beside a `command` or a `url`; a server has one of them",
                );
            }
            if let Some(why) = package.fault() {
                return fault(&why);
            }
            if self.cwd.is_some() || self.workspace_code.is_some() {
                return fault(
                    "`cwd` and `workspaceCode` go with a `command`; a package starts in a folder of its own, and `folders` names what it sees",
                );
            }
        } else if !self.folders.is_empty() {
            return fault("`folders` goes with a `package`; a command sees the whole workspace");
        }
        if let Err(why) = self.hosts().and(self.launch_folders()) {
            return fault(&why);
        }
        if !self.network.is_empty() && self.network_access == Some(false) {
            return fault("it has `network` and `networkAccess: false`; remove one of them");
        }
        match (
            self.command
                .as_ref()
                .or(self.package.as_ref().map(|package| &package.name)),
            &self.url,
        ) {
            (Some(_), Some(_)) => {
                return fault("it has a `command` and a `url`; a server has one of them");
            }
            // Another file may define it.
            (None, None) if !self.is_enabled() => return Ok(()),
            (None, None) => {
                return fault(
                    "it has neither a `command` or `package` that starts it nor a `url` where it is reached",
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
                    "`args`, `env`, `cwd`, `workspaceCode`, `sandbox`, `network`, `networkAccess` and `bindMounts` go with a `command`",
                );
            }
            _ => {}
        }
        if let Some(Err(error)) = self.url.as_deref().map(RequestTarget::parse) {
            return fault(&format!("`url`: {error}"));
        }
        if let Some(why) = self.oauth.as_ref().and_then(McpOauthSettings::fault) {
            return fault(why);
        }
        if self.oauth.is_some() && self.has_authorization() {
            return fault("it has `oauth` and a header `Authorization`; a server has one of them");
        }
        let is_prefix_char = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if let Some(prefix) = &self.prefix
            && (prefix.len() > NAME_MAX || !prefix.bytes().all(is_prefix_char))
        {
            return fault("`prefix` has at most 40 of a-z, 0-9 and _");
        }
        Ok(())
    }

    fn has_program_keys(&self) -> bool {
        !self.args.is_empty()
            || !self.env.is_empty()
            || self.cwd.is_some()
            || self.workspace_code.is_some()
            || self.sandbox.is_some()
            || self.network_access.is_some()
            || !self.network.is_empty()
            || !self.bind_mounts.is_empty()
    }

    fn check_times(&self, name: &str) -> Result<(), OutOfRangeError> {
        for (key, value) in [
            ("timeoutMs", self.timeout_ms),
            ("startTimeoutMs", self.start_timeout_ms),
            ("idleMs", self.idle_ms),
        ] {
            limits::check(|| format!("mcp.servers.{name}.{key}"), value, TIME)?;
        }
        Ok(())
    }
}

impl McpSettings {
    pub(in crate::config) fn check_times(&self) -> Result<(), OutOfRangeError> {
        let mut servers = self.servers.iter();
        servers.try_for_each(|(name, server)| server.check_times(name))
    }
}
