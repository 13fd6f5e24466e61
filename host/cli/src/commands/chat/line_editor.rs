//! Line editor of the chat, with completion and history. It reads on a thread, because reading blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::sync::oneshot;

use crate::exit::CommandResult;
use crate::output::{FAINT, note, styled};

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    /// The input, of one or more lines.
    Line(String),
    /// An empty line, or Ctrl-C.
    Nothing,
    /// The input has ended.
    End,
}

/// The line editor.
pub(super) struct LineEditor {
    requests: SyncSender<oneshot::Sender<ChatInput>>,
    terminal_mode: SavedTerminalMode,
    /// True while a line is edited, during which the terminal is in raw mode.
    waiting: AtomicBool,
    completions: Arc<Mutex<Vec<String>>>,
    history: Arc<Mutex<Vec<String>>>,
}

/// The prompt.
const PROMPT: &str = "> ";

impl LineEditor {
    /// Starts the editor with the history of earlier input, oldest first.
    pub(super) fn new(earlier_input: Vec<String>) -> CommandResult<Self> {
        let (requests, received) = sync_channel(1);
        let completions = Arc::<Mutex<Vec<String>>>::default();
        let history = Arc::new(Mutex::new(earlier_input));
        let (editor_completions, editor_history) = (Arc::clone(&completions), Arc::clone(&history));
        std::thread::Builder::new()
            .spawn(move || read_lines(&received, editor_completions, &editor_history))?;
        Ok(Self {
            requests,
            terminal_mode: SavedTerminalMode::save(),
            waiting: AtomicBool::new(false),
            completions,
            history,
        })
    }

    /// Sets the candidates for completion.
    pub(super) fn set_completions(&self, completions: Vec<String>) {
        *self.completions.lock() = completions;
    }

    /// Reads input. A line that ends in `\` continues on the next one.
    pub(super) async fn read_line(&self) -> ChatInput {
        let (answer, answered) = oneshot::channel();
        self.waiting.store(true, Ordering::Relaxed);
        if self.requests.send(answer).is_err() {
            return ChatInput::End;
        }
        let input = answered.await.unwrap_or(ChatInput::End);
        self.waiting.store(false, Ordering::Relaxed);
        input
    }

    /// Returns all input, including earlier input, oldest first.
    pub(super) fn input_history(&self) -> Vec<String> {
        self.history.lock().clone()
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        // The program may end while a line is edited, with the terminal in raw mode.
        if self.waiting.load(Ordering::Relaxed) {
            self.terminal_mode.restore();
        }
    }
}

/// The terminal mode before the editor started.
#[cfg(unix)]
struct SavedTerminalMode(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl SavedTerminalMode {
    fn save() -> Self {
        Self(rustix::termios::tcgetattr(std::io::stdin()).ok())
    }

    fn restore(&self) {
        use std::io::Write as _;
        let Some(original) = &self.0 else { return };
        let _ = rustix::termios::tcsetattr(
            std::io::stdin(),
            rustix::termios::OptionalActions::Now,
            original,
        );
        // Turns off bracketed paste.
        let mut out = std::io::stdout();
        let _ = out.write_all(b"\x1b[?2004l\n").and_then(|()| out.flush());
    }
}

#[cfg(not(unix))]
struct SavedTerminalMode;

#[cfg(not(unix))]
impl SavedTerminalMode {
    fn save() -> Self {
        Self
    }

    fn restore(&self) {}
}

/// Thread of the editor: reads input on each request.
fn read_lines(
    requests: &Receiver<oneshot::Sender<ChatInput>>,
    completions: Arc<Mutex<Vec<String>>>,
    history: &Mutex<Vec<String>>,
) {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let editor_history = MemHistory::with_config(&config);
    let mut editor =
        match Editor::<ChatLineHelper, MemHistory>::with_history(config, editor_history) {
            Ok(editor) => editor,
            Err(error) => {
                note(format_args!("cannot use the terminal: {error}"));
                return;
            }
        };
    editor.set_helper(Some(ChatLineHelper(completions)));
    for line in history.lock().iter() {
        let _ = editor.add_history_entry(line);
    }
    for answer in requests {
        let line = match editor.readline(PROMPT) {
            Ok(line) if line.trim().is_empty() => ChatInput::Nothing,
            Ok(line) => {
                let line = line.replace("\\\n", "\n");
                let _ = editor.add_history_entry(&line);
                history.lock().push(line.clone());
                ChatInput::Line(line)
            }
            Err(ReadlineError::Interrupted) => {
                note(styled(FAINT, "(press Ctrl-D or type /quit to end)"));
                ChatInput::Nothing
            }
            Err(ReadlineError::Eof) => ChatInput::End,
            Err(error) => {
                note(format_args!("cannot read from the terminal: {error}"));
                ChatInput::End
            }
        };
        let end = line == ChatInput::End;
        if answer.send(line).is_err() || end {
            return;
        }
    }
}

/// Completes commands at the beginning of a line, and tool names anywhere.
struct ChatLineHelper(Arc<Mutex<Vec<String>>>);

/// Minimum length of a prefix of a tool name. A shorter word is not completed.
const MIN_COMPLETION_PREFIX: usize = 2;

impl ChatLineHelper {
    /// Returns the start of the word before the cursor, and its completions.
    fn complete_word(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = line.get(..at).unwrap_or(line);
        let start = before
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '/')))
            .map_or(0, |last| {
                last + before[last..].chars().next().map_or(1, char::len_utf8)
            });
        let word = &before[start..];
        let fits = |known: &&String| {
            let is_completable = if word.starts_with('/') {
                start == 0
            } else {
                word.len() >= MIN_COMPLETION_PREFIX
            };
            is_completable && known.starts_with(word)
        };
        let known = self.0.lock();
        (start, known.iter().filter(fits).cloned().collect())
    }
}

impl Completer for ChatLineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.complete_word(line, at))
    }
}

impl Validator for ChatLineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for ChatLineHelper {
    type Hint = String;
}
impl Highlighter for ChatLineHelper {}
impl Helper for ChatLineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_completes_slash_commands_and_tool_names() {
        let known = ["/tools", "/clear", "read_file", "write_file", "git"];
        let helper = ChatLineHelper(Arc::new(Mutex::new(known.map(str::to_owned).to_vec())));
        let of = |line: &str| helper.complete_word(line, line.len());
        assert_eq!(of("/t"), (0, vec!["/tools".to_owned()]));
        assert_eq!(of("use rea"), (4, vec!["read_file".to_owned()]));
        assert_eq!(of("é wri"), (3, vec!["write_file".to_owned()]));
        assert_eq!(of("see /t"), (4, vec![]), "a command begins a line");
        assert_eq!(of("g"), (0, vec![]));
        assert_eq!(helper.complete_word("read_file x", 3).1, ["read_file"]);
    }
}
