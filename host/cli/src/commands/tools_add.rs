//! `mimir tools add`.

use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::files::{self, LinkPolicy};
use mimir_core::grants;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::args::{GlobalOptions, ToolsAddArgs};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use crate::output::tools::quarantined;
use mimir::file_error::file_error;
use mimir::private_files::{self, FileReaders};
use mimir::setup::HostSetup;

use super::tools_trust::{policy_beside, set_prefix};
use crate::tools::is_file;

pub(super) mod fetch;

/// Maximum size of a component in bytes. The loader also refuses larger ones.
const MAX_COMPONENT_SIZE: u64 = 256 << 20;

/// Installs a component into `.mimir/tools`, if it is valid and has the expected digest.
pub async fn run(globals: &GlobalOptions, args: ToolsAddArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let url = args.file.to_str().filter(|file| file.contains("://"));
    let bytes = match url {
        Some(url) if args.digest.is_some() => {
            fetch::download_component(&setup, url, MAX_COMPONENT_SIZE).await?
        }
        Some(_) => {
            return Err(CommandFailure::usage(
                "a URL requires `--digest SHA256`, because the file behind it can change: \
                 use the digest that the author publishes",
            ));
        }
        None => read_component(&args.file)?,
    };
    let digest = format!("{:x}", Sha256::digest(&bytes));
    if let Some(expected) = args.digest.as_ref().filter(|expected| **expected != digest) {
        return Err(ToolError::permission_denied(format!(
            "digest mismatch: the file has {digest}, expected {expected}; nothing was added"
        ))
        .into());
    }
    let name_source = url.map_or(args.file.as_path(), fetch::file_name);
    let stem = name_source.file_stem().and_then(|stem| stem.to_str());
    let Some(stem) = stem.filter(|stem| !stem.starts_with('.')) else {
        return Err(CommandFailure::usage(
            "the file name must be valid UTF-8 and not begin with a dot: the installed file gets the same name",
        ));
    };
    let target = setup.workspace.tools().join(format!("{stem}.wasm"));
    setup.workspace.check_no_links(&target)?;
    let shown = setup.workspace.display_path(&target);
    let previous = match files::read(&target, LinkPolicy::Follow, MAX_COMPONENT_SIZE) {
        Ok(previous) => Some(previous),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(file_error("replace", &target, &error).into()),
    };
    if previous.is_some() && !args.force {
        return Err(ToolError::new(
            ToolErrorCode::AlreadyExists,
            format!("{shown} already exists; use --force to replace it"),
        )
        .into());
    }
    let earlier = setup.registry().await.into_registry();
    write_component(&target, &bytes)?;
    if let Some(prefix) = &args.prefix {
        let location = shown.replace('\\', "/");
        set_prefix(&setup.require_approvals()?, &location, prefix)?;
    }
    // Loading the component validates it. If it is not valid, the previous state is restored.
    let registry = setup.registry().await.into_registry();
    let name = format!("{stem}.wasm");
    let restore = || match &previous {
        Some(previous) => write_component(&target, previous),
        None => std::fs::remove_file(&target).map_err(|e| file_error("remove", &target, &e)),
    };
    let is_whole_file = |left_out: &&mimir_core::Quarantined| {
        !left_out.location.contains(" (") && is_file(&left_out.location, &name)
    };
    if let Some(left_out) = registry.quarantined().iter().find(is_whole_file) {
        restore()?;
        let message = format!("nothing was added: {}", left_out.reason);
        return Err(ToolError::new(left_out.code, message).into());
    }
    let tools: Vec<_> = registry
        .tools()
        .iter()
        .filter(|tool| is_file(&tool.origin.location, &name))
        .collect();
    let taken = tools.iter().find_map(|tool| {
        let owner = earlier.get(tool.name().as_str())?;
        (owner.origin.location != tool.origin.location).then_some(owner)
    });
    if let Some(owner) = taken {
        restore()?;
        let message = format!(
            "nothing was added: {} already has a tool `{}`, whose approvals and settings would apply to the new one",
            mimir_core::text::visible(&owner.origin.location),
            owner.name()
        );
        let remedy = format!("add a prefix to the new names, such as `--prefix {stem}_`");
        return Err(ToolError::new(ToolErrorCode::AlreadyExists, message)
            .with_remedies([remedy])
            .into());
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
    let action = if previous.is_some() {
        "replaced"
    } else {
        "added"
    };
    let event = AuditEvent::new(EventKind::ConfigChange, SystemTime::now()).with_subject(&shown);
    setup.record_event(&event.with_detail(&format!("{action}, sha256 {digest}")));
    if printer.is_json() {
        printer.print_json(&json!({ "added": shown, "digest": digest, "tools": names }))?;
        return Ok(ExitReason::Done);
    }
    note(format_args!("{shown}: {}", names.join(", ")));
    let left_out = registry.quarantined().iter();
    for left_out in left_out.filter(|left_out| is_left_out_of(&left_out.location, &name)) {
        quarantined(left_out);
    }
    if let Some(tool) = tools.iter().find(|tool| !tool.definition.needs.is_empty()) {
        let name = tool.name();
        note(format_args!(
            "It requests rights: `mimir tools trust {name}` shows and grants them."
        ));
    }
    if let Some(tool) = tools.iter().find(|tool| grants::takes_hosts(tool)) {
        let name = tool.name();
        note(format_args!(
            "It can send requests but does not declare hosts: `mimir tools trust {name} --host HOST` grants a host."
        ));
    }
    if let Some(tool) = tools.iter().find(|tool| grants::takes_files(tool)) {
        let name = tool.name();
        note(format_args!(
            "It can open files but does not declare which: `mimir tools trust {name} --read DIR` grants a folder, if it needs one."
        ));
    }
    let policy = match url {
        Some(_) => None,
        None => policy_beside(&args.file),
    };
    if let (Some(policy), Some(tool)) = (policy, tools.iter().find(|tool| grants::is_foreign(tool)))
    {
        let policy = quote_for_shell(&policy.display().to_string());
        note(format_args!(
            "Beside it is a policy file of another host: `mimir tools trust {} --policy {policy}` shows and requests what it lists.",
            tool.name()
        ));
    }
    Ok(ExitReason::Done)
}

/// Returns true if the location is that of a tool in this file.
fn is_left_out_of(location: &str, file: &str) -> bool {
    location
        .split_once(" (")
        .is_some_and(|(file_location, _)| is_file(file_location, file))
}

fn read_component(path: &Path) -> Result<Vec<u8>, ToolError> {
    let failed = |error| file_error("read", path, &error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_COMPONENT_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_COMPONENT_SIZE {
        return Err(ToolError::limit_exceeded(
            "the component is too large: at most 256 MB are supported",
        ));
    }
    Ok(bytes)
}

/// Writes a component atomically, so that other processes never see a partial file.
fn write_component(target: &Path, bytes: &[u8]) -> Result<(), ToolError> {
    let created = match target.parent() {
        Some(folder) => std::fs::create_dir_all(folder),
        None => Ok(()),
    };
    created
        .and_then(|()| private_files::replace(target, bytes, FileReaders::Owner))
        .map_err(|error| file_error("write", target, &error))
}
