//! Settings for the test cases of a plugin, whose calls no person approves.

use mimir_core::ToolError;
use mimir_core::config::{Config, SandboxMode};
use mimir_core::network::NetworkMode;
use serde_yaml::Value;

use crate::servers::control::ServerControl;

use super::{ConfigFile, ConfigOwner, MergedSettings, file_paths, merge};

/// Blocks that apply to test cases, too. The others, such as secrets and servers, would make the result of a case depend
/// on the user.
const BLOCKS: [&str; 4] = ["execApprovals", "network", "policy", "sandbox"];

impl MergedSettings {
    /// Returns the settings for test cases: the rules of teams, and from the files of the user and the workspace, the
    /// sandbox, the network, and the rules for tools and commands. Paths that the sandbox mounts are read-only. Without
    /// `network`, no host can be reached, also not by commands.
    ///
    /// # Errors
    ///
    /// Fails if the settings contradict each other.
    pub fn for_test_cases(&self, network: bool) -> Result<Self, ToolError> {
        let files = self.files.iter().map(ConfigFile::for_test_cases);
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let mut config = merge::merge_layers(&files)?;
        for mount in &mut config.sandbox.bind_mounts {
            mount.writable = false;
        }
        if !network {
            turn_network_off(&mut config);
        }
        Ok(Self {
            config,
            files,
            server_control: ServerControl::default(),
            teams: self.teams.clone(),
            withheld: Vec::new(),
        })
    }
}

/// Turns off the network of tools and commands.
fn turn_network_off(config: &mut Config) {
    config.network.mode = Some(NetworkMode::None);
    for tool in config.tools.each.values_mut() {
        tool.network.mode = Some(NetworkMode::None);
    }
    config.sandbox.network_access = Some(false);
    // Commands outside of a sandbox reach any host.
    if config.sandbox.mode == Some(SandboxMode::None) {
        config.sandbox.mode = Some(SandboxMode::Auto);
    }
}

impl ConfigFile {
    /// Returns the part of the file that applies to test cases.
    fn for_test_cases(&self) -> Result<Self, ToolError> {
        let mut part = self.clone();
        if !matches!(self.owner, ConfigOwner::User | ConfigOwner::Project) {
            return Ok(part);
        }
        let Value::Mapping(blocks) = &mut part.value else {
            return Ok(part);
        };
        blocks.retain(|key, _| key.as_str().is_some_and(|key| BLOCKS.contains(&key)));
        // Cases have a workspace of their own.
        let workspace = self.path.parent().and_then(|folder| folder.parent());
        if let Some(workspace) = workspace.filter(|_| self.owner == ConfigOwner::Project) {
            file_paths::anchor_file_paths(&mut part.value, workspace);
        }
        part.config = serde_yaml::from_value(part.value.clone()).map_err(|error| {
            ToolError::invalid_input(format!("{} is not valid: {error}", self.shown))
        })?;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::ConfigLocation;
    use super::*;

    fn settings(text: &str, network: bool) -> MergedSettings {
        let location = ConfigLocation {
            path: PathBuf::from("/home/me/config.yml"),
            shown: "config.yml".to_owned(),
            owner: ConfigOwner::User,
        };
        let file = ConfigFile::parse(location, text).unwrap();
        let all = MergedSettings {
            config: file.config.clone(),
            files: vec![file],
            server_control: ServerControl::default(),
            teams: Vec::new(),
            withheld: Vec::new(),
        };
        all.for_test_cases(network).unwrap()
    }

    #[test]
    fn test_cases_have_the_sandbox_and_the_rules_of_the_user_without_network() {
        let text = "sandbox: {mode: container, networkAccess: true, bindMounts: ['/data:rw']}\n\
            network: {mode: any}\npolicy: {deny: [bash]}\nmodel: a/b\ntools: {greet: {enabled: false}}\n";
        let cases = settings(text, false).config;
        assert_eq!(cases.sandbox.mode, Some(SandboxMode::Container));
        assert_eq!(cases.sandbox.network_access, Some(false));
        assert!(!cases.sandbox.bind_mounts[0].writable);
        assert_eq!(cases.network.mode, Some(NetworkMode::None));
        assert_eq!(cases.policy.deny, ["bash"]);
        assert_eq!(cases.model, None);
        assert!(cases.tools.each.is_empty());
        let with_network = settings(text, true).config;
        assert_eq!(with_network.network.mode, Some(NetworkMode::Any));
        assert_eq!(with_network.sandbox.network_access, Some(true));
        let denying = settings(text, true).files[0].config.policy.deny.clone();
        assert_eq!(denying, ["bash"]);
    }

    #[test]
    fn test_cases_without_network_have_a_sandbox() {
        let open = "sandbox: none\n";
        let mode = |network| settings(open, network).config.sandbox.mode;
        assert_eq!(mode(false), Some(SandboxMode::Auto));
        assert_eq!(mode(true), Some(SandboxMode::None));
        assert!(
            settings("# only a comment\n", false).files[0]
                .value
                .is_null()
        );
    }
}
