//! Updates of components that came from a tag of a registry.

use std::sync::Arc;

use mimir_core::grants::SourceRecord;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError, ToolErrorCode};
use mimir_registry::OciReference;

use super::offer::{check_version, file_stem, offer};
use super::{PinnedComponent, UpdateReport};
use crate::args::ToolsUpdateArgs;
use crate::commands::tools_add::fetch_artifact;
use crate::exit::CommandResult;
use mimir::registries::{InspectedArtifact, Registries, describe_signer, source_signer};
use mimir::setup::HostSetup;

/// Updates one component, if its tag names another manifest. Fills the report.
pub async fn update(
    setup: &HostSetup,
    component: &PinnedComponent,
    reference: &OciReference,
    old: &[Arc<Tool>],
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    let PinnedComponent {
        location, source, ..
    } = component;
    let registries = Registries::from_setup(setup)?;
    let digest = registries.resolve(reference).await?;
    if source.manifest.as_deref() == Some(digest.to_string().as_str()) {
        return Ok(());
    }
    let artifact = registries.inspect(reference).await;
    let artifact = artifact.map_err(|error| add_pinned_signer(error, source))?;
    // The tag names an index, which contains the pinned manifest.
    if source.manifest.as_deref() == Some(artifact.manifest.digest.to_string().as_str()) {
        return Ok(());
    }
    report.to = Some(artifact.manifest.digest.to_string());
    report.to_version = artifact.version();
    report.signer = artifact.signer.clone().map(source_signer);
    check_signer(source, &artifact, location)?;
    note_signer(source, &artifact, report);
    check_version(source, artifact.version(), args, report)?;
    let stem = file_stem(location)?;
    let fetched = fetch_artifact(&registries, &artifact, stem).await?;
    offer(setup, &fetched, location, old, args, report).await
}

/// Adds the signer of the installed build to the refusal of a new one.
fn add_pinned_signer(mut error: ToolError, source: &SourceRecord) -> ToolError {
    if error.code == ToolErrorCode::PolicyDenied
        && let Some(pinned) = &source.signer
    {
        error.message = format!(
            "{}; the installed build was signed by {}",
            error.message,
            visible(&pinned.to_string())
        );
        let remedy = "if its author has another key now, add it to the `trust` rule after you have checked it \
             (mimir help signatures)";
        error.remedies = error
            .remedies
            .into_iter()
            .chain([remedy.to_owned()])
            .collect();
    }
    error
}

/// Fails if the signer of the new build is not the pinned one, and no trust rule of this machine accepts it.
fn check_signer(
    source: &SourceRecord,
    artifact: &InspectedArtifact,
    location: &str,
) -> CommandResult<()> {
    let (Some(pinned), None) = (&source.signer, &artifact.signer) else {
        // A signer that the trust policy has accepted.
        return Ok(());
    };
    let location = visible(location);
    let message = format!(
        "{location} was signed by {}, and the signer of the new build is not known ({})",
        visible(&pinned.to_string()),
        artifact.signature_state()
    );
    Err(ToolError::policy_denied(message)
        .with_remedies([
            format!(
                "add a `trust` rule with the key of the signer for {}/{} (mimir help signatures)",
                artifact.reference.registry(),
                artifact.reference.repository()
            ),
            format!(
                "to accept it without a signature: `mimir tools add {} --force`",
                artifact.reference
            ),
        ])
        .into())
}

/// Notes a change of the signer, and the name in a signature for another tag.
fn note_signer(source: &SourceRecord, artifact: &InspectedArtifact, report: &mut UpdateReport) {
    let (Some(signer), Some(recorded)) = (&artifact.signer, report.signer.as_ref()) else {
        return;
    };
    let text = describe_signer(signer);
    let line = match &source.signer {
        None => format!("it is now signed by {text}"),
        Some(pinned) if !pinned.is_same(recorded) => {
            report.from_signer = Some(pinned.clone());
            format!("the signer changes from {pinned} to {text}; a `trust` rule accepts both")
        }
        Some(_) if signer.signed_as().is_some() => format!("it is signed by {text}"),
        Some(_) => return,
    };
    report.notes.push(visible(&line));
}
