//! Enforcement for custom tools: `enforcement.disableLocalTools` and `enforcement.requireSignature`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants::SourceRecord;
use mimir_core::registry::Quarantined;
use mimir_core::text::visible;
use mimir_core::tool::{Tool, ToolSource};
use mimir_core::{ToolError, ToolErrorCode};
use mimir_registry::signature::{StoredSignatures, TrustPolicy};
use mimir_registry::{OciDigest, OciReference};
use mimir_wasm::{ComponentCheck, ComponentCheckFactory, Sha256Digest};

use crate::approval_store::UserApprovalStore;
use crate::registries::stored_signatures_path;
use crate::settings::MergedSettings;
use crate::setup::HostSetup;
use crate::signing_keys::trust_policy;
use crate::user_dirs::UserDirs;
use crate::workspace::WorkspaceFolder;

/// Maximum number of files that are listed with the reason why they are not loaded.
const MAX_LISTED: usize = 200;

/// Removes the custom tools that the settings do not allow, and reports them with the file that forbids them.
pub fn enforce(setup: &HostSetup, tools: &mut Vec<Tool>, quarantined: &mut Vec<Quarantined>) {
    let enforcement = &setup.settings.config.enforcement;
    if enforcement.disable_local_tools {
        tools.retain(|tool| tool.source != ToolSource::Custom);
        quarantined.extend(disabled_files(&setup.settings, &setup.workspace));
    } else if enforcement.require_signature {
        require_signatures(setup, tools, quarantined);
    }
}

/// Returns the error for a custom tool that cannot be loaded apart from the others, such as that of a worker's module.
pub fn refuse_unlisted(config: &mimir_core::config::Config) -> Result<(), ToolError> {
    let enforcement = &config.enforcement;
    let key = match (
        enforcement.disable_local_tools,
        enforcement.require_signature,
    ) {
        (true, _) => "enforcement.disableLocalTools",
        (_, true) => "enforcement.requireSignature",
        _ => return Ok(()),
    };
    let message = format!("tools of this workspace's modules and packages are refused by `{key}`");
    let remedy = format!("`mimir config get {key}` names the file that sets it");
    Err(ToolError::new(ToolErrorCode::PolicyDenied, message).with_remedies([remedy]))
}

/// Reports the files of the workspace's tools folder, which are not loaded.
fn disabled_files(settings: &MergedSettings, workspace: &WorkspaceFolder) -> Vec<Quarantined> {
    let by = settings.enforcing_file(|enforcement| enforcement.disable_local_tools);
    let reason = format!(
        "custom tools are not loaded: {} sets `enforcement.disableLocalTools`",
        visible(by.unwrap_or("the config"))
    );
    let folder = workspace.tools();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names.truncate(MAX_LISTED);
    let report = |name: String| Quarantined {
        location: workspace
            .display_path(&folder.join(name))
            .replace('\\', "/"),
        code: ToolErrorCode::PolicyDenied,
        reason: reason.clone(),
    };
    names.into_iter().map(report).collect()
}

/// Returns the checks of signatures before files of the tools folder are compiled; `None` if none are required.
pub fn signature_checks(setup: &HostSetup) -> Option<ComponentCheckFactory> {
    if !setup.settings.config.enforcement.require_signature {
        return None;
    }
    let policy = SignatureRequirement::policy(setup);
    let by = SignatureRequirement::enforcing_file(setup);
    let (user_dirs, workspace) = (setup.user_dirs.clone(), setup.workspace.clone());
    Some(Arc::new(move || {
        let requirement = SignatureRequirement {
            sources: SignatureRequirement::sources(&user_dirs, &workspace),
            workspace: workspace.clone(),
            policy: Arc::clone(&policy),
            by: by.clone(),
        };
        let check: ComponentCheck = Box::new(move |location: &str, digest: &Sha256Digest| {
            requirement.check(location, &digest.to_string())
        });
        check
    }))
}

