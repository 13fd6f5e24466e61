//! Interaction with the person at the terminal: approval questions and the progress of running calls. All output goes
//! to stderr.

mod approval_card;
mod approver;
mod argument_editor;
mod call_watcher;
mod compile_progress;
mod line_printer;
mod prompt_wait;
mod step_progress;

pub use approver::{StartedCommand, approver, is_question_open, remote_approver};
pub use call_watcher::CallWatcher;
pub use compile_progress::show_compiling;
pub use step_progress::StepProgress;

use std::io::IsTerminal;

/// Returns true if a person can be asked: stderr (for the question) and stdin (for the answer) are terminals.
pub fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a yes/no question on the terminal. Returns false without a terminal.
pub fn confirm(question: &str) -> std::io::Result<bool> {
    use std::io::Write as _;
    if !has_person() {
        return Ok(false);
    }
    let _paused = crate::output::progress::pause();
    let mut stderr = anstream::stderr();
    write!(stderr, "{question} [y/N] > ")?;
    stderr.flush()?;
    let line = read_line()?.unwrap_or_default();
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks a question on the terminal and returns the answer, trimmed and in lower case. Returns an empty string without a
/// terminal.
pub fn ask_for_answer(question: &str) -> std::io::Result<String> {
    use std::io::Write as _;
    if !has_person() {
        return Ok(String::new());
    }
    let _paused = crate::output::progress::pause();
    let mut stderr = anstream::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    Ok(read_line()?.unwrap_or_default().trim().to_lowercase())
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

/// Reads a line from the terminal without echo. Returns it without its line end, and an empty string at the end of the
/// input. Fails on platforms other than Unix, and if stdin is not a terminal.
pub fn read_hidden_line(prompt: &str) -> std::io::Result<String> {
    use std::io::Write as _;
    let mut stderr = anstream::stderr();
    write!(stderr, "{prompt}")?;
    stderr.flush()?;
    let hidden = EchoGuard::new()?;
    let read = read_line();
    drop(hidden);
    writeln!(stderr)?;
    let mut line = read?.unwrap_or_default();
    let length = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(length);
    Ok(line)
}

/// Guard that disables echo on the terminal until it is dropped.
struct EchoGuard {
    #[cfg(unix)]
    original: rustix::termios::Termios,
}

impl EchoGuard {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let original = tcgetattr(std::io::stdin())?;
        let mut hidden_mode = original.clone();
        hidden_mode.local_modes.remove(LocalModes::ECHO);
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
