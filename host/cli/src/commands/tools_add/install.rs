//! Installation of a fetched component: files, checks, lock entry and audit record. If a step fails, the previous state
//! is restored.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::{Quarantined, Tool, ToolError, ToolErrorCode};

use super::fetched::FetchedComponent;
use super::replaced_files::ReplacedFiles;
use crate::commands::tools_trust::set_prefix;
use crate::exit::{CommandFailure, CommandResult};
use crate::tools::is_file;
use mimir::approval_store::UserApprovalStore;
use mimir::registries::stored_signatures_path;
use mimir::setup::HostSetup;

/// Options of an installation.
#[derive(Debug, Clone, Copy, Default)]
pub struct AddOptions<'a> {
    /// Replaces an installed file of the same name.
    pub replaces: bool,
    /// Sets a prefix for the names of the tools.
    pub prefix: Option<&'a str>,
}

/// An installed component.
pub struct InstalledComponent {
    /// Path of the file in the workspace.
    pub file: String,
    /// SHA-256 of the file in lower-case hex.
    pub digest: String,
    /// The tools in it.
    pub tools: Vec<Arc<Tool>>,
    /// Tools in it that were left out.
    pub left_out: Vec<Quarantined>,
}

/// Installs a component into `.mimir/tools`, with its lock entry. A component that the host does not accept, or with the
/// name of another tool, is not installed.
pub async fn install(
    setup: &HostSetup,
    fetched: &FetchedComponent,
    options: AddOptions<'_>,
) -> CommandResult<InstalledComponent> {
    let stem = &fetched.file_stem;
    let target = setup.workspace.tools().join(format!("{stem}.wasm"));
    setup.workspace.check_no_links(&target)?;
    let shown = setup.workspace.display_path(&target);
    let location = shown.replace('\\', "/");
    let replaces = ReplacedFiles::read(&target)?.is_some();
    if replaces && !options.replaces {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!("{shown} already exists; use --force to replace it"),
        )
        .into());
    }
    let signatures = stored_signatures_path(&setup.workspace, stem);
    setup.workspace.check_no_links(&signatures)?;
    let earlier = setup.registry().await.into_registry();
    let mut files = ReplacedFiles::default();
    files.replace(&target, Some(&fetched.bytes))?;
    if fetched.policy.is_some() || had_policy(setup, &location) {
        let path = setup.workspace.tools().join(format!("{stem}.policy.yaml"));
        files.replace(&path, fetched.policy.as_deref().map(str::as_bytes))?;
    }
    files.replace(&signatures, fetched.signatures.as_deref())?;
    let prefix = match options.prefix {
        Some(prefix) => {
            let approval_store = setup.require_approvals()?;
            let previous = set_prefix(&approval_store, &location, prefix)?;
            Some((approval_store, previous))
        }
        None => None,
    };
    let restore_prefix = || match &prefix {
        Some((approval_store, previous)) => {
            set_prefix(approval_store, &location, previous).map(drop)
        }
        None => Ok(()),
    };
    // Loading the component validates it.
    let registry = setup.registry().await.into_registry();
    let name = format!("{stem}.wasm");
    let checked = check_tools(&registry, &earlier, &name, stem)
        .and_then(|tools| pin(setup, &location, fetched).map(|()| tools));
    let tools = match checked {
        Ok(tools) => tools,
        Err(failure) => {
            drop(files);
            restore_prefix()?;
            return Err(failure);
        }
    };
    files.keep();
    let digest = fetched.digest();
    let action = if replaces { "replaced" } else { "added" };
    let source = match &fetched.source {
        Some(source) => format!(", from {}", mimir_core::text::visible(&source.reference)),
        None => String::new(),
    };
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&shown);
    setup.record_event(&event.with_detail(&format!("{action}, sha256 {digest}{source}")));
    let left_out = registry.quarantined().iter();
    let left_out = left_out.filter(|left_out| is_left_out_of(&left_out.location, &name));
    Ok(InstalledComponent {
        left_out: left_out.cloned().collect(),
        file: shown,
        digest,
        tools,
    })
}

/// Returns true if the installed file came with a policy file, which belongs to that build only.
fn had_policy(setup: &HostSetup, location: &str) -> bool {
    let lock = setup.approvals().and_then(|store| store.lock().read().ok());
    let source = lock.and_then(|mut lock| lock.sources.remove(location));
    source.is_some_and(|source| source.policy.is_some())
}

/// Returns the tools of the file. Fails if the host does not accept the file, or if another file has a tool of the same
/// name, because its approvals and settings would apply to the new one.
fn check_tools(
    registry: &mimir_core::Registry,
    earlier: &mimir_core::Registry,
    name: &str,
    stem: &str,
) -> CommandResult<Vec<Arc<Tool>>> {
    let is_whole_file = |left_out: &&Quarantined| {
        !left_out.location.contains(" (") && is_file(&left_out.location, name)
    };
    if let Some(left_out) = registry.quarantined().iter().find(is_whole_file) {
        let message = format!("nothing was added: {}", left_out.reason);
        return Err(ToolError::new(left_out.code, message).into());
    }
    let tools: Vec<_> = registry
        .tools()
        .iter()
        .filter(|tool| is_file(&tool.origin.location, name))
        .cloned()
        .collect();
    let taken = tools.iter().find_map(|tool| {
        let owner = earlier.get(tool.name().as_str())?;
        (owner.origin.location != tool.origin.location).then_some(owner)
    });
    let Some(owner) = taken else { return Ok(tools) };
    let message = format!(
        "nothing was added: {} already has a tool `{}`, whose approvals and settings would apply to the new one",
        mimir_core::text::visible(&owner.origin.location),
        owner.name()
    );
    let remedy = format!("add a prefix to the new names, such as `--prefix {stem}_`");
    Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
        .with_remedies([remedy])
        .into())
}

/// Writes the source of a component to the lock file, or removes that of an earlier one.
fn pin(setup: &HostSetup, location: &str, fetched: &FetchedComponent) -> CommandResult<()> {
    match &fetched.source {
        None => forget_source(setup, location),
        Some(source) => {
            let approval_store = setup.require_approvals()?;
            approval_store
                .lock()
                .change(|lock| lock.sources.insert(location.to_owned(), source.clone()))?;
            Ok(())
        }
    }
}

/// Removes the source of a file from the lock file, because the file does not come from it any more.
pub fn forget_source(setup: &HostSetup, location: &str) -> CommandResult<()> {
    let Some(approval_store) = setup.approvals() else {
        return Ok(());
    };
    remove_source(&approval_store, location)
}

/// Removes the source of a file from the lock file.
fn remove_source(approval_store: &UserApprovalStore, location: &str) -> CommandResult<()> {
    let lock = approval_store.lock();
    // An unreadable lock file is reported when it is needed.
    let is_pinned = lock
        .read()
        .is_ok_and(|lock| lock.sources.contains_key(location));
    if is_pinned {
        lock.change(|lock| lock.sources.remove(location))
            .map_err(CommandFailure::from)?;
    }
    Ok(())
}

/// Returns true if the location is that of a tool in this file.
fn is_left_out_of(location: &str, file: &str) -> bool {
    location
        .split_once(" (")
        .is_some_and(|(file_location, _)| is_file(file_location, file))
}
