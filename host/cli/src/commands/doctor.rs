//! `mimir doctor`: checks everything that a call depends on. It changes nothing, except that it creates an engine, as
//! a call would.

use std::sync::Arc;

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::Printer;
use crate::output::doctor::{is_well, print};
use mimir::settings::Settings;
use mimir::setup::{self, Setup};

mod checks;

pub use checks::unknown_names;

/// Runs all checks.
pub async fn run(globals: &Globals, printer: Printer) -> Result<Exit, Failure> {
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let places = setup::places();
    let mut findings = vec![checks::program(), checks::workspace(&workspace)];
    // A broken config is a finding here, and must not hide the others.
    let settings = Settings::read(&places, &workspace)
        .and_then(|settings| settings.policy().map(|_| settings));
    findings.push(checks::config(&settings, &places));
    if let Ok(settings) = &settings {
        findings.push(checks::team(settings, &places));
    }
    let setup = Setup::of(places, workspace, settings.unwrap_or_default());
    let host = setup.host();
    let facts = host.facts();
    findings.push(checks::engine(&facts));
    findings.push(checks::cache(&facts));
    findings.push(checks::ledger(&setup));
    let toolbox = setup.toolbox(Arc::clone(&host)).asking_again();
    let mut loaded = toolbox.load().await;
    setup.scripts(host).join(&mut loaded);
    setup.grant(&mut loaded.tools);
    let registry = mimir_core::Registry::new(loaded.tools, loaded.quarantined);
    findings.push(checks::tools(&setup, &registry));
    findings.extend(registry.quarantined().iter().map(checks::quarantined));
    findings.extend(checks::unknown_names(&setup.settings, &registry));
    findings.extend(checks::sandboxes(&setup));
    findings.push(checks::audit(&setup));
    findings.push(checks::building(setup.workspace.root()));
    print(printer, &findings)?;
    Ok(if is_well(&findings) {
        Exit::Done
    } else {
        Exit::Failed
    })
}
