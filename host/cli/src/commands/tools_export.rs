//! `mimir tools export`: writes a component in the formats of other ecosystems.
//!
//! Every format wraps the same bytes, so that its digest is the one that `mimir tools info` shows. An export grants
//! nothing: bundles and plugins start `mimir serve --tools-from`, which loads the component without rights until the
//! person who has installed it grants them.

use std::path::Path;

use mimir_core::ToolError;
use serde_json::{Map, Value, json};

use crate::args::{GlobalOptions, ToolsExportArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{GOOD, note, styled, warn};
use mimir::setup::HostSetup;

mod agent_skill;
mod claude_plugin;
mod documents;
mod export_files;
mod exported_plugin;
mod mcp_bundle;
mod oci_layout;
mod server_entry;

use export_files::{ExportFile, ExportFolder};
use exported_plugin::ExportedPlugin;

/// One format of an export: the files to write, and what the report says about them.
struct ExportFormat {
    name: &'static str,
    folder: ExportFolder,
    report: Value,
}

/// Writes the component in all requested formats, or in none if one of them fails or would replace files.
pub async fn run(globals: &GlobalOptions, args: ToolsExportArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let plugin = ExportedPlugin::find(&setup, &args).await?;
    let formats = build_formats(&plugin, &args)?;
    let staged: Vec<_> = formats
        .iter()
        .map(|format| format.folder.stage(args.force))
        .collect::<Result<_, ToolError>>()?;
    for folder in staged {
        folder.commit()?;
    }
    if printer.is_json() {
        let reports = formats.into_iter().map(|format| {
            let mut report = format.report;
            report["folder"] = json!(format.folder.path());
            (format.name.to_owned(), report)
        });
        let reports: Map<String, Value> = reports.collect();
        printer.print_json(&json!({
            "plugin": plugin.name,
            "version": plugin.version,
            "digest": plugin.digest,
            "exported": reports,
        }))?;
        return Ok(ExitReason::Done);
    }
    for format in &formats {
        let path = mimir_core::text::visible(&format.folder.path().display().to_string());
        let names = format.folder.top_names().join(", ");
        note(format_args!(
            "{} {}: {path} ({names})",
            styled(GOOD, "exported"),
            format.name
        ));
    }
    note(format_args!("component sha256:{}", plugin.digest));
    if args.mcpb.is_some() && !args.with_program {
        note("The bundle starts `mimir` from the PATH; --with-program puts the program into it.");
    }
    let called = plugin.called_tools();
    if !called.is_empty() {
        warn(format_args!(
            "its tools call others ({}), which an exported component does not have",
            called.join(", ")
        ));
    }
    Ok(ExitReason::Done)
}

/// Builds the files of all requested formats in memory.
fn build_formats(
    plugin: &ExportedPlugin,
    args: &ToolsExportArgs,
) -> CommandResult<Vec<ExportFormat>> {
    let mut formats = Vec::new();
    let mut add = |name, folder: &Path, (files, report): (Vec<ExportFile>, Value)| {
        formats.push(ExportFormat {
            name,
            folder: ExportFolder::new(folder, files),
            report,
        });
    };
    if let Some(folder) = &args.oci {
        add("oci", folder, oci_layout::build(plugin, args)?);
    }
    if let Some(folder) = &args.mcpb {
        let bundle = mcp_bundle::build(plugin, args)?;
        if let (Some(entry_folder), Some(name), Some(url)) =
            (&args.server_json, &args.server_name, &args.bundle_url)
        {
            let entry = server_entry::build(plugin, name, url, &bundle.sha256);
            add("server-json", entry_folder, entry);
        }
        add("mcpb", folder, bundle.into_files());
    }
    if let Some(folder) = &args.claude_plugin {
        add("claude-plugin", folder, claude_plugin::build(plugin));
    }
    if let Some(folder) = &args.skill {
        add("skill", folder, agent_skill::build(plugin, folder)?);
    }
    if formats.is_empty() {
        return Err(CommandFailure::usage("name at least one format"));
    }
    Ok(formats)
}
