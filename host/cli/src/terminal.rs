//! The person at the terminal: asking for approval, and showing what happens while it happens.
//! All of it on stderr.

mod approver;
mod card;
mod compiling;
mod edit;
mod lines;
mod progress;
mod waiting;
mod watcher;

pub use approver::{Started, approver, elsewhere, left_open};
pub use compiling::show_compiling;
pub use progress::Progress;
pub use watcher::Watcher;

use std::io::IsTerminal;

/// Whether a person can be asked: stdin to answer on and stderr to ask on are terminals.
pub fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the person at the terminal a question that can be answered with yes. Without one the answer is no.
pub fn confirm(question: &str) -> std::io::Result<bool> {
    use std::io::Write as _;
    if !has_person() {
        return Ok(false);
    }
    let _paused = crate::output::progress::pause();
    let mut to = anstream::stderr();
    write!(to, "{question} [y/N] > ")?;
    to.flush()?;
    let line = read_line()?.unwrap_or_default();
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Asks the person at the terminal and returns the answer in lower case; `None` without a terminal.
pub fn answer(question: &str) -> std::io::Result<String> {
    use std::io::Write as _;
    if !has_person() {
        return Ok(String::new());
    }
    let _paused = crate::output::progress::pause();
    let mut to = anstream::stderr();
    write!(to, "{question}")?;
    to.flush()?;
    Ok(read_line()?.unwrap_or_default().trim().to_lowercase())
}

/// Shows lines on stderr, a screen at a time.
pub fn paged(lines: &[String]) -> std::io::Result<()> {
    let (width, rows) = (width().max(1), height().saturating_sub(2).max(5));
    let mut used = 0;
    let mut waits = has_person();
    for line in lines {
        let plain = anstream::adapter::strip_str(line).to_string();
        let taken = plain.chars().count().div_ceil(width).max(1);
        if waits && used + taken > rows {
            // An `s` shows the rest at once.
            waits = answer("-- Enter shows more, s all of it --")? != "s";
            used = 0;
        }
        used += taken;
        crate::output::note(line);
    }
    Ok(())
}

/// A line that the person typed, with its end; nothing when the terminal has closed.
fn read_line() -> std::io::Result<Option<String>> {
    use std::io::BufRead as _;
    let mut line = String::new();
    let length = std::io::stdin().lock().read_line(&mut line)?;
    Ok((length > 0).then_some(line))
}

/// A line that is typed without being shown.
pub fn unseen(prompt: &str) -> std::io::Result<String> {
    use std::io::Write as _;
    let mut to = anstream::stderr();
    write!(to, "{prompt}")?;
    to.flush()?;
    let hidden = Hidden::new()?;
    let read = read_line();
    drop(hidden);
    writeln!(to)?;
    let mut line = read?.unwrap_or_default();
    let kept = line.trim_end_matches(['\n', '\r']).len();
    line.truncate(kept);
    Ok(line)
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Hidden {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Hidden {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin())?;
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &now)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "a value cannot be typed unseen here; give it on stdin",
        ))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

/// Columns to use where the terminal does not tell.
const USUAL_WIDTH: usize = 80;

/// How many columns the terminal has.
fn width() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0))
}

/// How many rows the terminal has.
fn height() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(24, |(_, height)| usize::from(height.0))
}
