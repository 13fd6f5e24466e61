//! `mimir tools update`: replaces components by what their tags name now, after the user has seen the differences.

use std::cmp::Ordering;
use std::io;
use std::path::Path;
use std::sync::Arc;

use mimir_core::grants::{self, SourceRecord, SourceSigner};
use mimir_core::text::visible;
use mimir_core::{Registry, Tool, ToolError};
use mimir_registry::OciReference;
use serde::Serialize;

use crate::args::{GlobalOptions, ToolsUpdateArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, GOOD, STRONG, WARN, note, styled};
use crate::terminal;
use crate::tools::is_file;
use mimir::registries::{InspectedArtifact, Registries, source_signer};
use mimir::setup::HostSetup;

use super::tools_add::{
    AddOptions, FetchedComponent, fetch_artifact, install, is_component_of, print_installed,
    record_refusal,
};
use super::tools_build::load_alone;
use versions::compare_versions;

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
    /// An update is available, and was not installed.
    Available,
    Updated,
    /// The update was refused, or failed.
    Failed,
}

/// Checks the components that came from a tag of a registry, and updates them.
pub async fn run(globals: &GlobalOptions, args: &ToolsUpdateArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let installed = setup.registry().await.into_registry();
    let sources = tagged_sources(&setup, &installed, args.name.as_deref())?;
    let registries = Registries::from_setup(&setup)?;
    let mut reports = Vec::new();
    for (location, source, reference) in sources {
        let old = tools_of(&installed, &location);
        let mut report = UpdateReport {
            file: location.clone(),
            reference: reference.to_string(),
            from: source.manifest.clone(),
            from_version: source.version.clone(),
            ..UpdateReport::default()
        };
        let component = PinnedComponent {
            location: &location,
            source: &source,
            reference: &reference,
            tools: &old,
        };
        let updated = update(&setup, &registries, &component, args, &mut report).await;
        match updated {
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
        return writeln!(out, "No component came from a tag of a registry.");
    }
    for report in reports {
        let state = match report.status {
            UpdateStatus::UpToDate => styled(FAINT, "up to date"),
            UpdateStatus::Available => styled(STRONG, "update available"),
            UpdateStatus::Updated => styled(GOOD, "updated"),
            UpdateStatus::Failed => styled(WARN, "not updated"),
        };
        let (file, reference) = (visible(&report.file), visible(&report.reference));
        writeln!(out, "{file} ({reference}): {state}")?;
        if let Some(error) = &report.error {
            writeln!(out, "  {} [{}]", error.message, error.code)?;
            for remedy in &report.remedies {
                writeln!(out, "  {}", styled(FAINT, remedy))?;
            }
        }
    }
    Ok(())
}

/// An installed component with its lock entry.
struct PinnedComponent<'a> {
    location: &'a str,
    source: &'a SourceRecord,
    reference: &'a OciReference,
    tools: &'a [Arc<Tool>],
}

/// Updates one component, if its tag names another manifest. Fills the report.
async fn update(
    setup: &HostSetup,
    registries: &Registries,
    component: &PinnedComponent<'_>,
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    let PinnedComponent {
        location, source, ..
    } = *component;
    let digest = registries.resolve(component.reference).await?;
    if source.manifest.as_deref() == Some(digest.to_string().as_str()) {
        return Ok(());
    }
    let artifact = registries.inspect(component.reference).await?;
    // The tag names an index, which contains the pinned manifest.
    if source.manifest.as_deref() == Some(artifact.manifest.digest.to_string().as_str()) {
        return Ok(());
    }
    report.to = Some(artifact.manifest.digest.to_string());
    report.to_version = artifact.version();
    report.signer = artifact.signer.clone().map(source_signer);
    check_signer(source, &artifact, location)?;
    check_version(source, &artifact, args, report)?;
    let stem = Path::new(location)
        .file_stem()
        .and_then(|stem| stem.to_str());
    let stem = super::tools_add::check_stem(stem)?;
    let fetched = fetch_artifact(registries, &artifact, stem).await?;
    let new = load_new_build(setup, &fetched).await?;
    report.changes = grants::build_changes(component.tools, &new);
    report.status = UpdateStatus::Available;
    show(report, &fetched);
    if args.check || !is_confirmed(location, args)? {
        return Ok(());
    }
    let options = AddOptions {
        replaces: true,
        prefix: None,
    };
    let installed = install(setup, &fetched, options).await?;
    report.status = UpdateStatus::Updated;
    print_installed(&installed, &fetched);
    note_lost_grant(setup, location, &installed.tools);
    Ok(())
}

/// Fails if the signer of the new build is not the pinned one, and no trust rule of this machine accepts it.
fn check_signer(
    source: &SourceRecord,
    artifact: &InspectedArtifact,
    location: &str,
) -> CommandResult<()> {
    let (Some(pinned), None) = (&source.signer, &artifact.signer) else {
        // A signer that the trust policy has accepted.
        return Ok(());
    };
    let location = visible(location);
    let message = format!(
        "{location} was signed by {}, and the signer of the new build is not known ({})",
        visible(&pinned.to_string()),
        artifact.signer_text()
    );
    Err(ToolError::policy_denied(message)
        .with_remedies([
            format!(
                "add a `trust` rule with the key of the signer for {}/{} (mimir help signatures)",
                artifact.reference.registry(),
                artifact.reference.repository()
            ),
            format!(
                "to accept it without a signature: `mimir tools add {} --force`",
                artifact.reference
            ),
        ])
        .into())
}

