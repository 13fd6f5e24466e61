//! `mimir completions`, and the help.

use std::io;

use clap::CommandFactory;

use crate::args::CliArgs;
use crate::exit::{CommandResult, ExitReason};

/// Prints a completion script.
pub fn run(shell: clap_complete::Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "mimir", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(ExitReason::Done)
}

/// Prints the help of the program.
pub fn help() -> CommandResult {
    CliArgs::command().print_help()?;
    Ok(ExitReason::Done)
}
