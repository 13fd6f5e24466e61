//! `mimir tools add`: fetches a component from one of several kinds of sources, and installs it.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use mimir_core::grants::{self, SourceRecord};
use mimir_core::tool::ToolTrust;
use mimir_core::{Tool, ToolError};
use serde_json::json;

use crate::args::{GlobalOptions, ToolsAddArgs};
use crate::arguments::quote_for_shell;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::tools::quarantined;
use crate::output::{FAINT, grant, note, styled};
use mimir::file_error::file_error;
use mimir::setup::{HostSetup, is_in_tools};

use super::tools_trust::policy_beside;
use refusal::recorded;

mod add_source;
mod enforcement;
pub(super) mod fetch;
mod fetched;
mod folder;
mod install;
mod npm;
mod refusal;
mod registry;
mod replaced_files;

pub(super) use add_source::AddSource;
pub(super) use enforcement::{build_warning, refuse_unloadable, script_warning};
pub(super) use fetched::{FetchedComponent, MAX_COMPONENT_SIZE, check_stem};
pub(super) use install::{AddOptions, InstalledComponent, forget_source, install};
pub(super) use npm::{NpmPackage, update_request};
pub(super) use refusal::record_refusal;
pub(super) use registry::fetch_artifact;

/// Returns true for the location of a component in the tools folder itself.
pub(super) fn is_component_of(location: &str) -> bool {
    is_in_tools(location) && location.ends_with(".wasm")
}

/// Fetches a component and installs it into `.mimir/tools`, if it is valid and has the expected digest.
pub async fn run(globals: &GlobalOptions, args: ToolsAddArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let source = AddSource::parse(&args.file)?;
    let can_be_signed = matches!(source, AddSource::Registry(_));
    let refused = refuse_unloadable(&setup, can_be_signed).map_err(Into::into);
    recorded(&setup, &source.recorded(), refused)?;
    let fetched = fetch_component(&setup, &source, args.digest.as_deref()).await?;
    let options = AddOptions {
        replaces: args.force,
        prefix: args.prefix.as_deref(),
    };
    let checked = fetched.check_digest(args.digest.as_deref());
    let installed = match checked {
        Ok(()) => install(&setup, &fetched, options).await,
        Err(error) => Err(error.into()),
    };
    let installed = recorded(&setup, &source.recorded(), installed)?;
    if printer.is_json() {
        let mut report = json!({
            "added": installed.file,
            "digest": installed.digest,
            "tools": tool_names(&installed),
        });
        if let Some(source) = &fetched.source {
            report["source"] = json!(source);
        }
        printer.print_json(&report)?;
        return Ok(ExitReason::Done);
    }
    for line in &fetched.notes {
        note(styled(FAINT, line));
    }
    if fetched.source.is_some() {
        grant::show(&installed.tools, &[]);
    }
    print_installed(&installed, &fetched);
    note_policy(&source, &installed);
    Ok(ExitReason::Done)
}

/// Fetches the component of a source. A refusal is recorded in the audit log.
pub(super) async fn fetch_component(
    setup: &HostSetup,
    source: &AddSource,
    digest: Option<&str>,
) -> CommandResult<FetchedComponent> {
    let fetched = fetch_unrecorded(setup, source, digest).await;
    recorded(setup, &source.recorded(), fetched)
}

async fn fetch_unrecorded(
    setup: &HostSetup,
    source: &AddSource,
    digest: Option<&str>,
) -> CommandResult<FetchedComponent> {
    match source {
        AddSource::File(path) => {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let bytes = read_component(path)?;
            Ok(FetchedComponent::new(bytes, check_stem(stem)?))
        }
        AddSource::Url(url) => {
            let Some(digest) = digest else {
                return Err(CommandFailure::usage(
                    "a URL requires `--digest SHA256`, because the file behind it can change: \
                     use the digest that the author publishes",
                ));
            };
            let bytes = fetch::download_component(setup, url, MAX_COMPONENT_SIZE).await?;
            let stem = fetch::file_name(url).file_stem();
            let stem = check_stem(stem.and_then(|stem| stem.to_str()))?;
            let source = SourceRecord::new(fetch::without_query(url), digest);
            Ok(FetchedComponent::new(bytes, stem).with_source(source))
        }
        AddSource::Folder(path) => folder::read_folder(path),
        AddSource::Registry(reference) => registry::fetch_from_registry(setup, reference).await,
        AddSource::Npm(package) => npm::fetch_package(setup, package).await,
    }
}

/// Names the policy file beside a local component file.
fn note_policy(source: &AddSource, installed: &InstalledComponent) {
    let AddSource::File(file) = source else {
        return;
    };
    let foreign = installed.tools.iter().find(|tool| grants::is_foreign(tool));
    if let (Some(policy), Some(tool)) = (policy_beside(file), foreign) {
        let policy = quote_for_shell(&policy.display().to_string());
        note(format_args!(
            "Beside it is a policy file of another host: `mimir tools trust {} --policy {policy}` shows and requests what it lists.",
            tool.name()
        ));
    }
}

/// Returns the names of the installed tools.
pub(super) fn tool_names(installed: &InstalledComponent) -> Vec<&str> {
    let tools = installed.tools.iter();
    tools.map(|tool| tool.name().as_str()).collect()
}

/// Prints the installed tools, and the commands that grant the rights that they request.
pub(super) fn print_installed(installed: &InstalledComponent, fetched: &FetchedComponent) {
    let names = tool_names(installed).join(", ");
    note(format_args!("{}: {names}", installed.file));
    installed.left_out.iter().for_each(quarantined);
    let tools = &installed.tools;
    // The grant of the same build still counts.
    let needs_grant =
        |tool: &&Arc<Tool>| !tool.definition.needs.is_empty() && tool.trust != ToolTrust::Trusted;
    if let Some(tool) = tools.iter().find(needs_grant) {
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
    let foreign = tools.iter().find(|tool| grants::is_foreign(tool));
    if let (Some(_), Some(tool)) = (&fetched.policy, foreign) {
        let policy = format!(".mimir/tools/{}.policy.yaml", fetched.file_stem);
        note(format_args!(
            "It came with a policy file of another host: `mimir tools trust {} --policy {}` shows and requests what it lists.",
            tool.name(),
            quote_for_shell(&policy)
        ));
    }
}

/// Reads a component file.
pub(super) fn read_component(path: &Path) -> Result<Vec<u8>, ToolError> {
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
