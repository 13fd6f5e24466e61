//! `mimir man-pages`: manual pages of all commands, which packages install.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use mimir::file_error::file_error;

use crate::args::CliArgs;
use crate::exit::{CommandResult, ExitReason};

/// Writes one page per visible command into a folder, which is created if it is missing.
pub fn run(folder: &Path) -> CommandResult {
    fs::create_dir_all(folder).map_err(|error| file_error("create", folder, &error))?;
    let mut command = CliArgs::command();
    command.build();
    write_pages(&command, folder)?;
    Ok(ExitReason::Done)
}

fn write_pages(command: &Command, folder: &Path) -> CommandResult<()> {
    for subcommand in command.get_subcommands() {
        if !subcommand.is_hide_set() {
            write_pages(subcommand, folder)?;
        }
    }
    let page = Man::new(command.clone())
        .source(concat!("mimir ", env!("CARGO_PKG_VERSION")))
        .manual("mimir");
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    render_page(&page, command, &mut text)?;
    fs::write(&path, text).map_err(|error| file_error("write", &path, &error))?;
    Ok(())
}

fn render_page(page: &Man, command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        page.render_options_section(out)?;
    }
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        page.render_subcommands_section(out)?;
    }
    if let Some(notes) = command.get_after_help() {
        notes_section(&notes.to_string()).to_writer(out)?;
    }
    Ok(())
}

/// The text that follows the options in `--help`. Indented lines are examples, whose line breaks stay.
fn notes_section(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut in_example = false;
    for line in text.lines() {
        let is_example = line.starts_with(' ');
        if is_example != in_example {
            roff.control(if is_example { "nf" } else { "fi" }, []);
            in_example = is_example;
        }
        if is_example {
            roff.text([roman(line)]);
        } else if !line.is_empty() {
            roff.control("PP", []);
            roff.text([roman(line)]);
        }
    }
    if in_example {
        roff.control("fi", []);
    }
    roff
}
