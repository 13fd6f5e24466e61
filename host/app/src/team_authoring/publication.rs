//! The next bundle of a team: built from the folder, checked as a member would check it, signed and published.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use jiff::{Span, Timestamp};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::Grant;
use mimir_core::text::{quote_for_shell, visible};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{DsseEnvelope, SigningKey, VerifyingKey};
use mimir_registry::team::{
    BUNDLE_PAYLOAD_TYPE, BundledFile, BundledTool, TeamBundle, TeamIdentity, expires_soon,
};
use mimir_registry::{OciDigest, RegistryClient};
use serde::{Deserialize, Serialize};

use crate::file_error::{file_error, write_atomically};
use crate::settings::check_bundle_settings;
use crate::setup::HostSetup;
use crate::teams::check_team_settings;

use super::approval_record::{ReviewDecision, ReviewKeys, SignedReview};
use super::authoring_folder::{AuthoredTool, AuthoringFolder, CONTENT, SETTINGS, refuse_link};
use super::bundle_difference::BundleDifference;
use super::folder_content::{ContentFile, check_file, read_content};
use super::key_names::KeyNames;
use super::plugin_inspection::InspectedPlugin;
use super::publish_target::{PublishTarget, PublishedBundle};

/// Name of the file with the last published version.
const RECORD: &str = "published.json";

/// Maximum size of that file in bytes.
const MAX_RECORD_SIZE: u64 = 64 << 10;

/// Hours of a day, for the expiry.
const HOURS_PER_DAY: i64 = 24;

/// Options of a publication.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicationOptions {
    /// The version, instead of one above the published one.
    pub version: Option<u64>,
}

/// The last bundle that was published from a folder, as version control stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PublicationRecord {
    version: u64,
    target: String,
    envelope: OciDigest,
    published_at: Timestamp,
    /// Older releases did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// The last bundle that was published from a folder, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPublication {
    /// The version.
    pub version: u64,
    /// The target, as `mimir team publish` takes it.
    pub target: String,
    /// Time of the expiry, if it is past or within seven days.
    pub expires_soon: Option<Timestamp>,
}

impl LastPublication {
    /// Reads the record of the folder; `None` if nothing was published, or the record is not valid.
    pub fn read(folder: &AuthoringFolder, now: Timestamp) -> Option<Self> {
        let record = PublicationRecord::read(folder).ok()??;
        Some(Self {
            version: record.version,
            target: record.target,
            expires_soon: record.expires_at.filter(|time| expires_soon(*time, now)),
        })
    }
}

/// A signed bundle that is ready to be published.
#[derive(Debug)]
pub struct Publication {
    /// The bundle.
    pub bundle: TeamBundle,
    /// Differences to the published bundle.
    pub difference: BundleDifference,
    /// Ids of the reviewers' keys, by the file of the tool.
    pub reviewers: BTreeMap<String, String>,
    /// Names of keys.
    pub key_names: KeyNames,
    /// Paths of hidden files and backups that are not published.
    pub left_out: Vec<String>,
    /// Days that the bundle is valid.
    pub expires_in_days: u32,
    /// Version of the published bundle.
    pub published_version: Option<u64>,
    /// Ids of the keys that this bundle revokes, and the published one does not.
    pub newly_revoked: Vec<String>,
    /// Digest of the envelope.
    pub envelope_digest: OciDigest,
    target: PublishTarget,
    root: PathBuf,
    envelope: Vec<u8>,
    blobs: BTreeMap<OciDigest, Vec<u8>>,
    before: Option<OciDigest>,
}

