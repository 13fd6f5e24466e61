//! Printing: the result goes to stdout as text or JSON, everything else to stderr. What is printed
//! where is decided here; each kind of result has a file below.
//!
//! Never here: finding out what to print.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use mimir_core::ToolError;
use serde::Serialize;
use serde_json::json;

use crate::exit::Failure;

pub mod approvals;
pub mod aside;
pub mod audit;
pub mod definitions;
pub mod doctor;
pub mod grant;
pub mod info;
pub mod outcome;
pub mod tools;
pub mod undo;

/// Something that matters more than its surroundings.
pub const STRONG: Style = Style::new().bold();
/// Something that matters less.
pub const FAINT: Style = Style::new().dimmed();
/// Good.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Look here.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Bad.
pub const BAD: Style = AnsiColor::Red.on_default();

/// Puts text into a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Where results go, and in which form.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    json: bool,
}

impl Printer {
    /// A printer of JSON, or of text.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether it prints JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints a result: `value` as JSON, or what `text` writes.
    pub fn result<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.json {
            return self.value(value);
        }
        let stdout = io::stdout().lock();
        if stdout.is_terminal() {
            let mut out = io::BufWriter::new(anstream::AutoStream::auto(stdout));
            text(&mut out)?;
            out.flush()?;
            return Ok(());
        }
        // In one piece: stdout by itself writes line by line, and a thousand tools are a thousand lines.
        let choice = anstream::AutoStream::choice(&stdout);
        let mut out = anstream::AutoStream::new(Vec::new(), choice);
        text(&mut out)?;
        let mut stdout = stdout;
        stdout.write_all(&out.into_inner())?;
        stdout.flush()?;
        Ok(())
    }

    /// Prints a result that is JSON in any case.
    pub fn value<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// Prints why there is no result.
    pub fn failure(self, error: &ToolError) -> Result<(), Failure> {
        if self.json {
            let mut told = json!({ "ok": false, "error": error });
            if !error.way_out.is_empty() {
                told["wayOut"] = json!(error.way_out);
            }
            return self.value(&told);
        }
        outcome::error(error)
    }
}

/// A line on stderr, for the person. A stderr that is gone harms nothing.
pub fn note(line: impl std::fmt::Display) {
    // In one piece: a line is written whole, or not at all.
    let _ = aside::Aside.write_all(format!("{line}\n").as_bytes());
}

/// A warning on stderr.
pub fn warn(line: impl std::fmt::Display) {
    note(format_args!("{} {line}", styled(WARN, "warning:")));
}

/// How many columns the terminal behind stdout has; none if there is no terminal.
pub fn columns() -> Option<usize> {
    use std::io::IsTerminal;
    if !io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// The first line of a text, cut to `width` columns where there is a width.
pub fn first_line(text: &str, width: Option<usize>) -> String {
    let line = mimir_core::text::visible(text.trim().lines().next().unwrap_or_default());
    match width {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
        _ => line,
    }
}
