//! An example of an approval: a real call that asks, or an explanation where no person can be asked.

use std::sync::Arc;

use mimir_core::files::write_new;
use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card};
use serde_json::{Value, json};

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
or deletes a file, runs a command that does more than read, or reaches a new
host needs one: your agent shows you the exact call, and you answer. Try
`mimir call exec 'command=touch example.txt'`.
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
    let asking = Arc::new(ExampleApprover(approver(
        ApproveMode::Ask,
        StartedCommand::Call,
    )));
    let outcome = run_tool(setup, "delete_file", json!({ "path": FILE }), asking).await;
    if path.symlink_metadata().is_ok() {
        std::fs::remove_file(&path).map_err(|error| file_error("remove", &path, &error))?;
    }
    let Ok(outcome) = outcome else {
        note("\nSkipped the example; mimir is set up.");
        return Ok(());
    };
    match outcome.result() {
        Ok(_) => note(format_args!(
            "\nDeleted {FILE}. `mimir undo` brings a deleted file back, and\n\
             `mimir audit tail` shows the record of the call."
        )),
        Err(error) => note(format_args!(
            "\nThe call was refused. The agent reads: {} [{}]",
            error.message,
            error.code.as_str()
        )),
    }
    Ok(())
}

/// Asks the person about the example. A yes to another file counts as a no: the example must not delete a file of the
/// person.
struct ExampleApprover(Arc<dyn Approver>);

impl Approver for ExampleApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.0.ask(card).await {
                ApprovalAnswer::Edit(arguments) if !is_example(&arguments) => {
                    note(format_args!("this example deletes only {FILE}"));
                    ApprovalAnswer::No
                }
                answer => answer,
            }
        })
    }
}

/// Returns true if a call with these arguments deletes the file of the example.
fn is_example(arguments: &Value) -> bool {
    arguments["path"] == FILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_deletes_only_its_own_file() {
        assert!(is_example(&json!({"path": FILE, "backup": false})));
        for other in [json!({"path": "notes.txt"}), json!({}), json!("x")] {
            assert!(!is_example(&other), "{other}");
        }
    }
}
