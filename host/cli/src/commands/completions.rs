//! `mimir completions`, and the help.

use std::io;

use clap::CommandFactory;

use crate::args::{CliArgs, GlobalOptions};
use crate::exit::{CommandResult, ExitReason};
use crate::output::{STRONG, indented, styled};
use mimir::setup;

/// Commands for a folder without a workspace, with their purposes.
const FIRST_COMMANDS: [(&str, &str); 3] = [
    (
        "mimir setup",
        "add mimir to your agents, make a first tool and call it",
    ),
    (
        "mimir call list_directory path=.",
        "call a built-in tool in this folder",
    ),
    ("mimir help", "list the topics of the manual"),
];

/// Prints a completion script.
pub fn run(shell: clap_complete::Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "mimir", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(ExitReason::Done)
}

/// Prints the help; in a folder without a workspace, the commands that lead to a first success.
pub fn help(globals: &GlobalOptions) -> CommandResult {
    let workspace = setup::find_workspace(globals.workspace.as_deref());
    if workspace.is_ok_and(|workspace| workspace.has_mimir_dir()) {
        CliArgs::command().print_help()?;
        return Ok(ExitReason::Done);
    }
    globals.printer().print_result(&(), |out| {
        writeln!(
            out,
            "mimir runs tools for AI agents as sandboxed WebAssembly components.\n\n\
             Three commands to begin with:\n"
        )?;
        for (command, purpose) in FIRST_COMMANDS {
            let command = styled(STRONG, format_args!("{command:<32}"));
            writeln!(out, "  {command}  {}", indented(purpose, 36))?;
        }
        writeln!(out, "\n`mimir --help` lists all commands.")
    })?;
    Ok(ExitReason::Done)
}
