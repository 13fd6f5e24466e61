//! Validation of `mcp.servers`: each entry must describe one server, and its keys must be compatible.

use super::{McpOauthSettings, McpServerSettings, McpSettings};
use crate::config::{OutOfRangeError, limits};
use crate::network::RequestTarget;

/// Error of a server entry that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mcp.servers.{server}: {why}")]
pub struct McpServerError {
    server: String,
    why: String,
}

/// Maximum length of a server's name and of a prefix, which leaves room for tool names.
const NAME_MAX: usize = 40;

/// From a millisecond to a day.
const TIME_RANGE: (u64, u64) = (1, 86_400_000);

impl McpServerSettings {
    /// Checks that the entry describes exactly one server, and that its keys are compatible.
    pub fn check(&self, name: &str) -> Result<(), McpServerError> {
        let fault = |why: &str| {
            Err(McpServerError {
                server: crate::text::visible(crate::text::prefix(name, NAME_MAX)),
                why: why.to_owned(),
            })
        };
        let is_name_char = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name_char) {
            return fault("the name must have 1 to 40 letters, digits, `_`, `-` and `.`");
        }
        if let Some(package) = &self.package {
            if self.command.is_some() || self.url.is_some() {
                return fault(
                    "`package`, `command` and `url` exclude each other; keep one of them",
                );
            }
            if let Some(why) = package.fault() {
                return fault(&why);
            }
            if self.cwd.is_some() || self.workspace_code.is_some() {
                return fault(
                    "`cwd` and `workspaceCode` are only for a `command`; a package starts in a folder of its own, and sees the folders listed in `folders`",
                );
            }
        } else if !self.folders.is_empty() {
            return fault("`folders` is only for a `package`; a command sees the whole workspace");
        }
        if let Err(why) = self.hosts().and(self.launch_folders()) {
            return fault(&why);
        }
        if !self.network.is_empty() && self.network_access == Some(false) {
            return fault(
                "`network` and `networkAccess: false` exclude each other; remove one of them",
            );
        }
        match (
            self.command
                .as_ref()
                .or(self.package.as_ref().map(|package| &package.name)),
            &self.url,
        ) {
            (Some(_), Some(_)) => {
                return fault("`command` and `url` exclude each other; keep one of them");
            }
            // Another file may define it.
            (None, None) if !self.is_enabled() => return Ok(()),
            (None, None) => {
                return fault(
                    "the entry has neither `command`, `package` nor `url`; set one of them",
                );
            }
            (Some(command), None) if command.trim().is_empty() => {
                return fault("`command` is empty: expected a program");
            }
            (Some(_), None) if !self.headers.is_empty() => {
                return fault(
                    "`headers` are only for a `url`; pass values to a command with `env`",
                );
            }
            (Some(_), None) if self.oauth.is_some() => {
                return fault("`oauth` is only for a `url`; pass values to a command with `env`");
            }
            (None, Some(_)) if self.has_program_keys() => {
                return fault(
                    "`args`, `env`, `cwd`, `workspaceCode`, `sandbox`, `network`, `networkAccess` and `bindMounts` are only for a `command`",
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
            return fault(
                "`oauth` and a header `Authorization` exclude each other; keep one of them",
            );
        }
        let is_prefix_char = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        if let Some(prefix) = &self.prefix
            && (prefix.len() > NAME_MAX || !prefix.bytes().all(is_prefix_char))
        {
            return fault("`prefix` must have at most 40 characters of a-z, 0-9 and _");
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
            limits::check(|| format!("mcp.servers.{name}.{key}"), value, TIME_RANGE)?;
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
