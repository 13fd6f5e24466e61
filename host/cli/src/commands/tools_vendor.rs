//! `mimir tools vendor`: makes a clone of the repository work offline. Components of the lock file that are missing are
//! copied from the cache or fetched again, with their signatures, and files without a lock entry are pinned.

use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::grants::SourceRecord;
use mimir_core::text::visible;
use serde::Serialize;

use crate::args::GlobalOptions;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, note, styled};
use mimir::registries::{
    Registries, stored_signatures_path, verify_stored, write_stored_signatures,
};
use mimir::setup::{HostSetup, is_in_tools};
use mimir::signing_keys::trust_policy;

use super::tools_add::{
    AddOptions, FetchedComponent, MAX_COMPONENT_SIZE, NpmPackage, check_stem, fetch, install,
    is_component_of, record_refusal, refuse_unloadable,
};
use super::tools_verify::{LOCAL_REFERENCE, file_digest, tool_files};

#[derive(Debug, Default, Serialize)]
struct VendorReport {
    /// Files that were copied or fetched.
    restored: Vec<String>,
    /// Files whose manifest and signatures were fetched.
    signatures: Vec<String>,
    /// Files that were pinned.
    pinned: Vec<String>,
    /// Files that could not be restored, with the reason.
    failed: Vec<VendorFailure>,
}

#[derive(Debug, Serialize)]
struct VendorFailure {
    file: String,
    error: ToolError,
}

/// Restores missing components and signatures, and pins files without a lock entry.
pub async fn run(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    // The signature of a component is checked when it is fetched.
    refuse_unloadable(&setup, true)?;
    let approval_store = setup.require_approvals()?;
    let lock = approval_store.lock().read()?;
    let mut report = VendorReport::default();
    for (location, source) in &lock.sources {
        match restore(&setup, location, source, &mut report).await {
            Ok(()) => {}
            Err(CommandFailure::Reported { error, .. }) => {
                record_refusal(&setup, &source.reference, &error);
                report.failed.push(VendorFailure {
                    file: location.clone(),
                    error,
                });
            }
            Err(print @ CommandFailure::Print(_)) => return Err(print),
        }
    }
    for location in tool_files(&setup)? {
        if lock.sources.contains_key(&location) {
            continue;
        }
        let Some(digest) = file_digest(&setup, &location)? else {
            continue;
        };
        let source = SourceRecord::new(LOCAL_REFERENCE, &digest);
        approval_store
            .lock()
            .change(|lock| lock.sources.insert(location.clone(), source))?;
        let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now());
        let event = event.with_subject(&visible(&location));
        setup.record_event(&event.with_detail(&format!("pinned, sha256 {digest}")));
        report.pinned.push(location);
    }
    printer.print_result(&report, |out| {
        for (action, files) in [
            ("restored", &report.restored),
            ("stored the signatures of", &report.signatures),
            ("pinned", &report.pinned),
        ] {
            for file in files {
                writeln!(out, "{} {}", styled(GOOD, action), visible(file))?;
            }
        }
        let is_empty = report.restored.is_empty() && report.pinned.is_empty();
        if is_empty && report.signatures.is_empty() && report.failed.is_empty() {
            writeln!(
                out,
                "Every tool in .mimir/tools is already there and pinned."
            )?;
        }
        Ok(())
    })?;
    for VendorFailure { file, error } in &report.failed {
        let (file, code) = (visible(file), error.code);
        note(format_args!(
            "{file} is not restored: {} [{code}]",
            error.message
        ));
    }
    match report.failed.first() {
        Some(failed) => Ok(failed.error.code.into()),
        None => Ok(ExitReason::Done),
    }
}

/// Restores one component of the lock file, and its signatures.
async fn restore(
    setup: &HostSetup,
    location: &str,
    source: &SourceRecord,
    report: &mut VendorReport,
) -> CommandResult<()> {
    if !is_in_tools(location) {
        return Err(CommandFailure::usage(
            "the lock entry does not name a file in .mimir/tools itself",
        ));
    }
    if source.reference == LOCAL_REFERENCE {
        return match file_digest(setup, location)? {
            Some(_) => Ok(()),
            None => Err(ToolError::not_found(
                "it has no source that it could be fetched from: restore it from version control",
            )
            .into()),
        };
    }
    if !is_component_of(location) {
        return Err(CommandFailure::usage(
            "it is not a component in .mimir/tools",
        ));
    }
    let name = location.rsplit('/').next().unwrap_or_default();
    let stem = check_stem(name.rsplit_once('.').map(|(stem, _)| stem))?;
    match file_digest(setup, location)? {
        Some(digest) if digest == source.layer_hex() => {}
        Some(digest) => {
            return Err(ToolError::permission_denied(format!(
                "the file was changed (sha256 {digest}, expected {}); remove it, then run the command again",
                source.layer_hex()
            ))
            .into());
        }
        None => {
            let fetched = fetch_again(setup, source, location, stem.clone()).await?;
            install(setup, &fetched, AddOptions::default()).await?;
            report.restored.push(location.to_owned());
            return Ok(());
        }
    }
    if source.manifest.is_some() && !stored_signatures_path(&setup.workspace, &stem).is_file() {
        let registries = Registries::from_setup(setup)?;
        let artifact = registries.inspect_pinned(source).await?;
        write_stored_signatures(&setup.workspace, &stem, &artifact.stored_signatures()?)?;
        report.signatures.push(location.to_owned());
    }
    Ok(())
}

/// Fetches a component of the lock file again. Fails if its content is another.
async fn fetch_again(
    setup: &HostSetup,
    source: &SourceRecord,
    location: &str,
    stem: String,
) -> CommandResult<FetchedComponent> {
    if source.manifest.is_none() {
        let url = &source.reference;
        if let Some(package) = url.strip_prefix("npm:") {
            let package = NpmPackage::download(setup, package).await?;
            let mut fetched = package.read_component(setup).await?;
            fetched.check_digest(Some(source.layer_hex()))?;
            fetched.file_stem = stem;
            return Ok(fetched.with_source(source.clone()));
        }
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(CommandFailure::usage(format!(
                "add it again: `mimir tools add {}`",
                visible(url)
            )));
        }
        let bytes = fetch::download_component(setup, url, MAX_COMPONENT_SIZE).await?;
        let fetched = FetchedComponent::new(bytes, stem).with_source(source.clone());
        fetched.check_digest(Some(source.layer_hex()))?;
        return Ok(fetched);
    }
    let registries = Registries::from_setup(setup)?;
    let stored = stored_signatures_path(&setup.workspace, &stem);
    let signatures = if stored.is_file() {
        verify_stored(&setup.workspace, &trust_policy(setup)?, location, source)?;
        mimir_core::files::read(
            &stored,
            mimir_core::files::LinkPolicy::Refuse,
            MAX_COMPONENT_SIZE,
        )
        .map_err(|error| mimir::file_error::file_error("read", &stored, &error))?
    } else {
        registries
            .inspect_pinned(source)
            .await?
            .stored_signatures()?
    };
    let pulled = registries.download_pinned(source).await?;
    let mut fetched = FetchedComponent::new(pulled.bytes, stem).with_source(source.clone());
    fetched.policy = pulled.policy;
    fetched.signatures = Some(signatures);
    Ok(fetched)
}
