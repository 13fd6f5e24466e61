//! `mimir team add` and `mimir team remove`.

use std::path::Path;

use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use super::{next_publish, open_folder, record, registry_source, shown, warn_expiry};
use crate::args::{GlobalOptions, TeamAddArgs};
use crate::commands::tools_add::{AddSource, fetch_component};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use mimir::registries::SignatureState;
use mimir::setup::HostSetup;
use mimir::team_authoring::{AuthoredTool, InspectedPlugin, ToolProposal, bundled_file_name};

/// Adds a component to the catalog. It must be approved before it is published.
pub async fn add(globals: &GlobalOptions, args: &TeamAddArgs) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let mut folder = open_folder(&setup, &args.dir, None)?;
    let source = AddSource::parse(&args.source)?;
    if !matches!(source, AddSource::File(_) | AddSource::Registry(_)) {
        return Err(CommandFailure::usage(
            "a catalog takes component files and references of registries; install other sources with `mimir tools add`, and propose the tool with `mimir team propose`",
        ));
    }
    let fetched = fetch_component(&setup, &source, None).await?;
    let file = bundled_file_name(Path::new(&fetched.file_stem))?;
    let source = match &fetched.source {
        Some(source) => registry_source(source, fetched.signature_state)?,
        None => None,
    };
    let plugin = InspectedPlugin::inspect(&setup, &file, fetched.bytes, &Needs::default()).await?;
    let earlier = folder.tool(&file).cloned();
    let entry = AuthoredTool {
        file: file.clone(),
        digest: plugin.digest,
        reference: source.as_ref().map(|source| source.reference.clone()),
        enforced: args.enforced || earlier.as_ref().is_some_and(|earlier| earlier.enforced),
    };
    let is_new = earlier.as_ref() != Some(&entry);
    folder.put_tool(entry.clone(), &plugin.bytes)?;
    record(
        &setup,
        &format!("team {}", folder.manifest.org_id),
        &format!("added {file} to the catalog, {}", plugin.digest),
    );
    let facts = ToolProposal::new(&plugin, &Needs::default(), None, source.clone(), None);
    let needs: Vec<String> = plugin
        .tools
        .iter()
        .flat_map(|tool| tool.definition.needs.lines())
        .collect();
    let signature_state = source.as_ref().and_then(|source| source.signature.as_ref());
    let signature_state = signature_state.map(SignatureState::as_str);
    if globals.json {
        globals.printer().print_json(&json!({
            "added": file,
            "digest": plugin.digest,
            "reviewDigest": facts.review_digest(),
            "size": plugin.bytes.len(),
            "reference": entry.reference,
            "signer": source.as_ref().and_then(|source| source.signer.as_ref()),
            "signature": signature_state,
            "enforced": entry.enforced,
            "changed": is_new,
            "needs": needs,
        }))?;
        return Ok(ExitReason::Done);
    }
    note(format_args!("added {file}, {}", plugin.digest));
    if let Some(source) = &source {
        let (reference, signature) = (visible(&source.reference), source.signature_text());
        note(format_args!("from {reference}"));
        note(format_args!("signature: {}", visible(&signature)));
    }
    for line in &needs {
        note(format_args!("  - {}", visible(line)));
    }
    note(format_args!(
        "Next: `{}` shows and grants what it requests.",
        folder.approve_command(&file)
    ));
    warn_expiry(&folder);
    Ok(ExitReason::Done)
}

/// Removes a component from the catalog.
pub fn remove(globals: &GlobalOptions, tool: &str, dir: &Path) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let mut folder = open_folder(&setup, dir, None)?;
    let Some(removed) = folder.remove_tool(tool)? else {
        let known = folder.manifest.tools.iter();
        let known: Vec<&str> = known.map(|tool| tool.file.as_str()).collect();
        let message = format!(
            "the catalog of {} has no tool `{}`; it has: {}",
            shown(dir),
            visible(tool),
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        );
        return Err(ToolError::new(ToolErrorCode::NotFound, message).into());
    };
    record(
        &setup,
        &format!("team {}", folder.manifest.org_id),
        &format!(
            "removed {} from the catalog, {}",
            removed.file, removed.digest
        ),
    );
    globals.printer().print_done(
        &json!({ "removed": removed.file, "digest": removed.digest }),
        format_args!(
            "removed {}; members keep it until the next bundle: {}",
            removed.file,
            next_publish(&folder)
        ),
    )
}
