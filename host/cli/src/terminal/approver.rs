//! Approval questions on the command line: answered by the person at the terminal, or by a flag.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card};
use tokio::sync::Mutex;

use crate::args::ApproveMode;
use crate::output::progress::pause;
use crate::output::stderr_queue::hold_output;

use super::approval_card::{self, RenderedCard};
use super::argument_editor::EditedArguments;
use super::prompt_wait::{PromptGuard, PromptLine, PromptWatch};
use super::{argument_editor, has_person, height, width};

/// The running command, which decides the hint about allowing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartedCommand {
    /// One tool call.
    Call,
    /// A task with many calls.
    Run,
    /// A chat.
    Chat,
}

impl StartedCommand {
    /// Tells how to allow a call when no person could be asked.
    fn remedy(self) -> &'static str {
        match self {
            Self::Call => "use `--approve always` to allow this call",
            Self::Run => {
                "use `mimir run --approve always` to allow everything in this task that no rule denies"
            }
            Self::Chat => "run `mimir chat` on a terminal to be asked",
        }
    }
}

/// Returns the approver for `--approve`.
pub fn approver(approve: ApproveMode, started: StartedCommand) -> Arc<dyn Approver> {
    let nobody = |because| Arc::new(AbsentApprover { because, started });
    match approve {
        ApproveMode::Always => Arc::new(AlwaysApprover),
        ApproveMode::Never => nobody("`--approve never` refuses every question"),
        ApproveMode::Ask if has_person() => Arc::new(TerminalApprover(Mutex::new(()))),
        ApproveMode::Ask => nobody("No terminal is available to ask on"),
    }
}

/// Approves everything: the person said yes on the command line.
struct AlwaysApprover;

impl Approver for AlwaysApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::InAdvance))
    }
}

/// Cannot ask here; a person may repeat the call on a terminal.
pub fn remote_approver() -> Arc<dyn Approver> {
    Arc::new(RemoteApprover)
}

/// The client of an MCP server that cannot ask its user.
struct RemoteApprover;

impl Approver for RemoteApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let tool = &card.tool;
        let remedy = match card.always {
            Some(_) => format!(
                "This MCP client cannot ask you. Run `mimir call {tool}` with the same arguments on a terminal; an `always` there applies here, too"
            ),
            None => format!(
                "This MCP client cannot ask you. Run `mimir call {tool}` with the same arguments on a terminal to approve that one call"
            ),
        };
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

/// Refuses the call, because no person can be asked.
struct AbsentApprover {
    because: &'static str,
    started: StartedCommand,
}

impl Approver for AbsentApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let because = self.because;
        let remedy = match card.changes.is_empty() {
            true => format!("{because}; {}", self.started.remedy()),
            false => format!("{because}, and a person has to see what has changed"),
        };
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

/// Asks the person at the terminal, one question at a time.
struct TerminalApprover(Mutex<()>);

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let _turn = self.0.lock().await;
            let drawn = approval_card::render_card(card, width());
            // Reads the line on a thread, so that Ctrl-C is handled while it waits.
            let arguments = card.arguments.clone();
            let offers = CardAnswers {
                lasting: card.always.is_some(),
                edit: card.editable,
            };
            // Dropped with this future, which tells the thread that the answer is no longer wanted.
            let wanted = PromptGuard::default();
            let watch = wanted.watch();
            let asked = move || {
                let _paused = pause();
                // Results of other calls appear once the question is answered, and not between it and its answer.
                let held = hold_output();
                let answer = converse(&drawn, &arguments, offers, height(), &watch);
                if held.has_output() && is_question_open() {
                    let _ = writeln!(anstream::stderr());
                }
                answer
            };
            let answer = tokio::task::spawn_blocking(asked);
            match answer.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => ApprovalAnswer::Unattended {
                    remedy: format!("Cannot read from the terminal: {error}."),
                },
                Err(_) => ApprovalAnswer::No,
            }
        })
    }
}

/// True while a question waits for its answer at the end of the last line. There is one terminal.
static OPEN: AtomicBool = AtomicBool::new(false);

/// True if a question that timed out is still on the terminal. The next output then begins on a new line.
pub fn is_question_open() -> bool {
    OPEN.swap(false, Ordering::Relaxed)
}

/// Rows reserved for the question and the rest of the card.
const ROWS_BESIDE: usize = 16;

/// Answers that a card accepts, in addition to yes and no.
#[derive(Clone, Copy)]
struct CardAnswers {
    /// Answers for more than this call.
    lasting: bool,
    /// Editing the arguments.
    edit: bool,
}

