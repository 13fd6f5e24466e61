//! The error of `load_skill` in workspaces whose skills cannot be used.

use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};

use super::{LOAD_SKILL, SkillConsents, SkillLibrary};

/// Maximum number of skills that the error names.
const MAX_NAMED: usize = 20;

impl SkillLibrary {
    /// Returns the error of calls of `load_skill` if [`Self::tool`] returns no tool: the skills that exist, and why they
    /// cannot be used. `None` if there are no skills. Reads no skill.
    pub fn tool_fault(&self) -> Option<ToolError> {
        if self.teams.is_empty() && !self.has_local_folder() {
            return None;
        }
        let consents = SkillConsents::read(self).unwrap_or_default();
        let names = self.names(&consents);
        if names.is_empty() {
            return None;
        }
        let mut skills: Vec<String> = (names.iter().take(MAX_NAMED))
            .map(|name| format!("{} ({})", visible(name), self.fault_of(name, &consents)))
            .collect();
        if names.len() > MAX_NAMED {
            skills.push(format!("and {} more", names.len() - MAX_NAMED));
        }
        let message = format!(
            "`{LOAD_SKILL}` is not available, because no skill can be used: {}",
            skills.join(", ")
        );
        Some(match self.disabled_by {
            Some(_) => ToolError::new(ToolErrorCode::PolicyDenied, message),
            None => ToolError::permission_denied(message).with_remedies([
                "`mimir skills` shows all skills, and `mimir skills trust NAME` shows and accepts one; they are for a \
                 person to run"
                    .to_owned(),
            ]),
        })
    }

    fn fault_of(&self, name: &str, consents: &SkillConsents) -> String {
        let mut bundled = self.teams.iter().flat_map(|team| &team.bundle.skills);
        let is_of_team =
            bundled.any(|file| file.path.split_once('/').is_some_and(|(of, _)| of == name));
        if is_of_team {
            return "the bundle of its team is too old, or has an invalid file".to_owned();
        }
        if let Some(file) = &self.disabled_by {
            return format!("{} sets `enforcement.disableLocalTools`", visible(file));
        }
        if consents.was_accepted(name) {
            "its files or its pin have changed since a person accepted it".to_owned()
        } else {
            "no person has accepted it on this machine".to_owned()
        }
    }
}
