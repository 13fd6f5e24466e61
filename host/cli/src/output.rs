//! Printing: results go to stdout as text or JSON, all other output goes to stderr. Each kind of result has a
//! submodule.
//!
//! Out of scope: computing results.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use mimir_core::ToolError;
use mimir_core::text::wrapped;
use serde::Serialize;
use serde_json::json;

use crate::exit::{CommandResult, ExitReason};
use crate::log_output;
use workspace_option::{all_with_workspace, with_workspace};

pub mod approvals;
pub mod audit;
pub mod dates;
pub mod definitions;
pub mod doctor;
pub mod grant;
pub mod info;
pub mod outcome;
pub mod progress;
pub mod server_text;
pub mod setup;
pub mod setup_undo;
pub mod stderr_queue;
pub mod team;
pub mod tools;
pub mod undo;
pub mod workspace_option;

/// Style of important text.
pub const STRONG: Style = Style::new().bold();
/// Style of less important text.
pub const FAINT: Style = Style::new().dimmed();
/// Style of success.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of warnings.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Style of failure.
pub const BAD: Style = AnsiColor::Red.on_default();

/// Applies a style to a text.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Printer of results as text or JSON.
#[derive(Debug, Clone, Copy)]
pub struct ResultPrinter {
    json: bool,
}

impl ResultPrinter {
    /// Creates a printer of JSON if `json` is true, else of text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Returns true if it prints JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result: `value` as JSON, or the output of `text`.
    pub fn print_result<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> CommandResult<()> {
        if self.json {
            return self.print_json(value);
        }
        let stdout = io::stdout().lock();
        if stdout.is_terminal() {
            let mut out = io::BufWriter::new(anstream::AutoStream::auto(stdout));
            text(&mut out)?;
            out.flush()?;
            return Ok(());
        }
        // Collected first, because stdout flushes after each line, and a list may have a thousand lines.
        let choice = anstream::AutoStream::choice(&stdout);
        let mut out = anstream::AutoStream::new(Vec::new(), choice);
        text(&mut out)?;
        let mut stdout = stdout;
        stdout.write_all(&out.into_inner())?;
        stdout.flush()?;
        Ok(())
    }

    /// Prints a value as JSON, even without `--json`.
    pub fn print_json<T: Serialize>(self, value: &T) -> CommandResult<()> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// Reports a completed action: `value` as JSON on stdout, or `line` on stderr.
    pub fn print_done<T: Serialize>(
        self,
        value: &T,
        line: impl std::fmt::Display,
    ) -> CommandResult {
        if self.json {
            self.print_json(value)?;
        } else {
            note(line);
        }
        Ok(ExitReason::Done)
    }

    /// Prints the error of a failed command: as JSON on stdout, or as text on stderr.
    pub fn print_failure(self, error: &ToolError) -> CommandResult<()> {
        if self.json {
            let mut response = json!({ "ok": false, "error": error });
            if !error.remedies.is_empty() {
                response["wayOut"] = json!(all_with_workspace(&error.remedies));
            }
            return self.print_json(&response);
        }
        outcome::error(error)
    }
}

/// Prints a line on stderr. Write errors are ignored.
pub fn note(line: impl std::fmt::Display) {
    if log_output::is_json() {
        return log_output::write_message(tracing::Level::INFO, &line.to_string());
    }
    let line = format!("{line}\n");
    // A single write, so that lines of several threads do not mix.
    let _ = stderr_queue::StderrQueue.write_all(with_workspace(&line).as_bytes());
}

/// Prints a warning on stderr.
pub fn warn(line: impl std::fmt::Display) {
    if log_output::is_json() {
        return log_output::write_message(tracing::Level::WARN, &line.to_string());
    }
    labelled_note(WARN, "warning:", line);
}

/// Prints a message on stderr after a label in this style, wrapped between words on a terminal.
pub fn labelled_note(style: Style, label: &str, message: impl std::fmt::Display) {
    let message = format!("{label} {message}");
    // Before it is wrapped, which could split a command.
    let text = wrapped_note(&with_workspace(&message));
    let text = text.strip_prefix(label).unwrap_or(&text);
    note(format_args!("{}{text}", styled(style, label)));
}

/// Interface that shows messages and progress of the library on stderr.
pub struct TerminalInterface;

impl mimir::interface::Interface for TerminalInterface {
    fn note(&self, line: &str) {
        note(line);
    }

    fn warn(&self, line: &str) {
        warn(line);
    }

