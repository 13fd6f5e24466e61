//! Publishing of an artifact in a registry, for all commands that push: tags that exist, the signature, and the report.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::bytes;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{SignatureBundle, SigningKey};
use mimir_registry::wasm_artifact::{self, ComponentFacts};
use mimir_registry::{
    NewArtifact, OciDigest, OciReference, PulledManifest, RegistryClient, RegistryError,
};
use serde::Serialize;

use crate::args::PushTargetArgs;
use crate::commands::keys::signing_key;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, ResultPrinter, note, styled};
use mimir::registries::{Registries, SignatureState, registry_client};
use mimir::setup::HostSetup;

/// Content to push.
pub struct PushedContent {
    /// Name of the tool, catalog or skill.
    pub name: String,
    /// Its version, if it states one.
    pub version: Option<String>,
    /// The artifact.
    pub artifact: NewArtifact,
    /// The facts of a component, for the artifact with another time of the build. `None` for other content.
    pub facts: Option<ComponentFacts>,
    /// The paths of the files of a skill.
    pub files: Vec<String>,
    /// The paths of its hidden and secret files, which are not published.
    pub left_out: Vec<String>,
}

/// The result of a push.
#[derive(Serialize)]
struct PushReport {
    pushed: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    digest: String,
    tags: Vec<String>,
    /// The digests of further tags whose manifests differ from the first in the time of the build.
    #[serde(rename = "otherDigests", skip_serializing_if = "BTreeMap::is_empty")]
    other_digests: BTreeMap<String, String>,
    /// The files in the content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    /// Files that are not published.
    #[serde(rename = "leftOut", skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    /// The state of the signature in the registry; missing if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'static str>,
    bytes: u64,
    /// True if the registry had all of it, except perhaps the signature.
    unchanged: bool,
}

impl PushedContent {
    fn size(&self) -> u64 {
        let layers = self.artifact.layers.iter();
        layers.map(|layer| layer.bytes.len() as u64).sum()
    }

    /// Returns this content as it is in the registry: with the time of the build of an existing manifest. `None` if the
    /// manifest differs in anything else, so that nothing that another person has chosen is signed.
    fn as_in(&self, existing: &PulledManifest) -> CommandResult<Option<NewArtifact>> {
        let mut artifact = self.artifact.clone();
        if let (Some(facts), Some(created)) = (&self.facts, created_at(existing)) {
            let facts = ComponentFacts {
                created,
                ..facts.clone()
            };
            let layers = std::mem::take(&mut artifact.layers);
            let component = layers.first().map_or(&[][..], |layer| &layer.bytes);
            artifact = wasm_artifact::pack(component, &facts);
        }
        let digest = artifact.digest().map_err(ToolError::from)?;
        // An index around the manifest could name others.
        Ok((digest == existing.named_digest()).then_some(artifact))
    }
}

/// Returns the time of the build in the annotations of a manifest.
fn created_at(manifest: &PulledManifest) -> Option<Timestamp> {
    let annotations = &manifest.image()?.annotations;
    let created = annotations.get(wasm_artifact::CREATED_ANNOTATION)?;
    created.parse().ok()
}

/// Fails for a reference that a push cannot use. Called before the content is read.
pub fn check_reference(reference: &OciReference) -> CommandResult<()> {
    if reference.digest().is_some() {
        return Err(CommandFailure::usage(
            "a push cannot choose the digest: name a tag, such as registry.example.com/acme/weather:1.2",
        ));
    }
    Ok(())
}

/// Pushes content under all tags, signs it if requested, and prints what was pushed.
pub async fn publish(
    printer: ResultPrinter,
    setup: &HostSetup,
    content: PushedContent,
    target: &PushTargetArgs,
) -> CommandResult {
    // Before the push, so that a wrong password leaves nothing unsigned behind.
    let key = target.sign.as_deref();
    let key = key.map(|key| signing_key(setup, key)).transpose()?;
    // A mirror could say that the tag exists, and with which content.
    let client = registry_client(setup)?.without_mirrors();
    let references = references(target)?;
    let mut existing = Vec::new();
    for reference in &references {
        let same = existing_artifact(&client, reference, &content, target.force).await?;
        existing.push(same);
    }
    let unchanged = existing.iter().all(Option::is_some);
    // New tags get the same manifest as one that exists.
    let for_new_tags = existing.iter().flatten().next();
    let for_new_tags = for_new_tags.unwrap_or(&content.artifact).clone();
    let mut digests = Vec::new();
    for (reference, existing) in references.iter().zip(&existing) {
        let artifact = existing.as_ref().unwrap_or(&for_new_tags);
        let digest = artifact.digest().map_err(ToolError::from)?;
        if existing.is_none() {
            let pushed = client.push(reference, artifact).await;
            pushed.map_err(ToolError::from)?;
        }
        // Tags that exist may have manifests that differ in the time of the build.
        if let Some(key) = key.as_ref().filter(|_| !digests.contains(&digest)) {
            sign(setup, &client, reference, &digest, key).await?;
        }
        digests.push(digest);
    }
    let Some(digest) = digests.first().cloned() else {
        return Err(CommandFailure::usage("a push needs a tag"));
    };
    let existing_state = match &key {
        Some(_) => None,
        None => Some(existing_signature(setup, &target.reference, &digest).await),
    };
    let signature = match &existing_state {
        None => Some("signed"),
        Some(state) => state.as_ref().ok().map(SignatureState::as_str),
    };
    let size = content.size();
    let report = PushReport {
        pushed: target.reference.to_string(),
        digest: digest.to_string(),
        tags: references
            .iter()
            .filter_map(|reference| reference.tag().map(str::to_owned))
            .collect(),
        other_digests: references
            .iter()
            .zip(&digests)
            .filter(|(_, other)| **other != digest)
            .filter_map(|(reference, other)| Some((reference.tag()?.to_owned(), other.to_string())))
            .collect(),
        files: content.files,
        left_out: content.left_out,
        signer: key.map(|key| key.verifying_key().id()),
        signature,
        bytes: size,
        unchanged,
        name: content.name,
        version: content.version,
    };
    if printer.is_json() {
        printer.print_json(&report)?;
        return Ok(ExitReason::Done);
    }
    print(printer, &report)?;
    if let Some(signer) = &report.signer {
        note(format_args!("Signed with the key {signer}."));
    }
    match existing_state {
        None => {}
        Some(Ok(SignatureState::Unsigned)) => note(
            "It is not signed: `--sign KEY` lets others check that it comes from you (mimir help signatures).",
        ),
        Some(Ok(SignatureState::Signed(signer))) => note(format_args!(
            "The registry already has a signature of {signer}; `--sign KEY` adds yours."
        )),
        Some(Ok(SignatureState::NotChecked(_))) => note(
            "The registry already has signatures of it, which no `trust` rule of yours covers; `--sign KEY` adds yours.",
        ),
        Some(Err(error)) => note(format_args!(
            "You have not signed it, and the signatures in the registry were not checked: {}",
            error.message
        )),
    }
    Ok(ExitReason::Done)
}

