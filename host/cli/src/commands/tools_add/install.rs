//! Installation of a fetched component: files, checks, lock entry and audit record. If a step fails, the previous state
//! is restored.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::grants::SourceRecord;
use mimir_core::{Quarantined, Tool, ToolError, ToolErrorCode};

use super::fetched::FetchedComponent;
use super::replaced_files::ReplacedFiles;
use crate::commands::tools_trust::set_prefix;
use crate::exit::CommandResult;
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
    let name = format!("{stem}.wasm");
    let mut entries = ReplacedEntries::new(setup, &location);
    let checked: CommandResult<_> = async {
        // First, because the loader checks the signature that belongs to the lock entry.
        entries.pin(fetched.source.as_ref())?;
        if let Some(prefix) = options.prefix {
            entries.set_prefix(prefix)?;
        }
        // Loading the component validates it.
        let registry = setup.registry().await.into_registry();
        let tools = check_tools(&registry, &earlier, &name, stem)?;
        Ok((registry, tools))
    }
    .await;
    let (registry, tools) = match checked {
        Ok(checked) => checked,
        Err(failure) => {
            drop(files);
            entries.restore()?;
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

/// Returns the tools of the file. Fails if the host does not accept the file or leaves out all of its tools, or if another
/// file has a tool of the same name, because its approvals and settings would apply to the new one.
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
    let displaced = registry.displaced().iter();
    let displaced = displaced.filter(|tool| is_file(&tool.origin.location, name));
    if tools.is_empty() && displaced.count() == 0 {
        let mut left_out = registry.quarantined().iter();
        let left_out = left_out.find(|left_out| is_left_out_of(&left_out.location, name));
        let (code, reason) = left_out.map_or(
            (ToolErrorCode::InvalidInput, "it has no tools"),
            |left_out| (left_out.code, left_out.reason.as_str()),
        );
        return Err(ToolError::new(code, format!("nothing was added: {reason}")).into());
    }
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

/// Entries of a file in the lock file that an installation replaces, with their previous values.
struct ReplacedEntries<'a> {
    setup: &'a HostSetup,
    location: &'a str,
    /// The previous source, if it was replaced.
    source: Option<Option<SourceRecord>>,
    /// The previous prefix, if it was replaced.
    prefix: Option<String>,
}

impl<'a> ReplacedEntries<'a> {
    fn new(setup: &'a HostSetup, location: &'a str) -> Self {
        Self {
            setup,
            location,
            source: None,
            prefix: None,
        }
    }

    /// Writes the source of the component, or removes that of an earlier one.
    fn pin(&mut self, source: Option<&SourceRecord>) -> CommandResult<()> {
        let Some(approval_store) = self.setup.approvals() else {
            return match source {
                Some(_) => self.setup.require_approvals().map(drop).map_err(Into::into),
                None => Ok(()),
            };
        };
        let previous = match approval_store.lock().read() {
            Ok(mut lock) => lock.sources.remove(self.location),
            // An unreadable lock file is reported when it is needed.
            Err(_) if source.is_none() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if previous.as_ref() == source {
            return Ok(());
        }
        write_source(&approval_store, self.location, source)?;
        self.source = Some(previous);
        Ok(())
    }

    /// Sets the prefix of the file's tools.
    fn set_prefix(&mut self, prefix: &str) -> CommandResult<()> {
        let approval_store = self.setup.require_approvals()?;
        self.prefix = Some(set_prefix(&approval_store, self.location, prefix)?);
        Ok(())
    }

    /// Writes the previous values again.
    fn restore(self) -> CommandResult<()> {
        let Some(approval_store) = self.setup.approvals() else {
            return Ok(());
        };
        if let Some(previous) = &self.prefix {
            set_prefix(&approval_store, self.location, previous)?;
        }
        match &self.source {
            Some(previous) => write_source(&approval_store, self.location, previous.as_ref()),
            None => Ok(()),
        }
    }
}

/// Writes the source of a file to the lock file; `None` removes it.
fn write_source(
    approval_store: &UserApprovalStore,
    location: &str,
    source: Option<&SourceRecord>,
) -> CommandResult<()> {
    approval_store.lock().change(|lock| match source {
        Some(source) => lock.sources.insert(location.to_owned(), source.clone()),
        None => lock.sources.remove(location),
    })?;
    Ok(())
}

/// Removes the source of a file from the lock file, because the file does not come from it any more.
pub fn forget_source(setup: &HostSetup, location: &str) -> CommandResult<()> {
    let Some(approval_store) = setup.approvals() else {
        return Ok(());
    };
    // An unreadable lock file is reported when it is needed.
    let lock = approval_store.lock().read();
    if lock.is_ok_and(|lock| lock.sources.contains_key(location)) {
        write_source(&approval_store, location, None)?;
    }
    Ok(())
}

/// Returns true if the location is that of a tool in this file.
fn is_left_out_of(location: &str, file: &str) -> bool {
    location
        .split_once(" (")
        .is_some_and(|(file_location, _)| is_file(file_location, file))
}
