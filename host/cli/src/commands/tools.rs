//! `mimir tools`

use std::io::{self, IsTerminal as _};

use crate::args::{Globals, ToolsWish};
use crate::exit::{Exit, Failure};
use crate::output::tools::Face;
use crate::output::{Printer, warn};
use crate::picker;
use crate::setup::Setup;
use crate::tools;

use super::doctor::unknown_names;

/// Looks at tools, or switches them.
pub async fn run(globals: &Globals, printer: Printer, wish: ToolsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
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
    // The program ends here. The system takes back a thousand tools at once; one by one takes longer.
    std::mem::forget(world);
    done
}

/// Whether there is a terminal on both ends that can be drawn on.
fn has_screen() -> bool {
    let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    draws && io::stdin().is_terminal() && io::stdout().is_terminal()
}
