//! `mimir doctor`: checks everything that a call depends on. Like a call, it creates an engine and may compile
//! components into the cache; it changes nothing else.

use std::sync::Arc;

use crate::args::GlobalOptions;
use crate::exit::{CommandResult, ExitReason};
use crate::output::doctor::{all_good, print};
use mimir::settings::MergedSettings;
use mimir::setup::{self, HostSetup};
use mimir::workspace::WorkspaceFolder;

mod browsers;
mod building;
mod checks;

pub use checks::unknown_names;

/// Runs all checks.
pub async fn run(globals: &GlobalOptions) -> CommandResult {
    let printer = globals.printer();
    let workspace = setup::find_workspace(globals.workspace.as_deref())?;
    let user_dirs = setup::find_user_dirs();
    let separation = workspace.check_separation(&user_dirs);
    let mut findings = vec![
        checks::program(),
        checks::workspace(&workspace, separation.as_ref().err()),
    ];
    // Sandboxes cannot run in a folder with mimir's own files, so an empty folder shows what they can do elsewhere.
    let empty_folder = match &separation {
        Ok(()) => None,
        Err(_) => Some(tempfile::tempdir()?),
    };
    let workspace = match &empty_folder {
        Some(folder) => WorkspaceFolder::find(Some(folder.path()))?,
        None => workspace,
    };
    // An invalid config is a finding, and must not prevent the other checks.
    let settings = MergedSettings::read(&user_dirs, &workspace)
        .and_then(|settings| settings.policy().map(|_| settings));
    findings.push(checks::config(&settings, &user_dirs));
    if let Ok(settings) = &settings {
        findings.push(checks::team(settings, &user_dirs));
        findings.extend(checks::joined_teams(settings));
    }
    let setup = HostSetup::from_parts(user_dirs, workspace, settings.unwrap_or_default());
    let host = setup.host();
    let facts = host.facts();
    findings.push(checks::engine(&facts));
    findings.extend(checks::compiling());
    findings.push(checks::cache(&facts));
    findings.push(checks::approval_store(&setup));
    findings.extend(checks::call_switch(&setup.user_dirs));
    let toolbox = setup.toolbox(Arc::clone(&host)).with_retries();
    let mut loaded = toolbox.load().await;
    setup.scripts(host).add_tools_to(&mut loaded);
    setup.apply_grants(&mut loaded.tools);
    let registry = mimir_core::Registry::new(loaded.tools, loaded.quarantined);
    findings.push(checks::tools(&setup, &registry));
    findings.extend(registry.quarantined().iter().map(checks::quarantined));
    findings.extend(registry.replaced().iter().map(checks::replaced));
    findings.extend(checks::unknown_names(&setup.settings, &registry));
    findings.extend(checks::sandboxes(&setup));
    findings.extend(browsers::browsers(&setup).await);
    findings.push(checks::audit(&setup));
    findings.extend(building::building());
    print(printer, &findings)?;
    Ok(ExitReason::done_if(all_good(&findings)))
}
