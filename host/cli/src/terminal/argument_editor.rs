//! Editing of a call's arguments, in the user's editor or on the terminal. Editing ends when the question is cancelled,
//! so that it does not consume later input.

use std::io::{self, Write};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use super::prompt_wait::{PromptLine, PromptWatch};
use super::write_question;

/// Result of editing.
#[derive(Debug, PartialEq)]
pub(super) enum EditedArguments {
    /// The new arguments.
    Other(Value),
    /// The arguments are unchanged.
    Same,
    /// The question was cancelled or timed out.
    Unwanted,
}

/// Lets the person edit the arguments, again after text that is not a JSON object.
pub(super) fn edit_arguments(
    out: &mut dyn Write,
    current: &str,
    watch: &PromptWatch,
) -> io::Result<EditedArguments> {
    let mut text = current.to_owned();
    loop {
        let edited = match editor() {
            Some(editor) => edit_in_program(&editor, &text, watch)?,
            None => read_typed(out, watch)?,
        };
        let Some(edited) = edited else {
            return Ok(EditedArguments::Unwanted);
        };
        text = edited;
        if text.trim().is_empty() || text.trim() == current.trim() {
            return Ok(EditedArguments::Same);
        }
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() => return Ok(EditedArguments::Other(value)),
            Ok(_) => writeln!(out, "The arguments must be a JSON object.")?,
            Err(error) => writeln!(out, "Not valid JSON: {error}.")?,
        }
        write_question(out, "[e]dit again, or leave unchanged [n] > ")?;
        let line = match watch.read_line()? {
            PromptLine::Typed(line) => line,
            PromptLine::Closed => return Ok(EditedArguments::Same),
            PromptLine::Unwanted => return Ok(EditedArguments::Unwanted),
        };
        if !matches!(line.trim().to_lowercase().as_str(), "e" | "edit") {
            return Ok(EditedArguments::Same);
        }
    }
}

/// Returns the editor from the variable `VISUAL` or `EDITOR`; `None` if neither is set.
fn editor() -> Option<String> {
    let variable = |name| std::env::var(name).ok();
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"))?;
    (!editor.trim().is_empty()).then_some(editor)
}

/// Interval at which the editor process is polled. Too short for a person to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the editor on `text` and returns the saved text; an empty text if the editor failed, `None` if the question was
/// cancelled.
fn edit_in_program(editor: &str, text: &str, watch: &PromptWatch) -> io::Result<Option<String>> {
    // Editors detect the syntax by the suffix. Only this user can read the file.
    let mut file = tempfile::Builder::new()
        .prefix("mimir-")
        .suffix(".json")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let path = file.into_temp_path();
    let Some(_lent) = watch.lend_terminal() else {
        return Ok(None);
    };
    // `EDITOR` may contain arguments, as in `code --wait`.
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    let terminal_mode = EditorTerminalMode::save();
    let mut child = command.args(words).arg(&path).spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if watch.is_over() {
            let exited = stop(&mut child);
            terminal_mode.restore(exited);
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    if !status.success() {
        return Ok(Some(String::new()));
    }
    std::fs::read_to_string(&path).map(Some)
}

/// Time that an editor has to exit and restore the terminal before it is killed.
#[cfg(unix)]
const KILL_DELAY: Duration = Duration::from_millis(500);

/// Stops an editor and its child processes. Returns true if the editor exited after SIGTERM, without being killed.
#[cfg(unix)]
fn stop(child: &mut Child) -> bool {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};
    let mut pids = vec![child.id()];
    let mut at = 0;
    while let Some(id) = pids.get(at) {
        pids.extend(children(*id));
        at += 1;
    }
    let ids = pids.into_iter();
    let pids: Vec<Pid> = ids
        .filter_map(|id| i32::try_from(id).ok().and_then(Pid::from_raw))
        .collect();
    for pid in &pids {
        let _ = kill_process(*pid, Signal::TERM);
    }
    let start = std::time::Instant::now();
    let mut exited = false;
    loop {
        // An exited process stays in the process table until it is waited for.
        exited |= matches!(child.try_wait(), Ok(Some(_)));
        if !pids.iter().any(|pid| test_kill_process(*pid).is_ok()) {
            return exited;
        }
        if start.elapsed() >= KILL_DELAY {
            for pid in &pids {
                let _ = kill_process(*pid, Signal::KILL);
            }
            let _ = child.wait();
            return exited;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(not(unix))]
fn stop(child: &mut Child) -> bool {
    let _ = child.kill().and_then(|()| child.wait());
    false
}

/// Returns the child processes of the process `id`; empty on systems without `/proc`.
#[cfg(unix)]
fn children(id: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let child_lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let child_lists: Vec<String> = child_lists.collect();
    child_lists
        .iter()
        .flat_map(|ids| ids.split_whitespace())
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// Terminal mode before the editor started.
struct EditorTerminalMode {
    #[cfg(unix)]
    modes: Option<rustix::termios::Termios>,
}

impl EditorTerminalMode {
    fn save() -> Self {
        Self {
            #[cfg(unix)]
            modes: rustix::termios::tcgetattr(io::stdin()).ok(),
        }
    }

    /// Restores the mode. If the editor was killed (`exited` is false), also leaves its alternate screen.
    fn restore(&self, exited: bool) {
        #[cfg(unix)]
        if let Some(modes) = &self.modes {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, modes);
        }
        if !exited {
            let mut out = anstream::stderr();
            // Leaves the alternate screen, shows the cursor, ends bracketed paste, resets colours.
            let _ = out.write_all(b"\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[0m");
            let _ = out.flush();
        }
    }
}

/// Reads typed text up to an empty line. Returns `None` if the question was cancelled.
fn read_typed(out: &mut dyn Write, watch: &PromptWatch) -> io::Result<Option<String>> {
    writeln!(out, "Type the arguments as JSON, then an empty line.")?;
    out.flush()?;
    let mut text = String::new();
    loop {
        match watch.read_line()? {
            PromptLine::Typed(line) if line.trim().is_empty() => return Ok(Some(text)),
            PromptLine::Typed(line) => text.push_str(&line),
            PromptLine::Closed => return Ok(Some(text)),
            PromptLine::Unwanted => return Ok(None),
        }
    }
}
