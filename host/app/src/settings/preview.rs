//! Edits of a config file that are shown before they are written: the text before and after, and the settings that would
//! be in force.

use mimir_core::ToolError;

use super::edit::{ConfigEdit, apply_edits};
use super::write::change_config;
use super::{ConfigFile, ConfigLocation, ConfigOwner, MergedSettings, digest, merge};
use crate::setup::HostSetup;

/// An edit of a config file that is not written yet.
#[derive(Debug)]
pub struct ConfigPreview {
    /// Path of the file, for messages.
    pub shown: String,
    /// The current text; empty if the file does not exist.
    pub before: String,
    /// The text after the edit.
    pub after: String,
    /// SHA-256 of the current text, which [`ConfigPreview::write`] compares.
    pub digest: String,
    /// The settings that would be in force.
    pub settings: MergedSettings,
}

impl ConfigPreview {
    /// Applies edits to the file of the user or the workspace in memory.
    ///
    /// # Errors
    /// The file cannot be edited, or the result would not be valid.
    pub fn new(
        setup: &HostSetup,
        owner: ConfigOwner,
        edits: &[ConfigEdit],
    ) -> Result<Self, ToolError> {
        let location = location(setup, owner)?;
        let before = location.text()?.unwrap_or_default();
        let after = apply_edits(&before, edits)?;
        MergedSettings::check(&location, &after)?;
        let settings = setup.settings.with_text(location.clone(), &after)?;
        settings.policy()?;
        Ok(Self {
            shown: location.shown,
            digest: digest(&before),
            before,
            after,
            settings,
        })
    }

    /// Writes edits, like `mimir config set`, if the text of the file still has this digest. Returns the path of the file
    /// for messages.
    pub fn write(
        setup: &HostSetup,
        owner: ConfigOwner,
        edits: &[ConfigEdit],
        expected_digest: &str,
    ) -> Result<String, ToolError> {
        change_config(setup, owner == ConfigOwner::User, |before| {
            if digest(before) == expected_digest {
                Ok(edits.to_vec())
            } else {
                Err(ToolError::unavailable(
                    "the file has changed since the difference was shown; nothing was written: look at the difference again",
                ))
            }
        })
    }
}

fn location(setup: &HostSetup, owner: ConfigOwner) -> Result<ConfigLocation, ToolError> {
    let locations = ConfigLocation::all_locations(&setup.user_dirs, &setup.workspace);
    let mut locations = locations.into_iter();
    locations
        .find(|location| location.owner == owner)
        .ok_or_else(|| {
            let message = "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR";
            ToolError::unavailable(message)
        })
}

impl MergedSettings {
    /// Returns these settings with another text of the file at `location`. A project's file that was accepted stays
    /// accepted, because its user makes the change.
    fn with_text(&self, location: ConfigLocation, text: &str) -> Result<Self, ToolError> {
        let mut changed = self.clone();
        let mut file = ConfigFile::parse(location, text)?;
        let at = changed.files.iter().position(|old| old.owner == file.owner);
        match at {
            Some(at) => {
                let old = &changed.files[at];
                file.unaccepted = old.unaccepted;
                file.unaccepted_text = old.unaccepted_text;
                changed.files[at] = file;
            }
            None => {
                let rank = |owner: ConfigOwner| match owner {
                    ConfigOwner::User => 1,
                    ConfigOwner::Environment => 2,
                    ConfigOwner::Project => 3,
                    _ => 0,
                };
                let own = rank(file.owner);
                let at = changed.files.iter().take_while(|old| rank(old.owner) < own);
                let at = at.count();
                changed.files.insert(at, file);
            }
        }
        changed.config = merge::merge_layers(&changed.files)?;
        changed.server_control.apply(&mut changed.config.mcp);
        Ok(changed)
    }
}
