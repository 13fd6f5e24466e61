//! Derives the sandbox settings of a command from the general settings and the target that it requests.
//!
//! Restrictions of the settings stay in force: if they allow only containers, no command runs outside of one.

use mimir_core::command::CommandTarget;
use mimir_core::config::{SandboxMode, SandboxSettings};

use crate::sandbox::SandboxError;

/// Returns the settings for a command with this target.
pub(crate) fn settings_for_target(
    all: &SandboxSettings,
    target: CommandTarget,
) -> Result<SandboxSettings, SandboxError> {
    let language = match target {
        CommandTarget::Default => return Ok(all.clone()),
        CommandTarget::HostPrograms => return settings_for_host_programs(all),
        CommandTarget::Container(language) => language,
    };
    let image = all.images.get(&language).or(all.image.as_ref());
    let image = image.ok_or(SandboxError::NoContainerImage(language))?;
    Ok(SandboxSettings {
        mode: Some(SandboxMode::Container),
        image: Some(image.clone()),
        ..all.clone()
    })
}

/// Settings for the programs of this machine: without an explicit mode, the kernel's sandbox.
fn settings_for_host_programs(all: &SandboxSettings) -> Result<SandboxSettings, SandboxError> {
    let mode = match all.mode.unwrap_or_default() {
        SandboxMode::Container => return Err(SandboxError::ContainersOnly),
        SandboxMode::Auto => SandboxMode::Process,
        mode => mode,
    };
    Ok(SandboxSettings {
        mode: Some(mode),
        // These settings apply to containers only.
        image: None,
        socket: None,
        ..all.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;
    use mimir_core::code::CodeLanguage;
    use serde_json::json;

    fn at(
        written: serde_json::Value,
        target: CommandTarget,
    ) -> Result<SandboxSettings, SandboxError> {
        settings_for_target(&serde_json::from_value(written).unwrap(), target)
    }

    #[test]
    fn container_image_of_a_language_precedes_the_default_image() {
        let python = CommandTarget::Container(CodeLanguage::Python);
        let both = json!({"image": "debian", "images": {"python": "python:3"}});
        let settings = at(both.clone(), python).unwrap();
        assert_eq!(settings.mode, Some(SandboxMode::Container));
        assert_eq!(settings.image.as_deref(), Some("python:3"));
        let other = at(both, CommandTarget::Container(CodeLanguage::Bash)).unwrap();
        assert_eq!(other.image.as_deref(), Some("debian"));
        let fault = at(json!("process"), python).unwrap_err();
        assert_eq!(fault.code(), ToolErrorCode::Unavailable);
        let error = mimir_core::ToolError::from(fault);
        assert!(error.remedies[0].contains("sandbox.images"), "{error:?}");
        assert!(error.remedies[0].contains("python"), "{error:?}");
    }

    #[test]
    fn host_programs_are_unavailable_in_container_mode() {
        let fault = at(
            json!({"mode": "container", "image": "x"}),
            CommandTarget::HostPrograms,
        )
        .unwrap_err();
        assert_eq!(fault.code(), ToolErrorCode::Unavailable);
        let free = at(
            json!({"mode": "auto", "image": "x"}),
            CommandTarget::HostPrograms,
        )
        .unwrap();
        assert_eq!((free.mode, free.image), (Some(SandboxMode::Process), None));
        let none = at(json!("none"), CommandTarget::HostPrograms).unwrap();
        assert_eq!(none.mode, Some(SandboxMode::None));
    }
}
