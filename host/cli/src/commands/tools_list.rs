//! `mimir tools list`

use crate::args::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{Printer, tools};
use crate::setup::Setup;

/// Lists the tools.
pub async fn run(globals: &Globals, printer: Printer) -> Result<Exit, Failure> {
    let world = Setup::find(globals)?.world().await?;
    tools::print(printer, &world.registry, &world.policy)?;
    // The program ends here. The system takes back a thousand tools at once; one by one takes longer.
    std::mem::forget(world);
    Ok(Exit::Done)
}
