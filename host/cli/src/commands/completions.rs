//! `mimir completions`, and the help.

use std::io;

use clap::CommandFactory;

use crate::args::Raw;
use crate::exit::{Exit, Failure};

/// Prints a completion script.
pub fn run(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Raw::command(), "mimir", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(Exit::Done)
}

/// Prints the help.
pub fn help() -> Result<Exit, Failure> {
    Raw::command().print_help()?;
    Ok(Exit::Done)
}
