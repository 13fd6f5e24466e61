//! Interaction with the person at the terminal: approval questions and the progress of running calls. All output goes
//! to stderr.

mod approval_card;
mod approver;
mod argument_editor;
pub mod browser;
mod call_watcher;
mod compile_progress;
mod line_printer;
pub mod list_screen;
mod prompt_wait;
mod step_progress;

pub use approval_card::render_card;
pub use approver::{StartedCommand, approver, cluster_approver, is_question_open, remote_approver};
pub use call_watcher::{CallWatcher, set_command_name};
pub use compile_progress::show_compiling;
pub use step_progress::StepProgress;

use std::io::IsTerminal;

/// Returns a card as lines for the terminal.
pub fn card_lines(card: &mimir_core::Card) -> Vec<String> {
    let rendered = approval_card::render_card(card, width());
    let sections = [rendered.head, rendered.arguments, rendered.tail];
    sections.concat()
}

/// Returns true if a person can be asked: stderr (for the question) and stdin (for the answer) are terminals.
pub fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a yes/no question on the terminal. Returns false without a terminal.
pub fn confirm(question: &str) -> std::io::Result<bool> {
    let answer = ask_for_answer(&format!("{question} [y/N] > "))?;
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

/// Asks a question on the terminal and returns the answer, trimmed and in lower case. Returns an empty string without a
/// terminal.
pub fn ask_for_answer(question: &str) -> std::io::Result<String> {
    if !has_person() {
        return Ok(String::new());
    }
    let _paused = crate::output::progress::pause();
    write_question(&mut anstream::stderr(), question)?;
    Ok(read_line()?.unwrap_or_default().trim().to_lowercase())
}

/// Writes a question that the next line of the terminal answers. All questions use it: input that was typed before the
/// question appeared is discarded, because its author has not read what it would answer.
fn write_question(out: &mut dyn std::io::Write, question: &str) -> std::io::Result<()> {
    mimir_core::platform::discard_typed_input();
    write!(out, "{question}")?;
    out.flush()
}

/// Returns the message for a question that was not answered with yes: what was not done, and, if no person could be
/// asked, how to do it.
pub fn refusal(outcome: &str, without_terminal: &str) -> String {
    if has_person() {
        outcome.to_owned()
    } else {
        format!("{outcome}; without a terminal, {without_terminal}")
    }
}

/// Prints lines to stderr, one screen at a time if a person is at the terminal.
pub fn print_paged(lines: &[String]) -> std::io::Result<()> {
    let (width, rows) = (width().max(1), height().saturating_sub(2).max(5));
    let mut used = 0;
    let mut pauses = has_person();
    for line in lines {
        let plain = anstream::adapter::strip_str(line).to_string();
        let needed = plain.chars().count().div_ceil(width).max(1);
        if pauses && used + needed > rows {
            // The answer `s` shows the remaining lines without another pause.
            pauses = ask_for_answer("-- Enter shows more, s shows all --")? != "s";
            used = 0;
        }
        used += needed;
        crate::output::note(line);
    }
    Ok(())
}

/// Reads a line from stdin, including its line end. Returns `None` at the end of the input.
fn read_line() -> std::io::Result<Option<String>> {
    use std::io::BufRead as _;
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line)?;
    Ok((length > 0).then_some(line))
}

/// Ctrl-C, Ctrl-\ and Ctrl-Z, which cancel a hidden line instead of sending a signal: a process that is killed or
/// stopped would leave the terminal without echo.
const CANCEL_KEYS: [u8; 3] = [0x03, 0x1c, 0x1a];

/// Reads a line from the terminal without echo. Returns it without its line end, and an empty string at the end of the
/// input. Returns `None` if the user cancels. Fails on platforms other than Unix, and if stdin is not a terminal.
pub fn read_hidden_line(prompt: &str) -> std::io::Result<Option<String>> {
    use std::io::Write as _;
    // Created before the prompt is shown, because it discards what was typed before.
    let hidden = EchoGuard::new()?;
    let mut stderr = anstream::stderr();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let read = read_until_line_end_or_cancel(std::io::stdin().lock());
    drop(hidden);
    writeln!(stderr)?;
    read
}

fn read_until_line_end_or_cancel(input: impl std::io::BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\n' => break,
            key if CANCEL_KEYS.contains(&key) => return Ok(None),
            other => line.push(other),
        }
    }
    let mut line = String::from_utf8(line).map_err(|error| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error())
    })?;
    let length = line.trim_end_matches('\r').len();
    line.truncate(length);
    Ok(Some(line))
}

/// Guard that disables echo and signals of the terminal until it is dropped.
struct EchoGuard {
    #[cfg(unix)]
    original: rustix::termios::Termios,
}

impl EchoGuard {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use rustix::termios::{
            LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };
        let original = tcgetattr(std::io::stdin())?;
        let mut hidden_mode = original.clone();
        hidden_mode
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        // The first two keys also end a line, so that they take effect at once.
        let line_ends = [SpecialCodeIndex::VEOL, SpecialCodeIndex::VEOL2];
        for (index, key) in line_ends.into_iter().zip(CANCEL_KEYS) {
            hidden_mode.special_codes[index] = key;
        }
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden_mode)?;
        Ok(Self { original })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "this platform cannot hide typed input: pass the value on stdin",
        ))
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.original);
        }
    }
}

/// Width in columns that is used if the terminal does not report its own.
const DEFAULT_WIDTH: usize = 80;

/// Returns the width of the terminal in columns.
fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// Returns the height of the terminal in rows; 24 if the terminal does not report it.
fn height() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(24, |(_, height)| usize::from(height.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_line_ends_at_its_end_or_is_cancelled() {
        for (input, line) in [
            ("välue\r\nmore", Some("välue")),
            ("at the end", Some("at the end")),
            ("", Some("")),
            ("abc\x03", None),
            ("abc\x1adef\n", None),
            ("abc\nx\x03", Some("abc")),
        ] {
            let read = read_until_line_end_or_cancel(input.as_bytes()).unwrap();
            assert_eq!(read.as_deref(), line, "{input:?}");
        }
        assert!(read_until_line_end_or_cancel(&b"\xff\n"[..]).is_err());
    }
}
