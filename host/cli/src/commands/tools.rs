//! `mimir tools`.

use std::io::{self, IsTerminal as _};

use crate::args::{Globals, ToolsWish};
use crate::exit::{Exit, Failure};
use crate::output::tools::Face;
use crate::output::{Printer, warn};
use crate::picker;
use crate::tools;
use mimir::setup::Setup;

use super::doctor::unknown_names;

/// Lists tools, or switches them.
pub async fn run(globals: &Globals, printer: Printer, wish: ToolsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    if wish == ToolsWish::Pick && !printer.is_json() && has_screen() {
        return picker::run(globals, setup).await;
    }
    let world = setup.world().await?;
    let lists = matches!(wish, ToolsWish::Pick | ToolsWish::List(_));
    let done = tools::run(&setup, &world, printer, Face::Shell, wish);
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