fn print(printer: ResultPrinter, report: &PushReport) -> CommandResult<()> {
    printer.print_result(report, |out| {
        let size = bytes(report.bytes);
        let name = mimir_core::text::visible(&report.name);
        let version = report.version.iter();
        let version: String = version
            .map(|version| format!(" {}", mimir_core::text::visible(version)))
            .collect();
        let action = if report.unchanged {
            "already in the registry:"
        } else {
            "pushed"
        };
        writeln!(out, "{} {name}{version} ({size})", styled(GOOD, action))?;
        writeln!(out, "  reference: {}", report.pushed)?;
        if let Some((_, further)) = report.tags.split_first()
            && !further.is_empty()
        {
            writeln!(out, "  further tags: {}", further.join(", "))?;
        }
        writeln!(out, "  digest: {}", report.digest)?;
        for (tag, digest) in &report.other_digests {
            writeln!(out, "  digest of {tag}: {digest}")?;
        }
        for (what, files) in [
            ("files", &report.files),
            ("left out, hidden and secret files", &report.left_out),
        ] {
            if !files.is_empty() {
                let files = mimir_core::text::visible(&files.join(", "));
                writeln!(out, "  {what}: {files}")?;
            }
        }
        Ok(())
    })
}

/// Returns the references of all tags.
fn references(target: &PushTargetArgs) -> CommandResult<Vec<OciReference>> {
    let mut references = vec![target.reference.clone()];
    for tag in &target.tags {
        let reference = target.reference.with_tag(tag).map_err(ToolError::from)?;
        if !references.contains(&reference) {
            references.push(reference);
        }
    }
    Ok(references)
}

/// Returns the artifact of an existing tag with the same content; `None` if the tag is free or may be replaced.
///
/// # Errors
///
/// Fails if the tag has other content, unless `replaces` is set.
async fn existing_artifact(
    client: &RegistryClient,
    reference: &OciReference,
    content: &PushedContent,
    replaces: bool,
) -> CommandResult<Option<NewArtifact>> {
    let existing = match client.manifest(reference).await {
        Ok(existing) => existing,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(ToolError::from(error).into()),
    };
    if let Some(same) = content.as_in(&existing)? {
        return Ok(Some(same));
    }
    if replaces {
        return Ok(None);
    }
    let message = format!(
        "{reference} already exists with other content ({}); nothing was pushed",
        existing.named_digest()
    );
    let remedies = [
        "push it as a new version: users of the old one keep what they have reviewed".to_owned(),
        "`--force` replaces the tag".to_owned(),
    ];
    Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
        .with_remedies(remedies)
        .into())
}

fn is_missing(error: &RegistryError) -> bool {
    error.code() == ToolErrorCode::NotFound
}

/// Returns the state of the signature of content that was pushed without one: another person, or an earlier push, may
/// have signed it.
async fn existing_signature(
    setup: &HostSetup,
    reference: &OciReference,
    digest: &OciDigest,
) -> Result<SignatureState, ToolError> {
    let registries = Registries::from_setup(setup)?.without_mirrors();
    registries.signature_state(reference, digest).await
}

/// Signs a manifest, records that, and pushes the signature beside it.
async fn sign(
    setup: &HostSetup,
    client: &RegistryClient,
    reference: &OciReference,
    digest: &OciDigest,
    key: &SigningKey,
) -> CommandResult<()> {
    let bundle = SignatureBundle::sign_manifest(digest, &reference.to_string(), key);
    let artifact = bundle.and_then(|bundle| bundle.to_artifact());
    let artifact = artifact.map_err(ToolError::from)?;
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
    let event = event.with_subject(&reference.to_string());
    let id = key.verifying_key().id();
    setup.record_event(&event.with_detail(&format!("signed {digest} with the key {id}")));
    let pushed = client.push_referrer(reference, digest, &artifact).await;
    pushed.map_err(|error| {
        let error = ToolError::from(error);
        let message = format!(
            "{reference} is pushed, but its signature is not: {}",
            error.message
        );
        ToolError::new(error.code, message)
            .with_remedies(["run the command again: it pushes only the signature".to_owned()])
    })?;
    Ok(())
}
