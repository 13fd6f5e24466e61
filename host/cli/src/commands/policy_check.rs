//! `mimir policy check`.

use std::sync::Arc;

use mimir_core::pipeline::World;
use serde_json::json;

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{GOOD, Printer, WARN, styled};
use mimir::live::{EVERY, Live, News};
use mimir::setup::Setup;

use super::call::interrupted;

/// Checks the rules: loading them runs their examples; then conditions that can never be true are listed.
pub async fn run(globals: &Globals, printer: Printer, watch: bool) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    if !watch {
        report(printer, &setup, &setup.world().await?)?;
        return Ok(Exit::Done);
    }
    let mut live = Live::new(setup).await?;
    report(printer, live.setup(), &live.world())?;
    let follow = live.follow(EVERY, |setup, news| match news {
        News::World { world, .. } => report(printer, setup, &world),
        News::Broken(error) => printer.failure(&error),
    });
    tokio::select! {
        ended = follow => ended.map(|()| Exit::Done),
        exit = interrupted() => Ok(exit),
    }
}

/// Prints the result of the check.
fn report(printer: Printer, setup: &Setup, world: &World) -> Result<(), Failure> {
    let tools: Vec<_> = world.registry.tools().iter().map(Arc::as_ref).collect();
    let idle = world.policy.idle(&tools);
    let withheld = setup.settings.withheld();
    let examples = world.policy.examples();
    let files: Vec<&str> = setup
        .settings
        .files
        .iter()
        .map(|file| file.shown.as_str())
        .collect();
    let report = json!({
        "ok": true, "files": files, "examples": examples, "warnings": idle, "withheld": withheld,
    });
    printer.result(&report, |out| {
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
