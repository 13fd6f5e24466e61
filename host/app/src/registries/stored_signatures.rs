//! Files in `.mimir/tools.signatures`: manifests and signatures of installed components, for verification offline.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::SourceRecord;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{Signer, StoredSignatures, TrustPolicy};
use mimir_registry::{OciDigest, OciReference};

use super::{SignatureState, describe_signer, source_signer};
use crate::file_error::{file_error, write_atomically};
use crate::setup::HostSetup;
use crate::workspace::WorkspaceFolder;

/// Name of the folder in `.mimir`.
const FOLDER: &str = "tools.signatures";

/// Returns the path of the file with the manifest and the signatures of an installed component. It is under version
/// control like the component, so that a clone is verified without the registry.
pub fn stored_signatures_path(workspace: &WorkspaceFolder, stem: &str) -> PathBuf {
    let folder = workspace.mimir_dir().join(FOLDER);
    folder.join(format!("{stem}.json"))
}

/// Writes the file with the manifest and the signatures of an installed component.
pub fn write_stored_signatures(
    workspace: &WorkspaceFolder,
    stem: &str,
    content: &[u8],
) -> Result<(), ToolError> {
    let path = stored_signatures_path(workspace, stem);
    workspace.check_no_links(&path)?;
    write_atomically(&path, content).map_err(|error| file_error("write", &path, &error))
}

/// Verifies the stored signatures of a component from a registry. Returns the signer.
///
/// # Errors
///
/// Fails also if the lock entry lacks the manifest, and it names a signer or the settings require a signature: a lock file
/// from a checkout could leave it out.
pub fn verify_source(
    setup: &HostSetup,
    trust: &TrustPolicy,
    location: &str,
    source: &SourceRecord,
) -> Result<Option<String>, ToolError> {
    if source.manifest.is_none() {
        let reference = source.reference.parse::<OciReference>();
        let is_required = setup.settings.config.enforcement.require_signature
            || reference.is_ok_and(|reference| trust.requires_signature(&reference));
        if source.signer.is_none() && !is_required {
            return Ok(None);
        }
        return Err(ToolError::policy_denied(
            "the signature cannot be checked, because tools.lock has no digest of a manifest; add it from its registry again"
                .to_owned(),
        ));
    }
    let signer = verify_stored(&setup.workspace, trust, location, source)?;
    let Some(pinned) = &source.signer else {
        return Ok(signer.as_ref().map(describe_signer));
    };
    match signer {
        Some(signer) if source_signer(signer.clone()).is_same(pinned) => {
            Ok(Some(describe_signer(&signer)))
        }
        Some(signer) => Err(ToolError::policy_denied(format!(
            "it is signed by {}, but tools.lock names {}",
            describe_signer(&signer),
            mimir_core::text::visible(&pinned.to_string())
        ))),
        None => Err(ToolError::policy_denied(format!(
            "the signature by {pinned} cannot be checked: no `trust` rule covers {} (mimir help signatures)",
            source.reference
        ))),
    }
}

/// Returns the state of the signature of an installed component; `None` if it does not come from a registry.
///
/// # Errors
///
/// Fails as [`verify_source`] does.
pub fn installed_signature_state(
    setup: &HostSetup,
    trust: &TrustPolicy,
    location: &str,
    source: &SourceRecord,
) -> Result<Option<SignatureState>, ToolError> {
    let signer = verify_source(setup, trust, location, source)?;
    if source.manifest.is_none() {
        return Ok(None);
    }
    let reference: OciReference = source.reference.parse().map_err(ToolError::from)?;
    let has_signatures = read_stored(&setup.workspace, location)?.has_signatures();
    Ok(Some(SignatureState::new(
        signer,
        has_signatures,
        &reference,
    )))
}

/// Verifies the stored manifest and signatures of an installed component against its lock entry. Returns the signer;
/// `None` if the trust policy does not cover the component.
///
/// # Errors
///
/// Fails if the file is missing or does not match the lock entry, or if the trust policy refuses the component.
pub fn verify_stored(
    workspace: &WorkspaceFolder,
    trust: &TrustPolicy,
    location: &str,
    source: &SourceRecord,
) -> Result<Option<Signer>, ToolError> {
    let reference: OciReference = source.reference.parse().map_err(ToolError::from)?;
    let Some(manifest) = &source.manifest else {
        return Err(ToolError::invalid_input(format!(
            "the lock entry of {} has no digest of a manifest",
            mimir_core::text::visible(location)
        )));
    };
    let manifest: OciDigest = manifest.parse().map_err(ToolError::from)?;
    let layer: OciDigest = source.layer.parse().map_err(ToolError::from)?;
    let stored = read_stored(workspace, location)?;
    let signer = stored.verify(trust, &reference, &manifest, &layer, SystemTime::now());
    signer.map_err(ToolError::from)
}

/// Reads the stored manifest and signatures of an installed component. Nothing in them is trusted.
fn read_stored(workspace: &WorkspaceFolder, location: &str) -> Result<StoredSignatures, ToolError> {
    let stem = Path::new(location)
        .file_stem()
        .and_then(|stem| stem.to_str());
    let path = stored_signatures_path(workspace, stem.unwrap_or_default());
    workspace.check_no_links(&path)?;
    let text = match files::read(&path, LinkPolicy::Refuse, StoredSignatures::MAX_SIZE) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let shown = workspace.display_path(&path);
            let message = format!("{shown} with its manifest and signatures is missing");
            let remedy = "`mimir tools vendor` fetches it again".to_owned();
            return Err(
                ToolError::new(ToolErrorCode::FileNotFound, message).with_remedies([remedy])
            );
        }
        Err(error) => return Err(file_error("read", &path, &error)),
    };
    StoredSignatures::from_json(&text).map_err(ToolError::from)
}
