//! Check of the settings in a team's bundle, before they are published.

use std::path::{Path, PathBuf};

use mimir_core::ToolError;

use super::file_paths::anchor_file_paths;
use super::{ConfigFile, ConfigLocation, ConfigOwner, merge};

/// Folder to which relative paths are resolved, to find them.
const MEMBER_FOLDER: &str = "/members";

/// Checks that `text` is valid as the settings of a team's bundle. `shown` names the text in messages.
///
/// # Errors
///
/// Fails as for any config file, and for relative paths of files, which members do not have.
pub(crate) fn check_bundle_settings(shown: &str, text: &str) -> Result<(), ToolError> {
    let location = ConfigLocation {
        // Without a folder, so that relative paths stay relative.
        path: PathBuf::from("settings.yml"),
        shown: shown.to_owned(),
        owner: ConfigOwner::NamedTeam,
    };
    let file = ConfigFile::parse(location, text)?;
    merge::policy_of_file(&file)?;
    let mut anchored = file.value.clone();
    anchor_file_paths(&mut anchored, Path::new(MEMBER_FOLDER));
    if anchored == file.value {
        return Ok(());
    }
    Err(ToolError::invalid_input(format!(
        "{shown} names files by relative paths, which members do not have; use absolute paths, and PEM texts for keys"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn team_settings_are_checked_before_they_are_published() {
        let check = |text: &str| check_bundle_settings("settings.yml", text);
        for good in [
            "",
            "# nothing\n",
            "policy: {deny: [web_fetch]}\n",
            "network: {extraRoots: [/etc/ssl/acme.pem]}\n",
        ] {
            check(good).unwrap();
        }
        for (bad, wanted) in [
            ("polcy: {}\n", "polcy"),
            ("limits:\n  timeMs: soon\n", "settings.yml:2"),
            (
                "policy: {rules: [{tools: ['['], decision: deny}]}\n",
                "settings.yml",
            ),
            ("network: {extraRoots: [acme.pem]}\n", "relative paths"),
            ("trustRoot: root.json\n", "relative paths"),
        ] {
            let error = check(bad).unwrap_err();
            assert!(error.message.contains(wanted), "{bad}: {}", error.message);
        }
    }
}
