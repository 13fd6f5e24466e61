//! Components from a registry: the signature is checked before the component is downloaded, and before it is compiled.

use mimir_core::ToolError;
use mimir_core::text::{bytes, visible};
use mimir_registry::OciReference;

use super::fetched::{FetchedComponent, check_stem};
use crate::arguments::quote_for_shell;
use crate::exit::CommandResult;
use mimir::registries::{InspectedArtifact, Registries};
use mimir::setup::HostSetup;
use mimir::skills::SKILL_ARTIFACT_TYPE;

/// Fetches the component that a reference names now.
pub async fn fetch_from_registry(
    setup: &HostSetup,
    reference: &OciReference,
) -> CommandResult<FetchedComponent> {
    let registries = Registries::from_setup(setup)?;
    let artifact = registries.inspect(reference).await?;
    refuse_skill(&artifact)?;
    let stem = check_stem(reference.repository().rsplit('/').next())?;
    fetch_artifact(&registries, &artifact, stem).await
}

/// Fails for a skill, which another command adds.
fn refuse_skill(artifact: &InspectedArtifact) -> Result<(), ToolError> {
    let image = artifact.manifest.image();
    let artifact_type = image.and_then(|image| image.artifact_type.as_deref());
    if artifact_type != Some(SKILL_ARTIFACT_TYPE) {
        return Ok(());
    }
    let shown = artifact.reference.to_string();
    let message = format!("{shown} is a skill, not a component");
    let remedy = format!(
        "add it as a skill: `mimir skills add {}`",
        quote_for_shell(&shown)
    );
    Err(ToolError::invalid_input(message).with_remedies([remedy]))
}

/// Fetches the component of an artifact whose signature has been checked.
pub async fn fetch_artifact(
    registries: &Registries,
    artifact: &InspectedArtifact,
    stem: String,
) -> CommandResult<FetchedComponent> {
    let pulled = registries.download(artifact).await?;
    let mut fetched = FetchedComponent::new(pulled.bytes, stem).with_source(pulled.source);
    fetched.policy = pulled.policy;
    fetched.signatures = Some(artifact.stored_signatures()?);
    fetched.signature_state = Some(artifact.signature_state());
    fetched.notes = describe(artifact, fetched.bytes.len());
    Ok(fetched)
}

/// Describes an artifact for the user, one line each.
fn describe(artifact: &InspectedArtifact, size: usize) -> Vec<String> {
    let mut lines = vec![
        format!("Reference: {}", artifact.reference),
        format!("Manifest: {}", artifact.manifest.digest),
        format!("Signature: {}", artifact.signature_state()),
    ];
    if let Some(version) = artifact.version() {
        lines.push(format!("Version: {}", visible(&version)));
    }
    let provenance = artifact.provenance_text();
    lines.extend(provenance.map(|text| format!("Provenance: {text}")));
    lines.push(format!("Size: {}", bytes(size as u64)));
    lines
}
