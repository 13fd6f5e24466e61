//! Settings of a tool's execution: `tools.NAME.execution`. They only restrict, so they apply in every file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::OutOfRangeError;
use super::limits::check_time;

/// `tools.NAME.execution`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExecutionSettings {
    /// The weakest sandbox in which the tool may run commands: `process` or `container`.
    pub sandbox: Option<RequiredSandbox>,
    /// Maximum wall clock of a call in milliseconds. A higher value than that of `limits.timeMs` has no effect.
    pub timeout: Option<u64>,
    /// With `none`, the tool and its commands send no requests.
    #[serde(alias = "networkDefault")]
    pub network: Option<DeniedNetwork>,
}

/// The weakest sandbox in which commands may run. The order is that of their strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequiredSandbox {
    /// The kernel's sandbox mechanisms, or a container.
    #[serde(alias = "nsjail")]
    Process,
    /// A Docker or Podman container.
    #[serde(alias = "docker")]
    Container,
}

impl RequiredSandbox {
    /// Returns the spelling used in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
        }
    }

    /// Returns true if the sandbox of this name is strong enough.
    pub fn is_met_by(self, sandbox: &str) -> bool {
        match self {
            Self::Process => matches!(sandbox, "process" | "container"),
            Self::Container => sandbox == "container",
        }
    }
}

/// The network access of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeniedNetwork {
    /// No requests.
    None,
}

impl ExecutionSettings {
    /// Combines the restrictions of two files.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let shorter = [self.timeout, other.timeout].into_iter().flatten().min();
        Self {
            sandbox: self.sandbox.max(other.sandbox),
            timeout: shorter,
            network: self.network.or(other.network),
        }
    }

    /// Returns the maximum wall clock of a call.
    pub fn wall(self) -> Duration {
        self.timeout.map_or(Duration::MAX, Duration::from_millis)
    }

    /// Checks that the time is in range. `key` is the key of the block.
    pub(super) fn check(self, key: &str) -> Result<(), OutOfRangeError> {
        check_time(&format!("{key}.timeout"), self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn execution_settings_of_files_are_combined() {
        let read = |value| serde_json::from_value::<ExecutionSettings>(value).unwrap();
        let one = read(json!({"sandbox": "nsjail", "timeout": 500}));
        let other = read(json!({"sandbox": "docker", "timeout": 900, "networkDefault": "none"}));
        let both = read(json!({"sandbox": "container", "timeout": 500, "network": "none"}));
        assert_eq!(one.strictest(other), both);
        assert_eq!(other.strictest(one), both);
        assert!(RequiredSandbox::Process.is_met_by("container"));
        assert!(!RequiredSandbox::Container.is_met_by("process"));
        assert!(!RequiredSandbox::Process.is_met_by("none"));
        for bad in [
            json!({"sandbox": "none"}),
            json!({"network": "proxy"}),
            json!({"timeout": -1}),
        ] {
            assert!(serde_json::from_value::<ExecutionSettings>(bad).is_err());
        }
    }
}
