//! An example of an approval: a real call that asks, or an explanation where no person can be asked.

use mimir_core::files::write_new;
use serde_json::json;

use super::first_tool::run_tool;
use crate::args::ApproveMode;
use crate::exit::CommandResult;
use crate::output::{ResultPrinter, note};
use crate::terminal::{StartedCommand, approver};
use mimir::file_error::file_error;
use mimir::setup::HostSetup;

/// The file that the example deletes.
const FILE: &str = "mimir-example.txt";

/// The explanation where no person can be asked.
const EXPLANATION: &str = "
This tool only computes, so the call needed no approval. A call that overwrites
or deletes a file, runs a command or reaches a new host needs one: your agent
shows you the exact call, and you answer. Try `mimir call delete_file path=FILE`.
";

/// Shows an approval. With `asks`, the person answers the card of a real call.
pub async fn show(printer: ResultPrinter, setup: &HostSetup, asks: bool) -> CommandResult<()> {
    let path = setup.workspace.root().join(FILE);
    // A file with that name that exists already is the person's.
    let is_new = asks
        && write_new(&path, "An example of `mimir setup`.\n")
            .map_err(|error| file_error("write", &path, &error))?;
    if !is_new {
        printer.print_result(&(), |out| out.write_all(EXPLANATION.as_bytes()))?;
        return Ok(());
    }
    note(format_args!(
        "\nThis tool only computes, so the call needed no approval. Deleting a file needs\n\
         one. This is the question when an agent wants to delete {FILE},\n\
         which setup has just made:"
    ));
    let asking = approver(ApproveMode::Ask, StartedCommand::Call);
    let outcome = run_tool(setup, "delete_file", json!({ "path": FILE }), asking).await;
    if path.symlink_metadata().is_ok() {
        std::fs::remove_file(&path).map_err(|error| file_error("remove", &path, &error))?;
    }
    match outcome?.result() {
        Ok(_) => note("\nThe file was deleted. `mimir audit tail` shows the record of the call."),
        Err(error) => note(format_args!(
            "\nThe call was refused. The agent reads: {} [{}]",
            error.message,
            error.code.as_str()
        )),
    }
    Ok(())
}