/// Compares the versions, and refuses an older one.
fn check_version(
    source: &SourceRecord,
    artifact: &InspectedArtifact,
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    if let (Some(pinned), Some(signer)) = (&source.signer, &report.signer)
        && !pinned.is_same(signer)
    {
        let line =
            format!("the signer changes from {pinned} to {signer}; a `trust` rule accepts both");
        report.notes.push(visible(&line));
    }
    if source.signer.is_none()
        && let Some(signer) = &report.signer
    {
        report
            .notes
            .push(visible(&format!("it is now signed by {signer}")));
    }
    let (Some(old), new) = (&source.version, artifact.version()) else {
        return Ok(());
    };
    let Some(new) = new else {
        let line = format!(
            "the new build does not state a version; the installed one is {}",
            visible(old)
        );
        report.notes.push(line);
        return Ok(());
    };
    if *old == new {
        report.notes.push(format!(
            "the tag has moved: the version is still {}, but the content is another",
            visible(old)
        ));
        return Ok(());
    }
    if compare_versions(&new, old) != Some(Ordering::Less) {
        return Ok(());
    }
    let line = format!(
        "this is a downgrade from {} to {}",
        visible(old),
        visible(&new)
    );
    if args.allow_downgrade {
        report.notes.push(line);
        return Ok(());
    }
    let remedy = "`--allow-downgrade` accepts the older version".to_owned();
    let error =
        ToolError::policy_denied(format!("{} was not updated: {line}", visible(&report.file)));
    Err(error.with_remedies([remedy]).into())
}

/// Loads the new build without installing it.
async fn load_new_build(
    setup: &HostSetup,
    fetched: &FetchedComponent,
) -> CommandResult<Vec<Arc<Tool>>> {
    let name = format!("{}.wasm", fetched.file_stem);
    let loaded = load_alone(setup, Path::new(&name), &fetched.bytes).await?;
    if let (true, Some(left_out)) = (loaded.tools.is_empty(), loaded.quarantined.first()) {
        let message = format!("the new build is not valid: {}", left_out.reason);
        return Err(ToolError::new(left_out.code, message).into());
    }
    Ok(loaded.tools.into_iter().map(Arc::new).collect())
}

/// Shows an update on stderr, because a question may follow.
fn show(report: &UpdateReport, fetched: &FetchedComponent) {
    note(format_args!(
        "{} {}",
        styled(STRONG, "Update of"),
        visible(&report.file)
    ));
    fetched
        .notes
        .iter()
        .for_each(|line| note(styled(FAINT, line)));
    if let (Some(old), Some(new)) = (&report.from_version, &report.to_version)
        && old != new
    {
        note(format_args!("Version {} → {}", visible(old), visible(new)));
    }
    report
        .notes
        .iter()
        .for_each(|line| note(styled(WARN, line)));
    if report.changes.is_empty() {
        note("It requests the same rights, and its tools are the same.");
        return;
    }
    note("The new build");
    let changes = report.changes.iter();
    changes.for_each(|line| note(format_args!("  - {}", visible(line))));
}

/// Asks whether to update. Without a terminal, `--yes` is required.
fn is_confirmed(location: &str, args: &ToolsUpdateArgs) -> CommandResult<bool> {
    if args.yes || terminal::confirm(&format!("Update {}?", visible(location)))? {
        return Ok(true);
    }
    note("Nothing was updated; without a terminal, use `--yes`.");
    Ok(false)
}

/// Says that the grant of the previous build does not cover the new one.
fn note_lost_grant(setup: &HostSetup, location: &str, tools: &[Arc<Tool>]) {
    let lock = setup.approvals().and_then(|store| store.lock().read().ok());
    let is_granted = lock.is_some_and(|lock| lock.plugins.contains_key(location));
    if let (true, Some(tool)) = (is_granted, tools.first()) {
        note(format_args!(
            "Its grant was for the previous build: `mimir tools trust {}` shows the differences and grants the new one.",
            tool.name()
        ));
    }
}

/// Returns the installed tools of a file.
fn tools_of(installed: &Registry, location: &str) -> Vec<Arc<Tool>> {
    let tools = installed.tools().iter().chain(installed.displaced());
    let tools = tools.filter(|tool| tool.origin.location == location);
    tools.cloned().collect()
}

/// Returns the lock entries whose reference is a tag of a registry: those of `name`, or all.
fn tagged_sources(
    setup: &HostSetup,
    installed: &Registry,
    name: Option<&str>,
) -> CommandResult<Vec<(String, SourceRecord, OciReference)>> {
    let sources = setup.require_approvals()?.lock().read()?.sources;
    let tagged = |source: &SourceRecord| {
        source.manifest.as_ref()?;
        let reference: OciReference = source.reference.parse().ok()?;
        reference.digest().is_none().then_some(reference)
    };
    let Some(name) = name else {
        let all = sources.into_iter();
        let all = all.filter_map(|(location, source)| {
            let reference = tagged(&source)?;
            is_component_of(&location).then_some((location, source, reference))
        });
        return Ok(all.collect());
    };
    let is_named = |location: &str| {
        let of_tool = installed.get(name).map(|tool| &tool.origin.location);
        is_file(location, name) || of_tool.is_some_and(|of_tool| of_tool == location)
    };
    let found = sources.into_iter().find(|(location, _)| is_named(location));
    let Some((location, source)) = found else {
        let name = visible(name);
        let message =
            format!("`{name}` did not come from a registry: tools.lock has no source of it");
        return Err(ToolError::not_found(message).into());
    };
    if !is_component_of(&location) {
        return Err(CommandFailure::usage(format!(
            "{} is not a component in .mimir/tools",
            visible(&location)
        )));
    }
    let Some(reference) = tagged(&source) else {
        return Err(CommandFailure::usage(format!(
            "{} came from {}, which names exact content and has no updates; add another version with `mimir tools add REF --force`",
            visible(&location),
            visible(&source.reference)
        )));
    };
    Ok(vec![(location, source, reference)])
}
