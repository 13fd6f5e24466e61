//! The offer of an update: the differences are shown, and the new build is installed if the user agrees.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use mimir_core::grants::{self, SourceRecord};
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError};

use super::versions::compare_versions;
use super::{UpdateReport, UpdateStatus};
use crate::args::ToolsUpdateArgs;
use crate::commands::tools_add::{
    AddOptions, FetchedComponent, check_stem, install, print_installed,
};
use crate::commands::tools_build::load_alone;
use crate::exit::CommandResult;
use crate::output::{FAINT, STRONG, WARN, note, styled};
use crate::terminal;
use mimir::setup::HostSetup;

/// Returns the name of the file at a location without its extension, checked.
pub fn file_stem(location: &str) -> CommandResult<String> {
    let stem = Path::new(location).file_stem();
    check_stem(stem.and_then(|stem| stem.to_str()))
}

/// Shows the differences of a new build, and installs it if the user agrees. Fills the report.
pub async fn offer(
    setup: &HostSetup,
    fetched: &FetchedComponent,
    location: &str,
    old: &[Arc<Tool>],
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    let new = load_new_build(setup, fetched).await?;
    report.changes = grants::build_changes(old, &new);
    report.status = UpdateStatus::Available;
    show(report, fetched);
    if args.check || !is_confirmed(location, args)? {
        return Ok(());
    }
    let options = AddOptions {
        replaces: true,
        prefix: None,
    };
    let installed = install(setup, fetched, options).await?;
    report.status = UpdateStatus::Updated;
    print_installed(&installed, fetched);
    note_lost_grant(setup, location, &installed.tools);
    Ok(())
}

/// Compares the versions, and refuses an older one.
pub fn check_version(
    source: &SourceRecord,
    new: Option<String>,
    args: &ToolsUpdateArgs,
    report: &mut UpdateReport,
) -> CommandResult<()> {
    let Some(old) = &source.version else {
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
    let message = terminal::refusal("Nothing was updated", "use `--yes`");
    note(format_args!("{message}."));
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