impl Publication {
    /// Builds and signs the next bundle, and compares it with the published one. Publishes nothing.
    ///
    /// # Errors
    ///
    /// Fails if a tool is not approved, if a part of the bundle is not valid for a member, if members would refuse the
    /// key or the version, or if the target cannot be read.
    pub async fn prepare(
        setup: &HostSetup,
        client: &RegistryClient,
        folder: &AuthoringFolder,
        target: PublishTarget,
        signing: &SigningKey,
        options: &PublicationOptions,
    ) -> Result<Self, ToolError> {
        let keys = ReviewKeys::read(folder, signing.verifying_key())?;
        keys.check_publisher(signing.verifying_key())?;
        let key_names = KeyNames::read(setup, folder);
        let published = target.published(client, &keys.published).await?;
        check_lineage(
            folder,
            &target,
            published.as_ref(),
            signing,
            &keys.bundle,
            &key_names,
        )?;
        let record = PublicationRecord::read(folder)?;
        let version = next_version(
            folder,
            &target,
            published.as_ref(),
            record.as_ref(),
            options.version,
        )?;

        let settings = folder.settings_text()?;
        let shown = visible(&folder.root().join(SETTINGS).display().to_string());
        check_bundle_settings(&shown, &settings)?;
        let mut blobs = BTreeMap::new();
        let (tools, reviewers) = read_tools(setup, folder, &keys, &mut blobs).await?;
        let mut left_out = Vec::new();
        let [workers, prompts, skills] = CONTENT.map(|kind| {
            let content = read_content(&folder.root().join(kind))?;
            let files = content.files;
            files.iter().try_for_each(|file| check_file(kind, file))?;
            let stray = content.left_out.iter();
            left_out.extend(stray.map(|path| format!("{kind}/{path}")));
            let files = files.into_iter().map(|ContentFile { path, bytes }| {
                let (digest, size) = (OciDigest::of_bytes(&bytes), bytes.len() as u64);
                blobs.insert(digest, bytes);
                BundledFile { path, digest, size }
            });
            Ok::<Vec<BundledFile>, ToolError>(files.collect())
        });
        // Whole seconds are readable, and precise enough.
        let issued_at =
            Timestamp::from_second(Timestamp::now().as_second()).map_err(ToolError::internal)?;
        let days = i64::from(folder.manifest.expires_in_days);
        let expires_at = issued_at
            .checked_add(Span::new().hours(days * HOURS_PER_DAY))
            .map_err(ToolError::internal)?;
        let team = TeamIdentity {
            org_id: folder.manifest.org_id.clone(),
            name: folder.manifest.name.clone(),
        };
        let bundle = TeamBundle {
            settings,
            tools,
            workers: workers?,
            prompts: prompts?,
            skills: skills?,
            keys: keys.bundle.iter().map(|key| key.to_pem()).collect(),
            revoked_keys: folder.manifest.revoked_keys.clone(),
            models: folder.manifest.models.clone(),
            ..TeamBundle::new(version, team, issued_at, expires_at)
        };
        check_team_settings(&bundle)?;
        let payload = bundle.to_payload()?;
        let envelope = DsseEnvelope::sign(BUNDLE_PAYLOAD_TYPE, &payload, signing)?.to_json()?;
        let before = published.as_ref().map(|published| &published.bundle);
        let known = before.map_or(&[][..], |before| &before.revoked_keys);
        let revoked = bundle.revoked_keys.iter();
        let newly_revoked = revoked.filter(|id| !known.contains(id)).cloned();
        Ok(Self {
            newly_revoked: newly_revoked.collect(),
            difference: BundleDifference::between_named(before, &bundle, &key_names),
            published_version: before.map(|before| before.version),
            before: published.as_ref().map(|published| published.envelope),
            envelope_digest: OciDigest::of_bytes(&envelope),
            bundle,
            reviewers,
            key_names,
            left_out,
            expires_in_days: folder.manifest.expires_in_days,
            target,
            root: folder.root().to_owned(),
            envelope,
            blobs,
        })
    }

    /// Returns the target.
    pub const fn target(&self) -> &PublishTarget {
        &self.target
    }

    /// Publishes the bundle, and stores its version in the folder.
    ///
    /// # Errors
    ///
    /// Those of [`PublishTarget::publish`], and a failure to store the version after the bundle was published.
    pub async fn publish(&self, client: &RegistryClient) -> Result<(), ToolError> {
        let Self {
            bundle,
            envelope,
            blobs,
            ..
        } = self;
        self.target
            .publish(client, bundle, envelope, blobs, self.before)
            .await?;
        let record = PublicationRecord {
            version: bundle.version,
            target: self.target.to_string(),
            envelope: self.envelope_digest,
            published_at: bundle.issued_at,
            expires_at: Some(bundle.expires_at),
        };
        let json = serde_json::to_string_pretty(&record).map_err(ToolError::internal)?;
        let path = self.root.join(RECORD);
        refuse_link(&path)?;
        write_atomically(&path, format!("{json}\n").as_bytes()).map_err(|error| {
            let failed = file_error("write", &path, &error);
            let message = format!(
                "version {} was published, but {}",
                bundle.version, failed.message
            );
            ToolError::new(failed.code, message)
        })
    }
}

