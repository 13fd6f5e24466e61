//! Interaction with the person at the terminal: approval questions, and progress of running calls. Everything goes to
//! stderr.

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

/// Returns true if a person can be asked: both stdin (the answer) and stderr (the question) are terminals.
pub fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a yes/no question on the terminal. Without a terminal, the answer is no.
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

/// Asks on the terminal and returns the answer in lower case; `None` without a terminal.
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

/// Shows lines on stderr, a screen at a time.
pub fn print_paged(lines: &[String]) -> std::io::Result<()> {
    let (width, rows) = (width().max(1), height().saturating_sub(2).max(5));
    let mut used = 0;
    let mut pauses = has_person();
    for line in lines {
        let plain = anstream::adapter::strip_str(line).to_string();
        let needed = plain.chars().count().div_ceil(width).max(1);
        if pauses && used + needed > rows {
            // `s` shows the rest at once.
            pauses = ask_for_answer("-- Enter shows more, s all of it --")? != "s";
            used = 0;
        }
        used += needed;
        crate::output::note(line);
    }
    Ok(())
}

/// Reads a typed line, with its line end; empty once the terminal has closed.
fn read_line() -> std::io::Result<Option<String>> {
    use std::io::BufRead as _;
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line)?;
    Ok((length > 0).then_some(line))
}

/// Reads a line without echoing it.
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

/// Disables echo on the terminal until it is dropped.
struct EchoGuard {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl EchoGuard {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden_mode = before.clone();
        hidden_mode.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden_mode)?;
        Ok(Self { before })
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
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Width in columns if the terminal does not report one.
const DEFAULT_WIDTH: usize = 80;

/// Width of the terminal in columns.
fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// Height of the terminal in rows.
fn height() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(24, |(_, height)| usize::from(height.0))
}
