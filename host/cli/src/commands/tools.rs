//! `mimir tools`.

use std::io::{self, IsTerminal as _};

use crate::args::{GlobalOptions, ToolsCommand};
use crate::exit::{CommandFailure, ExitReason};
use crate::output::tools::CommandSyntax;
use crate::output::{ResultPrinter, warn};
use crate::tool_browser;
use crate::tools;
use mimir::setup::HostSetup;

use super::doctor::unknown_names;

/// Lists tools, or switches them.
pub async fn run(
    globals: &GlobalOptions,
    printer: ResultPrinter,
    wish: ToolsCommand,
) -> Result<ExitReason, CommandFailure> {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    if wish == ToolsCommand::Pick && !printer.is_json() && has_screen() {
        return tool_browser::run(globals, setup).await;
    }
    let world = setup.load_snapshot().await?;
    let lists = matches!(wish, ToolsCommand::Pick | ToolsCommand::List(_));
    let done = tools::run(&setup, &world, printer, CommandSyntax::Shell, wish);
    if lists {
        for unknown in unknown_names(&setup.settings, &world.registry) {
            let fix = unknown.fix.as_deref().unwrap_or_default();
            warn(format_args!("{}; {fix}", unknown.text));
        }
    }
    // The program ends here, and freeing a thousand tools one by one is slower than leaving it to the system.
    std::mem::forget(world);
    done
}

/// Returns true if stdin and stdout are a terminal that supports drawing.
fn has_screen() -> bool {
    let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    draws && io::stdin().is_terminal() && io::stdout().is_terminal()
}
