//! `mimir top`.

use mimir_core::ToolError;

use super::tools::has_screen;
use crate::args::GlobalOptions;
use crate::call_screen;
use crate::exit::CommandResult;

/// Shows the running calls and the open questions until the person quits.
pub async fn run(globals: &GlobalOptions) -> CommandResult {
    if globals.json || !has_screen() {
        let message = "`mimir top` needs a terminal that can move the cursor";
        let remedies = [
            "`mimir console` shows the same in a browser".to_owned(),
            "`mimir approvals pending` lists the open questions".to_owned(),
        ];
        return Err(ToolError::invalid_input(message)
            .with_remedies(remedies)
            .into());
    }
    call_screen::run(globals).await
}
