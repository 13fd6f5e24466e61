//! `mimir tools push`: publishes a component or a catalog in a registry, with a signature if requested.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::bytes;
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{SignatureBundle, SigningKey};
use mimir_registry::wasm_artifact::{self, ComponentFacts};
use mimir_registry::{
    NewArtifact, NewLayer, OciDigest, OciReference, PulledManifest, RegistryClient, RegistryError,
};
use serde::Serialize;

use crate::args::{GlobalOptions, ToolsPushArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, note, styled};
use mimir::file_error::file_error;
use mimir::registries::{CATALOG_MEDIA_TYPE, MAX_CATALOG_SIZE, ToolCatalog, registry_client};
use mimir::setup::HostSetup;

use super::keys::signing_key;
use super::tools_add::read_component;
use super::tools_build::{PluginFolder, load_alone};
use component_metadata::ComponentMetadata;

mod component_metadata;

/// Content to push.
struct PushedContent {
    artifact: NewArtifact,
    /// The facts of a component, for the artifact with another time of the build. `None` for a catalog.
    facts: Option<ComponentFacts>,
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

#[derive(Serialize)]
struct PushReport {
    pushed: String,
    digest: String,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<String>,
    bytes: u64,
}

/// Pushes a component or a catalog, and signs it.
pub async fn run(globals: &GlobalOptions, args: &ToolsPushArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    if args.reference.digest().is_some() {
        return Err(CommandFailure::usage(
            "a push cannot choose the digest: name a tag, such as registry.example.com/acme/weather:1.2",
        ));
    }
    let mut content = read_content(&setup, &args.source).await?;
    // Before the push, so that a wrong password leaves nothing unsigned behind.
    let key = args.sign.as_deref();
    let key = key.map(|key| signing_key(&setup, key)).transpose()?;
    // A mirror could say that the tag exists, and with which content.
    let client = registry_client(&setup)?.without_mirrors();
    let references = references(args)?;
    let mut existing = Vec::new();
    for reference in &references {
        let same = existing_artifact(&client, reference, &content, args.force).await?;
        existing.push(same.is_some());
        // Further tags get the same manifest.
        if let Some(same) = same {
            content.artifact = same;
        }
    }
    let artifact = &content.artifact;
    let mut digest = None;
    for (reference, existing) in references.iter().zip(existing) {
        let pushed = if existing {
            artifact.digest()
        } else {
            client.push(reference, artifact).await
        };
        let pushed = pushed.map_err(ToolError::from)?;
        if let Some(key) = &key
            && digest != Some(pushed)
        {
            sign(&setup, &client, reference, &pushed, key).await?;
        }
        digest.get_or_insert(pushed);
    }
    let digest = digest.map(|digest| digest.to_string()).unwrap_or_default();
    let report = PushReport {
        pushed: args.reference.to_string(),
        digest,
        tags: references
            .iter()
            .filter_map(|reference| reference.tag().map(str::to_owned))
            .collect(),
        signer: key.map(|key| key.verifying_key().id()),
        bytes: content.size(),
    };
    if printer.is_json() {
        printer.print_json(&report)?;
        return Ok(ExitReason::Done);
    }
    printer.print_result(&report, |out| {
        let size = bytes(report.bytes);
        writeln!(out, "{} {} ({size})", styled(GOOD, "pushed"), report.pushed)?;
        writeln!(out, "{}", report.digest)
    })?;
    match &report.signer {
        Some(signer) => note(format_args!("Signed with the key {signer}.")),
        None => note(
            "It is not signed: `--sign KEY` lets others check that it comes from you (mimir help signatures).",
        ),
    }
    Ok(ExitReason::Done)
}

/// Returns the references of all tags.
fn references(args: &ToolsPushArgs) -> CommandResult<Vec<OciReference>> {
    let mut references = vec![args.reference.clone()];
    for tag in &args.tags {
        let reference = args.reference.with_tag(tag).map_err(ToolError::from)?;
        if !references.contains(&reference) {
            references.push(reference);
        }
    }
    Ok(references)
}

/// Reads what is pushed: a catalog, a component, or the component of a plugin that was built.
async fn read_content(setup: &HostSetup, source: &Path) -> CommandResult<PushedContent> {
    let is_json = |path: &Path| {
        let extension = path.extension();
        extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    };
    if source.is_file() && is_json(source) {
        return read_catalog(source);
    }
    let path = if source.is_dir() {
        let plugin = PluginFolder::find(source, None)?;
        let built = setup.workspace.tools().join(plugin.component_name());
        if !built.is_file() {
            let shown = setup.workspace.display_path(&built);
            let folder = crate::arguments::quote_for_shell(&source.display().to_string());
            let message = format!("the plugin is not built: {shown} does not exist");
            let remedy = format!("build it first: `mimir tools build {folder}`");
            return Err(ToolError::new(ToolErrorCode::FileNotFound, message)
                .with_remedies([remedy])
                .into());
        }
        built
    } else {
        source.to_owned()
    };
    let component = read_component(&path)?;
    let facts = component_facts(setup, &path, &component).await?;
    Ok(PushedContent {
        artifact: wasm_artifact::pack(&component, &facts),
        facts: Some(facts),
    })
}

fn read_catalog(path: &Path) -> CommandResult<PushedContent> {
    let text = mimir_core::files::read(
        path,
        mimir_core::files::LinkPolicy::Follow,
        MAX_CATALOG_SIZE,
    )
    .map_err(|error| file_error("read", path, &error))?;
    ToolCatalog::parse(&text).map_err(|why| {
        let shown = mimir_core::text::visible(&path.display().to_string());
        CommandFailure::usage(format!("{shown} is not a valid catalog: {why}"))
    })?;
    let artifact = NewArtifact {
        artifact_type: Some(CATALOG_MEDIA_TYPE.to_owned()),
        config: (
            "application/vnd.oci.empty.v1+json".to_owned(),
            b"{}".to_vec(),
        ),
        layers: vec![NewLayer {
            media_type: CATALOG_MEDIA_TYPE.to_owned(),
            bytes: text,
            annotations: BTreeMap::new(),
        }],
        annotations: BTreeMap::new(),
    };
    Ok(PushedContent {
        artifact,
        facts: None,
    })
}

/// Collects the facts about a component. Fails if it has no tool that can be called.
pub(super) async fn component_facts(
    setup: &HostSetup,
    path: &Path,
    component: &[u8],
) -> CommandResult<ComponentFacts> {
    let shown = mimir_core::text::visible(&path.display().to_string());
    let refused = |why: &dyn std::fmt::Display| {
        ToolError::invalid_input(format!("{shown} was not pushed: {why}"))
    };
    let detected = mimir_wasm::family::detect(component).map_err(|error| refused(&error))?;
    let file_name = path.file_name().map(Path::new).unwrap_or(path);
    let loaded = load_alone(setup, file_name, component).await?;
    let Some(tool) = loaded.tools.first() else {
        let reason = loaded.quarantined.first();
        let reason = reason.map_or("it has no tools", |left_out| left_out.reason.as_str());
        return Err(refused(&reason).into());
    };
    let metadata = ComponentMetadata::read(component);
    let description = match loaded.tools.as_slice() {
        [only] => only
            .definition
            .description
            .lines()
            .next()
            .map(str::to_owned),
        _ => None,
    };
    let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(ComponentFacts {
        created: modified_at(path),
        exports: detected.exports,
        imports: detected.imports,
        title: named(&tool.origin.plugin),
        version: metadata.version.or_else(|| named(&tool.origin.version)),
        description: metadata.description.or(description),
        source: metadata.source,
        url: metadata.homepage,
        licenses: metadata.licenses,
        authors: metadata.authors,
        revision: metadata.revision,
        ..ComponentFacts::default()
    })
}

/// Returns the time at which a file was written, so that a second push of it gives the same digest.
fn modified_at(path: &Path) -> Timestamp {
    let modified = std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .ok();
    let modified = modified.and_then(|time| Timestamp::try_from(time).ok());
    let whole_seconds = modified.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    whole_seconds.unwrap_or_else(Timestamp::now)
}

/// Returns the artifact of an existing tag with the same content; `None` if the tag is free or may be replaced.
///
/// # Errors
///
/// Fails if the tag has other content, unless `force` is set.
async fn existing_artifact(
    client: &RegistryClient,
    reference: &OciReference,
    content: &PushedContent,
    force: bool,
) -> CommandResult<Option<NewArtifact>> {
    let existing = match client.manifest(reference).await {
        Ok(existing) => existing,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(ToolError::from(error).into()),
    };
    if let Some(same) = content.as_in(&existing)? {
        return Ok(Some(same));
    }
    if force {
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