impl PublicationRecord {
    fn read(folder: &AuthoringFolder) -> Result<Option<Self>, ToolError> {
        let path = folder.root().join(RECORD);
        let text = match files::read_text(&path, LinkPolicy::Refuse, MAX_RECORD_SIZE) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", &path, &error)),
        };
        let record = serde_json::from_str(&text).map_err(|error| {
            let shown = visible(&path.display().to_string());
            ToolError::invalid_input(format!(
                "{shown} is not valid: {error}; restore it from version control"
            ))
        })?;
        Ok(Some(record))
    }
}

/// Fails if members would not accept the next bundle: another team, or a key that the published bundle does not announce.
fn check_lineage(
    folder: &AuthoringFolder,
    target: &PublishTarget,
    published: Option<&PublishedBundle>,
    signing: &SigningKey,
    listed: &[VerifyingKey],
    names: &KeyNames,
) -> Result<(), ToolError> {
    let Some(PublishedBundle { bundle, key_id, .. }) = published else {
        return Ok(());
    };
    if bundle.team.org_id != folder.manifest.org_id {
        let message = format!(
            "{target} has the bundle of another team, {}; nothing was published",
            bundle.team.org_id
        );
        return Err(ToolError::new(ToolErrorCode::AlreadyExists, message));
    }
    let key = signing.verifying_key();
    let is_announced = bundle.keys.iter().any(|pem| *pem == key.to_pem());
    if is_announced || *key_id == key.id() {
        return Ok(());
    }
    let message = format!(
        "members of version {} do not accept the key {} yet; nothing was published",
        bundle.version,
        key.id()
    );
    let other = quote_for_shell(&visible(names.name(key_id).unwrap_or("KEY")));
    let publish = publish_command(folder, &target.to_string(), &format!("--sign {other}"));
    let first = if listed.iter().any(|known| known.id() == key.id()) {
        "it is in `keys` of team.yml, so"
    } else {
        "add its public key to `keys` in team.yml, and"
    };
    let remedy = format!(
        "{first} publish once with the key {}, which announces it: `{publish}`",
        names.describe(key_id)
    );
    Err(ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([remedy]))
}

/// Returns a command that publishes to a target.
pub fn publish_command(folder: &AuthoringFolder, target: &str, options: &str) -> String {
    let options = format!("{} {options}", quote_for_shell(&visible(target)));
    // The target comes after the folder, so the folder is named in any case.
    let root = folder.root().display().to_string();
    let root = quote_for_shell(&visible(&root));
    format!("mimir team publish {root} {options}")
}

/// Returns the version of the next bundle.
fn next_version(
    folder: &AuthoringFolder,
    target: &PublishTarget,
    published: Option<&PublishedBundle>,
    record: Option<&PublicationRecord>,
    named: Option<u64>,
) -> Result<u64, ToolError> {
    let current = published.map_or(0, |published| published.bundle.version);
    let recorded = record.map_or(0, |record| record.version);
    let highest = current.max(recorded);
    if let Some(version) = named {
        if version > highest {
            return Ok(version);
        }
        return Err(ToolError::invalid_input(format!(
            "version {version} is not above the published version {highest}, so members would refuse it; leave out --bundle-version"
        )));
    }
    let is_same_target = record.is_some_and(|record| record.target == target.to_string());
    if current > recorded && is_same_target {
        let message = format!(
            "{target} has version {current}, but this folder last published version {recorded}: another copy of the folder is newer; nothing was published"
        );
        let options = format!(
            "{} --bundle-version {}",
            folder.sign_option(),
            current.saturating_add(1)
        );
        let remedies = [
            "update the folder from version control, with its published.json".to_owned(),
            format!(
                "to replace version {current} with what this folder contains: `{}`",
                publish_command(folder, &target.to_string(), &options)
            ),
        ];
        return Err(ToolError::new(ToolErrorCode::AlreadyExists, message).with_remedies(remedies));
    }
    highest.checked_add(1).ok_or_else(|| {
        ToolError::limit_exceeded("the version cannot grow any more; publish to another target")
    })
}

