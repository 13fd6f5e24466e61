//! Rights that are named on the command line, for a component that cannot declare its needs.

use std::path::{Component, Path};

use mimir_core::Tool;
use mimir_core::grants;
use mimir_core::needs::{DirectoryAccess, FileNeed, Needs, SECRET_PREFIX, SecretNeed};

use super::policy_file;
use crate::args::ToolsTrustArgs;
use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;
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
    let mut named_now = Needs {
        files,
        hosts: args.hosts.iter().map(grants::named_host).collect(),
        secrets: args.secrets.clone(),
        environment: args.variables.iter().cloned().collect(),
        config: args.config.iter().cloned().collect(),
        ..Needs::default()
    };
    check_imports(tool, &named_now)?;
    if let Some(policy) = &args.policy {
        add_requests(setup, tool, args, policy, &mut named_now)?;
    }
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

/// Adds the requests of a policy file, and names those that cannot be granted.
fn add_requests(
    setup: &HostSetup,
    tool: &Tool,
    args: &ToolsTrustArgs,
    policy: &Path,
    named: &mut Needs,
) -> CommandResult<()> {
    if !grants::is_foreign(tool) {
        return Err(CommandFailure::usage(format!(
            "`{}` declares its rights itself; `--policy` is for components that were not written for mimir",
            tool.name()
        )));
    }
    // The digest is that of the component, so it confirms nothing of what the file requests.
    if args.digest.is_some() {
        return Err(CommandFailure::usage(
            "`--policy` is confirmed on a terminal; with `--digest`, name the rights with `--host`, `--read`, `--write` and `--secret` instead",
        ));
    }
    let requests = policy_file::read(policy, setup.workspace.root())?;
    for line in &requests.left_out {
        note(format_args!("not requested: {line}"));
    }
    let requested = Needs {
        files: requests.files,
        hosts: requests.hosts,
        secrets: requests.secrets,
        ..Needs::default()
    };
    let usable = grants::retain_importable(tool, requested.clone());
    if usable != requested {
        note("not requested: rights that the component has no import for");
    }
    // Rights on the command line go first.
    for need in usable.files {
        if !named.files.iter().any(|known| known.path == need.path) {
            named.files.push(need);
        }
    }
    for need in usable.hosts {
        if !named.hosts.iter().any(|known| known.host == need.host) {
            named.hosts.push(need);
        }
    }
    for need in usable.secrets {
        let is_same = |known: &SecretNeed| {
            (&known.name, &known.host, &known.header) == (&need.name, &need.host, &need.header)
        };
        if !named.secrets.iter().any(is_same) {
            named.secrets.push(need);
        }
    }
    Ok(())
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
