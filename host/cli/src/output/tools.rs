//! Prints the results of `mimir tools` and `/tools`, in the format of the seed implementations.

use std::io::{self, Write};

use mimir_core::text::visible;
use mimir_core::{Quarantined, ToolError};

use crate::exit::CommandResult;
use crate::tools::{SwitchReport, ToolList, ToolMatch, ToolRow};

use super::{BAD, FAINT, GOOD, ResultPrinter, STRONG, WARN, columns, first_line, note, styled};

mod tokens;

pub use tokens::{advice, spending};

/// Syntax of commands in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSyntax {
    /// Commands of a shell: `mimir tools`.
    Shell,
    /// Commands of a chat: `/tools`.
    Chat,
}

impl CommandSyntax {
    /// Returns the command that a subcommand follows.
    pub const fn command(self) -> &'static str {
        match self {
            CommandSyntax::Shell => "mimir tools",
            CommandSyntax::Chat => "/tools",
        }
    }
}

/// Column widths, as in the seed implementations.
const NAME_WIDTH: usize = 24;
const SOURCE_WIDTH: usize = 12;

/// Minimum width of a description in columns, even on a narrower terminal.
const MIN_DESCRIPTION_WIDTH: usize = 30;

/// Prints the list of tools to stdout, and the files that were left out to stderr.
pub fn list(
    printer: ResultPrinter,
    syntax: CommandSyntax,
    list: &ToolList<'_>,
) -> CommandResult<()> {
    printer.print_result(list, |out| print_list(out, syntax, list))?;
    if !printer.is_json() {
        for left_out in list.quarantined {
            quarantined(left_out);
        }
        for tool in list.replaced {
            note_left_out("replaced:", tool);
        }
    }
    Ok(())
}

fn print_list(out: &mut dyn Write, syntax: CommandSyntax, list: &ToolList<'_>) -> io::Result<()> {
    writeln!(out, "Available Tools:\n")?;
    let mut unlisted = Vec::new();
    let mut only_searched = 0;
    let marks = SwitchMarks::new();
    let width = description_width();
    for row in &list.tools {
        if row.enabled && row.only_searched {
            only_searched += 1;
            continue;
        }
        if row.enabled && !row.listed {
            unlisted.push(row.name.as_str());
            continue;
        }
        // One write per line, because each write is scanned for colours.
        out.write_all(line(row, &marks, width).as_bytes())?;
    }
    if list.tools.is_empty() {
        writeln!(out, "  (none)")?;
    }
    if let Some(total) = list.total_tokens {
        writeln!(out, "\nTotal system prompt cost: ~{total} tokens")?;
    }
    if !unlisted.is_empty() {
        let line = format!(
            "Callable, but not shown to models under this profile: {}",
            unlisted.join(", ")
        );
        writeln!(out, "\n{}", styled(FAINT, line))?;
    }
    if only_searched > 0 {
        let line = format!(
            "Found by models through tool search: {only_searched} browser tools (`mimir help browser`)"
        );
        writeln!(out, "\n{}", styled(FAINT, line))?;
    }
    usage(out, syntax)
}

fn line(row: &ToolRow<'_>, marks: &SwitchMarks, width: Option<usize>) -> String {
    let mark = marks.for_state(row.enabled);
    let (name, badge) = (row.name.as_str(), row.source.badge());
    let tail = match row.cost {
        Some(cost) => format!("~{} tokens", cost.tokens),
        None => first_line(row.description, width),
    };
    format!("{mark} {name:<NAME_WIDTH$} {badge:<SOURCE_WIDTH$} {tail}\n")
}

fn usage(out: &mut dyn Write, syntax: CommandSyntax) -> io::Result<()> {
    let command = syntax.command();
    writeln!(out, "\nUsage:")?;
    for (rest, about) in [
        ("enable <name> ", "Enable a tool"),
        ("disable <name>", "Disable a tool"),
        ("info <name>   ", "Show tool details"),
        ("tokens        ", "Show token breakdown"),
    ] {
        writeln!(out, "  {command} {rest}  - {about}")?;
    }
    Ok(())
}

/// Coloured marks for on and off, created once.
struct SwitchMarks {
    on: String,
    off: String,
}

impl SwitchMarks {
    fn new() -> Self {
        Self {
            on: styled(GOOD, "✓"),
            off: styled(BAD, "✗"),
        }
    }

    fn for_state(&self, on: bool) -> &str {
        if on { &self.on } else { &self.off }
    }
}

fn description_width() -> Option<usize> {
    columns().map(|columns| {
        columns
            .saturating_sub(NAME_WIDTH + SOURCE_WIDTH + 4)
            .max(MIN_DESCRIPTION_WIDTH)
    })
}

/// Prints the result of switching a tool.
pub fn print_switched(printer: ResultPrinter, switched: &SwitchReport) -> CommandResult<()> {
    let marks = SwitchMarks::new();
    let name = &switched.name;
    let mark = marks.for_state(switched.enabled);
    let state = if switched.enabled {
        "enabled"
    } else {
        "disabled"
    };
    let sign = if switched.enabled { "+" } else { "-" };
    let tokens = switched.tokens.unsigned_abs();
    printer.print_result(switched, |out| match (switched.changed, switched.enabled) {
        (_, false) if switched.refused.is_some() => {
            writeln!(out, "{mark} Still refused: {name} (+0 tokens)")
        }
        (false, _) => writeln!(out, "Tool already {state}: {name}"),
        (true, true) => writeln!(out, "{mark} Enabled tool: {name} ({sign}{tokens} tokens)"),
        (true, false) => writeln!(out, "{mark} Disabled tool: {name} ({sign}{tokens} tokens)"),
    })
}

/// Prints why a tool cannot be switched.
pub fn print_switch_refusal(error: &ToolError) {
    let mark = SwitchMarks::new().off;
    super::note(format_args!("{mark} {}", visible(&error.message)));
    super::outcome::print_remedies(error);
}

/// Prints search results.
pub fn print_matches(
    printer: ResultPrinter,
    query: &str,
    matches: &[ToolMatch<'_>],
) -> CommandResult<()> {
    let result = serde_json::json!({ "tools": matches });
    printer.print_result(&result, |out| print_match_lines(out, query, matches))
}

/// Writes search results.
pub fn print_match_lines(
    out: &mut dyn Write,
    query: &str,
    matches: &[ToolMatch<'_>],
) -> io::Result<()> {
    if matches.is_empty() {
        let query = mimir_core::text::visible(query);
        return writeln!(out, "No tool matches: {query}");
    }
    let marks = SwitchMarks::new();
    for tool in matches {
        let mark = marks.for_state(tool.enabled);
        let (name, badge) = (tool.name.as_str(), tool.source.badge());
        let about = first_line(tool.description, description_width());
        writeln!(
            out,
            "{mark} {name:<NAME_WIDTH$} {badge:<SOURCE_WIDTH$} {about}"
        )?;
    }
    Ok(())
}

/// Prints a file that was left out, and the reason, to stderr.
pub fn quarantined(left_out: &Quarantined) {
    note_left_out("left out:", left_out);
}

fn note_left_out(label: &str, left_out: &Quarantined) {
    let location = mimir_core::text::visible(&left_out.location);
    let reason = mimir_core::text::visible(&left_out.reason);
    note(format_args!(
        "{} {} [{}]\n  {reason}",
        styled(WARN, label),
        styled(STRONG, location),
        left_out.code
    ));
}