    fn compile_handler(&self) -> Option<mimir::interface::CompileHandler> {
        crate::terminal::show_compiling()
    }

    /// Returns a compiler that runs this program as a child process.
    fn compiler(&self) -> std::sync::Arc<dyn mimir_wasm::ComponentCompiler> {
        // Stops the allocator from committing memory in advance, which would count against the memory limit.
        let child = mimir_wasm::ChildCompiler::this_program();
        std::sync::Arc::new(child.variable("MIMALLOC_ARENA_EAGER_COMMIT", "0"))
    }

    fn progress(&self, description: &str) -> Box<dyn mimir::interface::Progress> {
        Box::new(crate::terminal::StepProgress::begin(description))
    }
}

/// Returns the width of stdout in columns; `None` if stdout is not a terminal.
pub fn columns() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Wraps a line between words at the width of the terminal, and indents continuation lines by `indent` columns. Without
/// a terminal, the line is not wrapped.
pub fn indented(line: &str, indent: usize) -> String {
    match columns() {
        Some(columns) => indented_to(line, indent, columns),
        None => line.to_owned(),
    }
}

/// Wraps a line between words, so that no part has more than `columns` columns with its indentation.
pub fn indented_to(line: &str, indent: usize, columns: usize) -> String {
    let parts = wrapped(line, columns.saturating_sub(indent).max(20));
    let parts: Vec<&str> = parts.iter().map(|part| part.trim_end()).collect();
    parts.join(&format!("\n{:indent$}", ""))
}

/// Wraps lines between words at the width of the terminal of stderr. Without one, they are not wrapped.
pub fn wrapped_note(text: &str) -> String {
    let size = if io::stderr().is_terminal() {
        terminal_size::terminal_size_of(io::stderr())
    } else {
        None
    };
    let Some((width, _)) = size else {
        return text.to_owned();
    };
    let lines = text.split('\n');
    let lines: Vec<_> = lines
        .map(|line| indented_to(line, 0, usize::from(width.0)))
        .collect();
    lines.join("\n")
}

/// Replaces the path of the user's home folder by `~`, as the environment names it and with all links resolved.
pub fn shorten_home(text: &str) -> String {
    let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE"));
    let home = home.unwrap_or_default();
    let shorten = |text: &str, home: &str| {
        shorten_folder(text, home.trim_end_matches(std::path::is_separator))
    };
    let short = shorten(text, &home);
    match std::fs::canonicalize(&home).map(|real| real.display().to_string()) {
        Ok(real) if real != home => shorten(&short, &real),
        _ => short,
    }
}

/// Replaces the path of a folder by `~` where it ends or a separator follows. A full stop may end a sentence.
fn shorten_folder(text: &str, folder: &str) -> String {
    if folder.len() < 2 {
        return text.to_owned();
    }
    let mut parts = text.split(folder);
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = match part.strip_prefix('.') {
            Some(rest) if rest.is_empty() || rest.starts_with(ends_sentence) => rest,
            _ => part,
        };
        let is_whole = !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c))
            && !short.ends_with(|c: char| c.is_alphanumeric() || "-_./~".contains(c));
        short.push_str(if is_whole { "~" } else { folder });
        short.push_str(part);
    }
    short
}

/// Returns true for a character after the full stop of a sentence.
fn ends_sentence(c: char) -> bool {
    c.is_whitespace() || ")\"'`".contains(c)
}

/// Returns the first line of a text, cut to `width` characters if a width is given.
pub fn first_line(text: &str, width: Option<usize>) -> String {
    let line = mimir_core::text::visible(text.trim().lines().next().unwrap_or_default());
    match width {
        Some(width) if line.chars().count() > width => {
            let shortened: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{}…", shortened.trim_end())
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten_folder;

    #[test]
    fn home_folder_is_shortened_only_as_a_whole() {
        for (text, expected) in [
            ("/home/a/x and /home/a", "~/x and ~"),
            ("(/home/a/.config)", "(~/.config)"),
            (
                "/home/ab /home/a.b /srv/home/a",
                "/home/ab /home/a.b /srv/home/a",
            ),
            ("in /home/a. (Or /home/a.)", "in ~. (Or ~.)"),
            ("/home/a./x /home/a..", "/home/a./x /home/a.."),
            ("no path", "no path"),
        ] {
            assert_eq!(shorten_folder(text, "/home/a"), expected);
        }
        assert_eq!(shorten_folder("/x/y", "/"), "/x/y");
        assert_eq!(shorten_folder("/x/y", ""), "/x/y");
    }
}
