//! `mimir tools update`: replaces components by what their tags, or the registry of npm, name now, after the user has seen
//! the differences.

use std::io;
use std::sync::Arc;

use mimir_core::grants::SourceSigner;
use mimir_core::text::visible;
use mimir_core::{Registry, Tool, ToolError, ToolErrorCode};
use serde::Serialize;

use crate::args::{GlobalOptions, ToolsUpdateArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::workspace_option::with_workspace;
use crate::output::{FAINT, GOOD, STRONG, WARN, styled};
use mimir::setup::HostSetup;

use super::tools_add::{record_refusal, refuse_unloadable};
use super::tools_verify::file_digest;
use sources::{PinnedComponent, UpdateSource, pinned_components};

mod npm_update;
mod offer;
mod registry_update;
mod sources;
mod versions;

/// Result of the check of one component.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateReport {
    file: String,
    reference: String,
    status: UpdateStatus,
    /// Digest of the pinned manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Digest of the manifest that the tag names now.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_version: Option<String>,
    /// Signer of the installed build, if it is another than that of the new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_signer: Option<SourceSigner>,
    /// Signer of the new build, or of the installed one if there is no update.
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<SourceSigner>,
    /// Notable facts, such as a tag that has moved although the version is the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Differences in imports, needs, tools and schemas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ToolError>,
    #[serde(skip)]
    remedies: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
enum UpdateStatus {
    #[default]
    UpToDate,
    /// The source names exact content, so it has no updates.
    Pinned,
    /// An update is available, and was not installed.
    Available,
    Updated,
    /// The update was refused, or failed.
    Failed,
}

/// Checks the components that came from a registry, a package or a URL, and updates them.
pub async fn run(globals: &GlobalOptions, args: &ToolsUpdateArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    // The signature of a component is checked when it is fetched.
    refuse_unloadable(&setup, true)?;
    let installed = setup.registry().await.into_registry();
    let components = pinned_components(&setup, &installed, args.name.as_deref())?;
    let mut reports = Vec::new();
    for component in components {
        let mut report = UpdateReport {
            file: component.location.clone(),
            reference: component.source.reference.clone(),
            from: component.source.manifest.clone(),
            from_version: component.source.version.clone(),
            signer: component.source.signer.clone(),
            ..UpdateReport::default()
        };
        let old = tools_of(&installed, &component.location);
        match update(&setup, &component, &old, args, &mut report).await {
            Ok(()) => {}
            Err(CommandFailure::Reported { error, .. }) => {
                record_refusal(&setup, &report.reference, &error);
                report.status = UpdateStatus::Failed;
                report.remedies = error.remedies.to_vec();
                report.error = Some(error);
            }
            Err(print @ CommandFailure::Print(_)) => return Err(print),
        }
        reports.push(report);
    }
    printer.print_result(&serde_json::json!({ "updates": reports }), |out| {
        print_reports(out, &reports)
    })?;
    Ok(exit_reason(&reports, args))
}

/// Updates one component, if there is an update. Fills the report.
async fn update(
    setup: &HostSetup,
    component: &PinnedComponent,
    old: &[Arc<Tool>],
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    if file_digest(setup, &component.location)?.is_none() {
        let message = format!(
            "the file is missing: tools.lock pins it, but {} does not exist",
            visible(&component.location)
        );
        let remedy = "`mimir tools vendor` fetches the pinned build again".to_owned();
        let error = ToolError::new(ToolErrorCode::FileNotFound, message);
        return Err(error.with_remedies([remedy]).into());
    }
    match &component.kind {
        UpdateSource::Registry(reference) => {
            registry_update::update(setup, component, reference, old, args, report).await
        }
        UpdateSource::Npm(request) => {
            npm_update::update(setup, component, request, old, args, report).await
        }
        UpdateSource::Exact(remedy) => {
            report.status = UpdateStatus::Pinned;
            report.remedies = vec![remedy.clone()];
            Ok(())
        }
    }
}

/// Returns the exit reason: a failure first, then a pending update.
fn exit_reason(reports: &[UpdateReport], args: &ToolsUpdateArgs) -> ExitReason {
    let failed = reports.iter().find_map(|report| report.error.as_ref());
    if let Some(error) = failed {
        return error.code.into();
    }
    let is_available = |report: &UpdateReport| report.status == UpdateStatus::Available;
    match (reports.iter().any(is_available), args.check) {
        (false, _) => ExitReason::Done,
        (true, true) => ExitReason::Failed,
        (true, false) => ExitReason::Refused,
    }
}

fn print_reports(out: &mut dyn io::Write, reports: &[UpdateReport]) -> io::Result<()> {
    if reports.is_empty() {
        return writeln!(
            out,
            "No component came from a registry, a package or a URL."
        );
    }
    for report in reports {
        let state = match report.status {
            UpdateStatus::UpToDate => styled(FAINT, "up to date"),
            UpdateStatus::Pinned => styled(FAINT, "pinned to this content"),
            UpdateStatus::Available => styled(STRONG, "update available"),
            UpdateStatus::Updated => styled(GOOD, "updated"),
            UpdateStatus::Failed => styled(WARN, "not updated"),
        };
        let (file, reference) = (visible(&report.file), visible(&report.reference));
        writeln!(out, "{file} ({reference}): {state}")?;
        let signer = report.signer.as_ref().map(ToString::to_string);
        match (&report.from_signer, signer) {
            (Some(old), Some(new)) => {
                let (old, new) = (visible(&old.to_string()), visible(&new));
                writeln!(out, "  signed by {new}, before by {old}")?;
            }
            (None, Some(signer)) => writeln!(out, "  signed by {}", visible(&signer))?,
            (_, None) => {}
        }
        if let Some(error) = &report.error {
            writeln!(out, "  {} [{}]", error.message, error.code)?;
        }
        for remedy in &report.remedies {
            writeln!(out, "  {}", styled(FAINT, with_workspace(remedy)))?;
        }
    }
    Ok(())
}

/// Returns the installed tools of a file.
fn tools_of(installed: &Registry, location: &str) -> Vec<Arc<Tool>> {
    let tools = installed.tools().iter().chain(installed.displaced());
    let tools = tools.filter(|tool| tool.origin.location == location);
    tools.cloned().collect()
}