impl CardAnswers {
    /// Text of the question.
    fn question(self) -> String {
        let more = match self.lasting {
            true => " this [s]ession, [a]lways,",
            false => "",
        };
        let edit = match self.edit {
            true => " [e]dit,",
            false => "",
        };
        format!("[y]es once,{more}{edit} [n]o")
    }

    /// Reply to an invalid answer.
    fn reminder(self) -> String {
        let more = if self.lasting { " s, a," } else { "" };
        let edit = if self.edit { " e" } else { "" };
        let letters = format!("y,{more}{edit}");
        let letters = letters.trim_end_matches(',');
        match self.lasting {
            true => format!("Please answer {letters} or n."),
            false => format!(
                "Please answer {letters} or n. Calls like this one are asked about every time."
            ),
        }
    }
}

/// Shows the card and reads the answer.
fn converse(
    drawn: &RenderedCard,
    arguments: &str,
    offers: CardAnswers,
    height: usize,
    watch: &PromptWatch,
) -> io::Result<ApprovalAnswer> {
    // stderr is not locked while waiting, so that cancelling the call can print a message.
    let mut to = anstream::stderr();
    let most = height.saturating_sub(ROWS_BESIDE).max(4);
    let cut = drawn.arguments.len() > most;
    show(&mut to, drawn, if cut { most } else { usize::MAX })?;
    forget_typed_ahead();
    let view = if cut { ", [v]iew all" } else { "" };
    loop {
        write!(to, "{}{view} > ", offers.question())?;
        to.flush()?;
        OPEN.store(true, Ordering::Relaxed);
        let line = watch.read_line();
        if matches!(line, Ok(PromptLine::Unwanted)) {
            // The question is still on the terminal.
            return Ok(ApprovalAnswer::No);
        }
        OPEN.store(false, Ordering::Relaxed);
        let PromptLine::Typed(line) = line? else {
            writeln!(to)?;
            return Ok(ApprovalAnswer::No);
        };
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "once" => return Ok(ApprovalAnswer::Once),
            "s" | "session" if offers.lasting => return Ok(ApprovalAnswer::Session),
            "a" | "always" if offers.lasting => return Ok(ApprovalAnswer::Always),
            "n" | "no" | "" => return Ok(ApprovalAnswer::No),
            "e" | "edit" if offers.edit => {
                OPEN.store(true, Ordering::Relaxed);
                let edited = argument_editor::edit_arguments(&mut to, arguments, watch);
                if matches!(edited, Ok(EditedArguments::Unwanted)) {
                    return Ok(ApprovalAnswer::No);
                }
                OPEN.store(false, Ordering::Relaxed);
                match edited? {
                    EditedArguments::Other(edited) => return Ok(ApprovalAnswer::Edit(edited)),
                    EditedArguments::Same | EditedArguments::Unwanted => {
                        writeln!(to, "The arguments are unchanged.")?;
                    }
                }
            }
            "v" | "view" if cut => show(&mut to, drawn, usize::MAX)?,
            _ => writeln!(to, "{}", offers.reminder())?,
        }
    }
}

fn show(to: &mut dyn Write, drawn: &RenderedCard, most: usize) -> io::Result<()> {
    for line in &drawn.head {
        writeln!(to, "{line}")?;
    }
    for line in drawn.arguments.iter().take(most) {
        writeln!(to, "{line}")?;
    }
    if drawn.arguments.len() > most {
        writeln!(to, "  … {} more lines", drawn.arguments.len() - most)?;
    }
    for line in &drawn.tail {
        writeln!(to, "{line}")?;
    }
    to.flush()
}

/// Discards input that was typed or pasted before the question came up.
#[cfg(unix)]
fn forget_typed_ahead() {
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

#[cfg(not(unix))]
fn forget_typed_ahead() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_prompt_offers_only_available_answers() {
        for (lasting, edit, question, reminder) in [
            (
                true,
                true,
                "[y]es once, this [s]ession, [a]lways, [e]dit, [n]o",
                "Please answer y, s, a, e or n.",
            ),
            (
                true,
                false,
                "[y]es once, this [s]ession, [a]lways, [n]o",
                "Please answer y, s, a or n.",
            ),
            (
                false,
                true,
                "[y]es once, [e]dit, [n]o",
                "Please answer y, e or n. Calls like this one are asked about every time.",
            ),
            (
                false,
                false,
                "[y]es once, [n]o",
                "Please answer y or n. Calls like this one are asked about every time.",
            ),
        ] {
            let offers = CardAnswers { lasting, edit };
            assert_eq!(
                (offers.question(), offers.reminder()),
                (question.into(), reminder.into())
            );
        }
    }
}
