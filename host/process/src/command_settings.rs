//! Sandbox settings of a command, derived from the general settings and the requested target.
//!
//! Restrictions of the general settings still apply: if they allow only containers, every command runs in a container.

use mimir_core::command::CommandTarget;
use mimir_core::config::{SandboxMode, SandboxSettings};

use crate::sandbox::SandboxError;

/// Returns the settings for a command with this target.
pub(crate) fn settings_for_target(
    general: &SandboxSettings,
    target: CommandTarget,
) -> Result<SandboxSettings, SandboxError> {
    let language = match target {
        CommandTarget::Default => return Ok(general.clone()),
        CommandTarget::HostPrograms => return settings_for_host_programs(general),
        CommandTarget::Container(language) => language,
        CommandTarget::Image(id) => {
            return Ok(SandboxSettings {
                mode: Some(SandboxMode::Container),
                image: Some(id.to_string()),
                bind_mounts: Vec::new(),
                network_access: Some(false),
                ..general.clone()
            });
        }
    };
    let image = general.images.get(&language).or(general.image.as_ref());
    let image = image.ok_or(SandboxError::NoContainerImage(language))?;
    Ok(SandboxSettings {
        mode: Some(SandboxMode::Container),
        image: Some(image.clone()),
        ..general.clone()
    })
}

/// Returns the settings for host programs. Without an explicit mode, this is the kernel's sandbox.
fn settings_for_host_programs(general: &SandboxSettings) -> Result<SandboxSettings, SandboxError> {
    let mode = match general.mode.unwrap_or_default() {
        SandboxMode::Container => return Err(SandboxError::ContainersOnly),
        SandboxMode::Auto => SandboxMode::Process,
        mode => mode,
    };
    Ok(SandboxSettings {
        mode: Some(mode),
        // These settings apply to containers only.
        image: None,
        socket: None,
        ..general.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::ToolErrorCode;
    use mimir_core::code_language::CodeLanguage;
    use serde_json::json;

    fn settings_for(
        written: serde_json::Value,
        target: CommandTarget,
    ) -> Result<SandboxSettings, SandboxError> {
        settings_for_target(&serde_json::from_value(written).unwrap(), target)
    }

    #[test]
    fn container_image_of_a_language_precedes_the_default_image() {
        let python = CommandTarget::Container(CodeLanguage::Python);
        let both = json!({"image": "debian", "images": {"python": "python:3"}});
        let settings = settings_for(both.clone(), python).unwrap();
        assert_eq!(settings.mode, Some(SandboxMode::Container));
        assert_eq!(settings.image.as_deref(), Some("python:3"));
        let other = settings_for(both, CommandTarget::Container(CodeLanguage::Bash)).unwrap();
        assert_eq!(other.image.as_deref(), Some("debian"));
        let fault = settings_for(json!("process"), python).unwrap_err();
        assert_eq!(fault.code(), ToolErrorCode::Unavailable);
        let error = mimir_core::ToolError::from(fault);
        assert!(error.remedies[0].contains("sandbox.images"), "{error:?}");
        assert!(error.remedies[0].contains("python"), "{error:?}");
    }

    #[test]
    fn container_of_a_named_image_has_no_network_and_no_mounts() {
        let id = format!("sha256:{}", "ab".repeat(32));
        let general = json!({"mode": "process", "image": "debian", "bindMounts": ["/data"], "networkAccess": true, "maxProcesses": 10});
        let target = CommandTarget::Image(id.parse().unwrap());
        let settings = settings_for(general, target).unwrap();
        assert_eq!(settings.mode, Some(SandboxMode::Container));
        assert_eq!(settings.image, Some(id));
        assert_eq!(settings.network_access, Some(false));
        assert!(settings.bind_mounts.is_empty());
        assert_eq!(settings.max_processes, Some(10));
    }

    #[test]
    fn host_programs_are_unavailable_in_container_mode() {
        let fault = settings_for(
            json!({"mode": "container", "image": "x"}),
            CommandTarget::HostPrograms,
        )
        .unwrap_err();
        assert_eq!(fault.code(), ToolErrorCode::Unavailable);
        let auto = settings_for(
            json!({"mode": "auto", "image": "x"}),
            CommandTarget::HostPrograms,
        )
        .unwrap();
        assert_eq!((auto.mode, auto.image), (Some(SandboxMode::Process), None));
        let none = settings_for(json!("none"), CommandTarget::HostPrograms).unwrap();
        assert_eq!(none.mode, Some(SandboxMode::None));
    }
}
