//! `mimir tools dev`: builds, installs and tests a plugin after each change of its sources.

use super::tools_build::{self, BuildContext, PluginFolder};
use super::tools_test::TestSelection;
use crate::args::{GlobalOptions, ToolsDevArgs};
use crate::exit::CommandResult;
use crate::output::{STRONG, note, styled};
use mimir::setup::HostSetup;

/// Builds, installs and tests the plugin until Ctrl-C.
pub async fn run(globals: &GlobalOptions, args: &ToolsDevArgs) -> CommandResult {
    let printer = globals.printer();
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let cx = BuildContext::new(&setup, printer, args.network)?;
    let cycle = async |folder: PluginFolder| {
        let selection = TestSelection::read(&folder, &[], args.network)?;
        let component = tools_build::build(&cx, &folder).await?;
        let installed = tools_build::install(&setup, &folder, &component).await?;
        installed.note_built();
        let report = selection.run(&cx, &folder, &component, printer).await?;
        report.print_summary(printer)?;
        if let Some(example) = installed.example().filter(|_| report.is_passed()) {
            note(format_args!("Try:  {}", styled(STRONG, example)));
        }
        Ok(())
    };
    tools_build::repeat_until_interrupt(&args.plugin, printer, cycle).await
}
