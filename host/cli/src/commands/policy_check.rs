//! `mimir policy check`.

use std::sync::Arc;

use mimir_core::pipeline::PipelineSnapshot;
use serde_json::json;

use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::{GOOD, ResultPrinter, WARN, styled};
use mimir::live_setup::{CHECK_INTERVAL, LiveSetup, SetupUpdate};
use mimir::setup::HostSetup;

use super::call::wait_for_interrupt;

/// Checks the rules. Loading them runs their examples; the report then lists conditions that can never be true.
pub async fn run(globals: &GlobalOptions, watch: bool) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    if !watch {
        report(printer, &setup, &setup.load_snapshot().await?)?;
        return Ok(ExitReason::Done);
    }
    let mut live = LiveSetup::new(setup).await?;
    report(printer, live.setup(), &live.snapshot())?;
    let follow = live.follow(CHECK_INTERVAL, |setup, update| match update {
        SetupUpdate::Snapshot { snapshot, .. } => report(printer, setup, &snapshot),
        SetupUpdate::Broken(error) | SetupUpdate::Halted(error) => printer.print_failure(&error),
    });
    tokio::select! {
        ended = follow => ended.map(|()| ExitReason::Done),
        exit = wait_for_interrupt() => Ok(exit),
    }
}

/// Prints the result of the check.
fn report(
    printer: ResultPrinter,
    setup: &HostSetup,
    snapshot: &PipelineSnapshot,
) -> CommandResult<()> {
    let tools: Vec<_> = snapshot.registry.tools().iter().map(Arc::as_ref).collect();
    let mut idle = snapshot.policy.unused_rules(&tools);
    idle.extend(setup.settings.overridden_by_teams());
    let withheld = setup.settings.withheld();
    let examples = snapshot.policy.examples();
    let files: Vec<&str> = setup
        .settings
        .files
        .iter()
        .map(|file| file.shown.as_str())
        .collect();
    let report = json!({
        "ok": true, "files": files, "examples": examples, "warnings": idle, "withheld": withheld,
    });
    printer.print_result(&report, |out| {
        let count = files.len();
        writeln!(
            out,
            "{} {count} file{}, {examples} example{} hold",
            styled(GOOD, "ok"),
            if count == 1 { "" } else { "s" },
            if examples == 1 { "" } else { "s" },
        )?;
        for line in &idle {
            let line = mimir_core::text::visible(line);
            writeln!(out, "{} {line}", styled(WARN, "warning:"))?;
        }
        for key in withheld {
            writeln!(
                out,
                "{} {key} does not apply until `mimir policy accept`",
                styled(WARN, "withheld:")
            )?;
        }
        Ok(())
    })
}
