//! Rights that are named on the command line, for a component that cannot declare its needs.

use std::path::{Component, Path};

use mimir_core::Tool;
use mimir_core::grants;
use mimir_core::needs::{DirectoryAccess, FileNeed, Needs, SECRET_PREFIX};

use crate::args::ToolsTrustArgs;
use crate::exit::{CommandFailure, CommandResult};
use mimir::approval_store::UserApprovalStore;
use mimir::setup::HostSetup;

/// Sets the prefix of a plugin's tool names; an empty text removes it. Returns the previous prefix.
pub fn set_prefix(
    approval_store: &UserApprovalStore,
    location: &str,
    prefix: &str,
) -> CommandResult<String> {
    let previous = approval_store
        .lock()
        .read()?
        .prefixes
        .get(location)
        .cloned();
    let previous = previous.unwrap_or_default();
    if previous != prefix {
        approval_store.lock().change(|lock| match prefix {
            "" => lock.prefixes.remove(location),
            prefix => lock.prefixes.insert(location.to_owned(), prefix.to_owned()),
        })?;
    }
    Ok(previous)
}

/// Returns the rights of a component that cannot declare its needs. Kinds of rights that are not named now come from
/// the previous grant.
pub fn named_rights(
    setup: &HostSetup,
    approval_store: &UserApprovalStore,
    args: &ToolsTrustArgs,
    tool: &Tool,
) -> CommandResult<Needs> {
    let mut files = Vec::new();
    for (folders, access) in [
        (&args.writes, DirectoryAccess::ReadWrite),
        (&args.reads, DirectoryAccess::Read),
    ] {
        for folder in folders {
            let need = folder_need(setup, folder, access)?;
            if !files.iter().any(|known: &FileNeed| known.path == need.path) {
                files.push(need);
            }
        }
    }
    let named_now = Needs {
        files,
        hosts: args.hosts.iter().map(grants::named_host).collect(),
        secrets: args.secrets.clone(),
        environment: args.variables.iter().cloned().collect(),
        config: args.config.iter().cloned().collect(),
        ..Needs::default()
    };
    check_imports(tool, &named_now)?;
    let mut rights = previously_named(approval_store, tool);
    if !named_now.files.is_empty() {
        rights.files = named_now.files;
    }
    if !named_now.hosts.is_empty() {
        rights.hosts = named_now.hosts;
    }
    if !named_now.secrets.is_empty() {
        rights.secrets = named_now.secrets;
    }
    if !named_now.environment.is_empty() {
        rights.environment = named_now.environment;
    }
    if !named_now.config.is_empty() {
        rights.config = named_now.config;
    }
    for value in rights.config.values() {
        let secret = value.strip_prefix(SECRET_PREFIX);
        let known = |name: &&str| rights.secrets.iter().any(|need| need.name == **name);
        if let Some(name) = secret.filter(|name| !known(name)) {
            return Err(CommandFailure::usage(format!(
                "`{value}` is the placeholder of a secret without a destination; add `--secret {name}@HOST:HEADER`"
            )));
        }
    }
    Ok(rights)
}

/// Refuses rights that the component cannot use, because it does not import the interface.
fn check_imports(tool: &Tool, named: &Needs) -> CommandResult<()> {
    let sends = grants::takes_hosts(tool);
    for (kind, named, is_imported, import) in [
        ("hosts", !named.hosts.is_empty(), sends, "wasi:http"),
        ("secrets", !named.secrets.is_empty(), sends, "wasi:http"),
        (
            "folders",
            !named.files.is_empty(),
            grants::takes_files(tool),
            "wasi:filesystem",
        ),
        (
            "variables",
            !named.environment.is_empty(),
            grants::takes_variables(tool),
            "wasi:cli/environment",
        ),
        (
            "settings",
            !named.config.is_empty(),
            grants::takes_config(tool),
            "wasi:config",
        ),
    ] {
        if named && !is_imported {
            return Err(CommandFailure::usage(format!(
                "`{}` cannot be granted {kind}: expected a component that imports {import} and was not written for mimir",
                tool.name()
            )));
        }
    }
    Ok(())
}

/// Returns the named rights of the previous grant. A grant that this user has not given is ignored.
fn previously_named(approval_store: &UserApprovalStore, tool: &Tool) -> Needs {
    if !grants::is_foreign(tool) {
        return Needs::default();
    }
    let location = &tool.origin.location;
    let approvals = approval_store.read().ok();
    let known = approvals.and_then(|approvals| approvals.grants.get(location).cloned());
    let lock = approval_store.lock().read().unwrap_or_default();
    let grant = lock.plugins.get(location);
    let grant = grant.filter(|grant| known.as_ref() == Some(&grant.id(location)));
    grant.map_or_else(Needs::default, grants::Grant::named)
}

/// Returns the need for an existing folder of the workspace. Fails if the folder is outside of the workspace.
fn folder_need(
    setup: &HostSetup,
    folder: &Path,
    access: DirectoryAccess,
) -> CommandResult<FileNeed> {
    let shown = mimir_core::text::visible(&folder.display().to_string());
    let outside = || {
        CommandFailure::usage(format!(
            "`{shown}` is not below the workspace: expected a folder relative to it, or `.` for all of it"
        ))
    };
    let root = setup.workspace.root();
    let relative = folder.strip_prefix(root).unwrap_or(folder);
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(outside)?),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    if !root.join(relative).is_dir() {
        return Err(CommandFailure::usage(format!(
            "`{shown}` is not a folder of the workspace; create it first"
        )));
    }
    let path = if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    };
    Ok(grants::named_folder(&path, access))
}
