//! `mimir team add` and `mimir team remove`.

use std::path::Path;

use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use super::{record, registry_source, shown};
use crate::args::{GlobalOptions, TeamAddArgs};
use crate::arguments::quote_for_shell;
use crate::commands::tools_add::{AddSource, fetch_component};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::note;
use mimir::setup::HostSetup;
use mimir::team_authoring::{
    AuthoredTool, AuthoringFolder, InspectedPlugin, ToolProposal, bundled_file_name,
};

/// Adds a component to the catalog. It must be approved before it is published.
pub async fn add(globals: &GlobalOptions, args: &TeamAddArgs) -> CommandResult {
    let mut folder = AuthoringFolder::open(&args.dir)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let source = AddSource::parse(&args.source)?;
    if !matches!(source, AddSource::File(_) | AddSource::Registry(_)) {
        return Err(CommandFailure::usage(
            "a catalog takes component files and references of registries; install other sources with `mimir tools add`, and propose the tool with `mimir team propose`",
        ));
    }
    let fetched = fetch_component(&setup, &source, None).await?;
    let file = bundled_file_name(Path::new(&fetched.file_stem))?;
    let source = match &fetched.source {
        Some(source) => registry_source(source)?,
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
    if globals.json {
        globals.printer().print_json(&json!({
            "added": file,
            "digest": plugin.digest,
            "reviewDigest": facts.review_digest(),
            "size": plugin.bytes.len(),
            "reference": entry.reference,
            "signer": source.as_ref().and_then(|source| source.signer.as_ref()),
            "enforced": entry.enforced,
            "changed": is_new,
            "needs": needs,
        }))?;
        return Ok(ExitReason::Done);
    }
    note(format_args!("added {file}, {}", plugin.digest));
    if let Some(source) = &source {
        let signer = source.signer.as_ref();
        let signer = signer.map_or_else(|| "unsigned".to_owned(), ToString::to_string);
        let reference = visible(&source.reference);
        note(format_args!("from {reference}, {}", visible(&signer)));
    }
    for line in &needs {
        note(format_args!("  - {}", visible(line)));
    }
    let dir = quote_for_shell(&args.dir.display().to_string());
    note(format_args!(
        "Next: `mimir team approve {file} {dir} --sign KEY` shows and grants what it requests."
    ));
    Ok(ExitReason::Done)
}

/// Removes a component from the catalog.
pub fn remove(globals: &GlobalOptions, tool: &str, dir: &Path) -> CommandResult {
    let mut folder = AuthoringFolder::open(dir)?;
    let setup = HostSetup::find(globals.workspace.as_deref())?;
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
            "removed {}; members keep it until the next `mimir team publish`",
            removed.file
        ),
    )
}
