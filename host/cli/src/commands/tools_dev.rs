//! `mimir tools dev`: builds, installs and tests a plugin after each change of its sources.

use super::call::wait_for_interrupt;
use super::tools_build::{self, BuildContext, PluginFolder};
use super::tools_test::TestSelection;
use crate::args::{GlobalOptions, ToolsDevArgs};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{GOOD, STRONG, note, styled};
use mimir::setup::HostSetup;

/// Builds, installs and tests the plugin until Ctrl-C.
pub async fn run(globals: &GlobalOptions, args: &ToolsDevArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let cx = BuildContext::new(&setup, printer, args.network)?;
    let watched = PluginFolder::find(&args.dir, args.lang)?.watched;
    let cycle = async || {
        // The name of the plugin may have changed, too.
        let folder = PluginFolder::find(&args.dir, args.lang)?;
        let selection = TestSelection::read(&folder, &[], args.network)?;
        let component = tools_build::build(&cx, &folder).await?;
        let installed = tools_build::install(&setup, &component).await?;
        note(format_args!(
            "{} {}",
            styled(GOOD, "built"),
            installed.summary()
        ));
        let report = selection.run(&cx, &folder, &component, printer).await?;
        report.print_summary(printer)?;
        if let Some(example) = installed.example().filter(|_| report.is_passed()) {
            note(format_args!("Try:  {}", styled(STRONG, example)));
        }
        Ok(())
    };
    tokio::select! {
        ended = tools_build::repeat_on_change(&watched, printer, cycle) => ended,
        // The usual end.
        _ = wait_for_interrupt() => Ok(ExitReason::Done),
    }
}