/// Removes the tools without a trusted signature. Components were already checked before they were compiled. Scripts
/// and API descriptions run nothing while they are loaded.
fn require_signatures(
    setup: &HostSetup,
    tools: &mut Vec<Tool>,
    quarantined: &mut Vec<Quarantined>,
) {
    if tools.iter().all(|tool| tool.source != ToolSource::Custom) {
        return;
    }
    let requirement = SignatureRequirement {
        sources: SignatureRequirement::sources(&setup.user_dirs, &setup.workspace),
        workspace: setup.workspace.clone(),
        policy: SignatureRequirement::policy(setup),
        by: SignatureRequirement::enforcing_file(setup),
    };
    let mut verdicts: HashMap<String, Result<(), String>> = HashMap::new();
    tools.retain(|tool| {
        if tool.source != ToolSource::Custom {
            return true;
        }
        let origin = &tool.origin;
        let verdict = verdicts
            .entry(origin.location.clone())
            .or_insert_with(|| requirement.check(&origin.location, &origin.digest));
        let Err(reason) = verdict else {
            return true;
        };
        quarantined.push(Quarantined {
            location: format!("{} ({})", origin.location, tool.name()),
            code: ToolErrorCode::PolicyDenied,
            reason: reason.clone(),
        });
        false
    });
}

/// The requirement that files of the tools folder have a trusted signature.
struct SignatureRequirement {
    workspace: WorkspaceFolder,
    sources: BTreeMap<String, SourceRecord>,
    policy: Arc<Result<TrustPolicy, String>>,
    /// The file that sets the requirement.
    by: String,
}

impl SignatureRequirement {
    fn policy(setup: &HostSetup) -> Arc<Result<TrustPolicy, String>> {
        Arc::new(trust_policy(setup).map_err(|error| error.message))
    }

    fn enforcing_file(setup: &HostSetup) -> String {
        let settings = &setup.settings;
        let by = settings.enforcing_file(|enforcement| enforcement.require_signature);
        visible(by.unwrap_or("the config"))
    }

    fn sources(
        user_dirs: &UserDirs,
        workspace: &WorkspaceFolder,
    ) -> BTreeMap<String, SourceRecord> {
        let approvals = UserApprovalStore::new(user_dirs, workspace);
        match approvals.map(|approvals| approvals.lock().read()) {
            Some(Ok(lock)) => lock.sources,
            _ => BTreeMap::new(),
        }
    }

    /// Checks the file at `location` with this digest. The error is the reason for people, with a remedy.
    fn check(&self, location: &str, digest: &str) -> Result<(), String> {
        let verdict = match (&*self.policy, self.sources.get(location)) {
            (Err(fault), _) => Err(fault.clone()),
            (_, None) => Err("it was not added from a registry".to_owned()),
            (Ok(policy), Some(source)) => {
                check_signature(&self.workspace, policy, source, location, digest)
            }
        };
        verdict.map_err(|why| {
            format!(
                "it has no trusted signature ({}), which {} requires with `enforcement.requireSignature`; add it from a registry of a `trust` rule: mimir tools add REF",
                visible(&why),
                self.by
            )
        })
    }
}

/// Verifies the stored signature of an installed component. The lock file and the signatures may come from a checkout,
/// so only the trust policy decides whose signature counts.
fn check_signature(
    workspace: &WorkspaceFolder,
    policy: &TrustPolicy,
    source: &SourceRecord,
    location: &str,
    digest: &str,
) -> Result<(), String> {
    if source.layer_hex() != digest {
        return Err("it is another build than tools.lock names".to_owned());
    }
    let reference: OciReference = source.reference.parse().map_err(text)?;
    let manifest = source
        .manifest
        .as_deref()
        .ok_or("tools.lock names no manifest")?;
    let manifest: OciDigest = manifest.parse().map_err(text)?;
    let layer: OciDigest = format!("sha256:{digest}").parse().map_err(text)?;
    let file = location.rsplit('/').next().unwrap_or(location);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let path = stored_signatures_path(workspace, stem);
    let stored = files::read(&path, LinkPolicy::Refuse, StoredSignatures::MAX_SIZE)
        .map_err(|error| format!("its stored signatures cannot be read: {error}"))?;
    let stored = StoredSignatures::from_json(&stored).map_err(text)?;
    let now = SystemTime::now();
    match stored.verify(policy, &reference, &manifest, &layer, now) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("no `trust` rule covers it".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