/// Reads the components of the catalog, and checks each as a member would. Returns all faults in one error.
async fn read_tools(
    setup: &HostSetup,
    folder: &AuthoringFolder,
    keys: &ReviewKeys,
    blobs: &mut BTreeMap<OciDigest, Vec<u8>>,
) -> Result<(Vec<BundledTool>, BTreeMap<String, String>), ToolError> {
    let (mut tools, mut reviewers) = (Vec::new(), BTreeMap::new());
    let mut faults: Vec<ToolError> = Vec::new();
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for entry in &folder.manifest.tools {
        let (plugin, tool, reviewer) = match read_tool(setup, folder, entry, keys).await {
            Ok(read) => read,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        for name in plugin.tools.iter().map(|tool| tool.name().to_string()) {
            if let Some(owner) = owners.insert(name.clone(), entry.file.clone()) {
                faults.push(ToolError::invalid_input(format!(
                    "{owner} and {} both have a tool `{name}`; remove one from the catalog",
                    entry.file
                )));
            }
        }
        blobs.insert(plugin.digest, plugin.bytes);
        reviewers.insert(tool.file.clone(), reviewer);
        tools.push(tool);
    }
    let Some(first) = faults.first() else {
        return Ok((tools, reviewers));
    };
    let messages = faults.iter().map(|fault| fault.message.as_str());
    let message = format!(
        "nothing was published: {}",
        messages.collect::<Vec<_>>().join("; ")
    );
    let mut remedies: Vec<String> = Vec::new();
    for remedy in faults.iter().flat_map(|fault| &fault.remedies) {
        if !remedies.contains(remedy) {
            remedies.push(remedy.clone());
        }
    }
    Err(ToolError::new(first.code, message).with_remedies(remedies))
}

async fn read_tool(
    setup: &HostSetup,
    folder: &AuthoringFolder,
    entry: &AuthoredTool,
    keys: &ReviewKeys,
) -> Result<(InspectedPlugin, BundledTool, String), ToolError> {
    let (record, grant) = approval(folder, entry, keys)?;
    let bytes = folder.read_component(entry)?;
    let plugin = InspectedPlugin::inspect(setup, &entry.file, bytes, &grant.named()).await?;
    plugin.check_grant(&grant).map_err(|error| {
        let approve = folder.approve_command(&entry.file);
        error.with_remedies([format!("review it: `{approve}`")])
    })?;
    let source = record.record.source.clone();
    let tool = BundledTool {
        file: entry.file.clone(),
        digest: entry.digest,
        size: plugin.bytes.len() as u64,
        reference: entry.reference.clone(),
        signer: source.and_then(|source| source.signer),
        enforced: entry.enforced,
        grant: Some(grant),
    };
    Ok((plugin, tool, record.key_id))
}

/// Returns the approval of an entry, and the rights that it gives.
fn approval(
    folder: &AuthoringFolder,
    entry: &AuthoredTool,
    keys: &ReviewKeys,
) -> Result<(SignedReview, Grant), ToolError> {
    let file = &entry.file;
    let missing = |state: &str| {
        let message = format!("{file} ({}) {state}", entry.digest);
        let review = format!("have it reviewed: `{}`", folder.approve_command(file));
        let remove = folder.command(&["remove", file], "");
        let remove = format!("or leave it out of the bundle: `{remove}`");
        ToolError::new(ToolErrorCode::PermissionDenied, message).with_remedies([review, remove])
    };
    let review = SignedReview::read(folder, entry, &keys.review)?;
    let review = review.ok_or_else(|| missing("is not approved"))?;
    if review.record.decision == ReviewDecision::Rejected {
        return Err(missing("was rejected"));
    }
    let source = review.record.source.as_ref();
    let approved = source.map(|source| source.reference.as_str());
    if approved != entry.reference.as_deref() {
        return Err(missing("was approved with another reference"));
    }
    match review.record.grant.clone() {
        Some(grant) => Ok((review, grant)),
        None => Err(missing("has an approval without rights")),
    }
}
