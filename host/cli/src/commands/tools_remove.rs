//! `mimir tools remove`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use mimir_core::ToolError;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::storage::FOLDER;
use serde_json::json;

use crate::exit::{CommandFailure, CommandResult};
use crate::terminal;
use crate::{args::GlobalOptions, tools};
use mimir::file_error::file_error;
use mimir::registries::stored_signatures_path;
use mimir::setup::{HostSetup, TOOLS_PREFIX};

use super::tools_add::forget_source;
use super::tools_trust::{find_location, set_prefix};

/// Removes a file from the tools folder, with its grant and stored data.
pub async fn run(globals: &GlobalOptions, name: &str, yes: bool) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let approval_store = setup.require_approvals()?;
    let location = match find_installed_file(&setup, name) {
        Some(location) => location,
        None => find_location(&setup, &approval_store, name).await?,
    };
    let file = setup.workspace.root().join(&location);
    if !location.starts_with(TOOLS_PREFIX) {
        let advice = if location.starts_with("mcp:") {
            "use `mimir mcp remove` to remove its server"
        } else {
            "use `mimir tools disable` to switch it off"
        };
        let message = format!("{location} is not a file in .mimir/tools");
        if let Some(remedy) = remedy_for_enforced(&setup, &location).await {
            return Err(ToolError::invalid_input(message)
                .with_remedies([remedy])
                .into());
        }
        return Err(ToolError::invalid_input(format!("{message}; {advice}")).into());
    }
    if !yes
        && !terminal::confirm(&format!(
            "Remove {location}, its grant and its stored data?"
        ))?
    {
        let without_terminal = format!("use `mimir tools remove {name} --yes`");
        let message = terminal::refusal("nothing was removed", &without_terminal);
        return Err(ToolError::approval_denied(message).into());
    }
    let failed = |path: &Path, error: std::io::Error| {
        let path = setup.workspace.display_path(path);
        let message = format!("cannot remove {path}: {error}");
        CommandFailure::from(ToolError::permission_denied(message))
    };
    // The grant is revoked first, so that the tool needs approval even if removing the file fails.
    let revoked = approval_store.revoke(&location)?;
    let event = AuditEvent::new(EventKind::Revoke, SystemTime::now()).with_subject(&location);
    setup.record_event(&event.with_detail("removed"));
    let removed = match std::fs::remove_file(&file) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(failed(&file, error)),
    };
    set_prefix(&approval_store, &location, "")?;
    let had_source = remove_source(&setup, &location)?;
    let stored = tools::PluginStorageInfo::for_location(&setup, &location);
    if let Some(stored) = &stored {
        let folder = setup.workspace.root().join(&stored.folder);
        std::fs::remove_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    if !removed && !revoked && !had_source && stored.is_none() {
        let message = format!("{location} does not exist and has no grant");
        return Err(ToolError::not_found(message).into());
    }
    let values = stored.map_or(0, |stored| stored.size.values);
    printer.print_done(
        &json!({ "removed": location, "revoked": revoked, "values": values }),
        format_args!("removed {location}, its grant and its data in {FOLDER}"),
    )
}

/// Returns how to get rid of a tool that a team enforces, which cannot be disabled; `None` for other tools.
async fn remedy_for_enforced(setup: &HostSetup, location: &str) -> Option<String> {
    tools::team_at(setup, location)?;
    let registry = setup.registry().await.into_registry();
    let mut all = registry.tools().iter();
    let tool = all.find(|tool| tool.enforced && tool.origin.location == location)?;
    Some(tools::TeamOrigin::of_tool(setup, tool)?.remedy_for_enforced())
}

/// Removes the source of a file from the lock file, with the files that came with it. Returns false if it has none.
fn remove_source(setup: &HostSetup, location: &str) -> CommandResult<bool> {
    let lock = setup.require_approvals()?.lock().read().unwrap_or_default();
    let Some(source) = lock.sources.get(location) else {
        return Ok(false);
    };
    let file = Path::new(location);
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.unwrap_or_default();
    let mut files = vec![stored_signatures_path(&setup.workspace, stem)];
    if source.policy.is_some() {
        let folder = setup.workspace.tools();
        files.push(folder.join(format!("{stem}.policy.yaml")));
    }
    for path in files {
        setup.workspace.check_no_links(&path)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(file_error("remove", &path, &error).into());
            }
            _ => {}
        }
    }
    forget_source(setup, location)?;
    Ok(true)
}

/// Finds the file of this name in the tools folder. The file need not be valid, so that broken tools can be removed.
fn find_installed_file(setup: &HostSetup, name: &str) -> Option<String> {
    let entries = std::fs::read_dir(setup.workspace.root().join(TOOLS_PREFIX)).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut locations: Vec<String> = names
        .map(|file| format!("{TOOLS_PREFIX}{file}"))
        .filter(|location| tools::is_file(location, name))
        .collect();
    locations.sort_unstable();
    match locations.len() {
        1 => locations.pop(),
        _ => locations
            .into_iter()
            .find(|location| location.ends_with(&format!("/{name}"))),
    }
}
