//! Approvers of the command line: a person at the terminal answers, or the flag `--approve` does.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mimir_core::{ApprovalAnswer, Approver, BoxFuture, Card};
use tokio::sync::Mutex;

use crate::args::ApproveMode;
use crate::arguments::quote_for_shell;
use crate::output::progress::pause;
use crate::output::stderr_queue::hold_output;

use super::approval_card::{self, RenderedCard};
use super::argument_editor::EditedArguments;
use super::prompt_wait::{PromptGuard, PromptLine, PromptWatch};
use super::{argument_editor, has_person, height, width, write_question};

/// The running command. It determines the hint in a refusal.
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
    /// Returns the hint on how to allow a call when no person could be asked.
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
    let absent = |reason, asks_at_console| {
        Arc::new(AbsentApprover {
            reason,
            asks_at_console,
            started,
        })
    };
    match approve {
        ApproveMode::Always => Arc::new(AlwaysApprover),
        ApproveMode::Never => absent("`--approve never` refuses every question", false),
        ApproveMode::Ask if has_person() => Arc::new(TerminalApprover(Mutex::new(()))),
        ApproveMode::Ask => absent("No terminal is available to ask on", true),
    }
}

/// Approves every call, because of `--approve always`.
struct AlwaysApprover;

impl Approver for AlwaysApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::InAdvance))
    }
}

/// Returns the approver for MCP clients of a process in a cluster that cannot ask their user. It refuses every call, with
/// a hint.
pub fn cluster_approver() -> Arc<dyn Approver> {
    Arc::new(ClusterApprover)
}

/// Refuses the calls of an MCP client that cannot ask its user, in a process of a cluster.
struct ClusterApprover;

impl Approver for ClusterApprover {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let remedy = "This MCP client cannot ask you. While a server of the cluster runs with `--console`, or with \
                      `approvals.unattended: wait` in the settings, such calls wait: answer there, or with `mimir approvals answer`";
        Box::pin(std::future::ready(ApprovalAnswer::Unattended {
            remedy: remedy.to_owned(),
        }))
    }
}

/// Returns the approver for MCP clients that cannot ask their user. It refuses every call, with a hint. `components` is
/// the folder of the served components, if only these are served.
pub fn remote_approver(components: Option<&Path>) -> Arc<dyn Approver> {
    let command = match components {
        Some(folder) => {
            let folder = mimir_core::text::visible(&folder.display().to_string());
            format!("mimir call --tools-from {}", quote_for_shell(&folder))
        }
        None => "mimir call".to_owned(),
    };
    Arc::new(RemoteApprover { command })
}

/// Refuses the calls of an MCP client that cannot ask its user.
struct RemoteApprover {
    /// Beginning of the command that asks on a terminal.
    command: String,
}

impl Approver for RemoteApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let (command, tool) = (&self.command, &card.tool);
        let remedy = match card.always {
            Some(_) => format!(
                "This MCP client cannot ask you. Open `mimir console` and repeat the call to answer there, or run `{command} {tool}` with the same arguments on a terminal; the answer `always` applies here, too"
            ),
            None => format!(
                "This MCP client cannot ask you. Open `mimir console` and repeat the call to answer there, or run `{command} {tool}` with the same arguments on a terminal to approve that one call"
            ),
        };
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

/// Refuses the call, because no person can be asked.
struct AbsentApprover {
    reason: &'static str,
    /// True if the question could be answered at a console.
    asks_at_console: bool,
    started: StartedCommand,
}

impl Approver for AbsentApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let reason = self.reason;
        let mut remedy = if card.changes.is_empty() {
            format!("{reason}; {}", self.started.remedy())
        } else {
            format!("{reason}, and a person has to see what has changed")
        };
        if self.asks_at_console {
            remedy.push_str(", or open `mimir console` first and answer there");
        }
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

/// Asks the person at the terminal, one question at a time.
struct TerminalApprover(Mutex<()>);

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let _turn = self.0.lock().await;
            let card_lines = approval_card::render_card(card, width());
            // Reads the line on a thread, so that Ctrl-C is handled while it waits.
            let arguments = card.arguments.clone();
            let answers = CardAnswers {
                lasting: card.always.is_some(),
                edit: card.editable,
            };
            // Dropping this future drops the guard, which cancels the question on the thread.
            let guard = PromptGuard::default();
            let watch = guard.watch();
            let ask_person = move || {
                let _paused = pause();
                // Results of other calls are printed after the answer, not between the question and the answer.
                let hold = hold_output();
                let answer = converse(&card_lines, &arguments, answers, height(), &watch);
                if hold.has_output() && is_question_open() {
                    let _ = writeln!(anstream::stderr());
                }
                answer
            };
            let answer = tokio::task::spawn_blocking(ask_person);
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

/// True while the last line on the terminal is an unanswered question. Static, because there is one terminal.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Returns true if a cancelled question is still on the last line of the terminal, so that the caller starts a new
/// line. Resets the state: the next call returns false.
pub fn is_question_open() -> bool {
    OPEN.swap(false, Ordering::Relaxed)
}

/// Rows reserved for the question and for the parts of the card other than the arguments.
const ROWS_BESIDE: usize = 16;

/// Answers that a card accepts, in addition to yes and no.
#[derive(Clone, Copy)]
struct CardAnswers {
    /// True if the answers "session" and "always" are offered.
    lasting: bool,
    /// True if the arguments can be edited.
    edit: bool,
}

impl CardAnswers {
    /// Returns the text of the question.
    fn question(self) -> String {
        let more = if self.lasting {
            " this [s]ession, [a]lways,"
        } else {
            ""
        };
        let edit = if self.edit { " [e]dit," } else { "" };
        format!("[y]es once,{more}{edit} [n]o")
    }

    /// Returns the message for an invalid answer.
    fn reminder(self) -> String {
        let more = if self.lasting { " s, a," } else { "" };
        let edit = if self.edit { " e" } else { "" };
        let letters = format!("y,{more}{edit}");
        let letters = letters.trim_end_matches(',');
        if self.lasting {
            format!("Please answer {letters} or n.")
        } else {
            format!("Please answer {letters} or n. Calls like this one are asked about every time.")
        }
    }
}

/// Shows the card and asks until the answer is valid. A cancelled question or a closed terminal counts as no.
fn converse(
    card_lines: &RenderedCard,
    arguments: &str,
    answers: CardAnswers,
    height: usize,
    watch: &PromptWatch,
) -> io::Result<ApprovalAnswer> {
    // stderr is not locked during the wait, so that a message about a cancelled call can be printed.
    let mut out = anstream::stderr();
    let max_lines = height.saturating_sub(ROWS_BESIDE).max(4);
    let is_cut = card_lines.arguments.len() > max_lines;
    show(
        &mut out,
        card_lines,
        if is_cut { max_lines } else { usize::MAX },
    )?;
    let view = if is_cut { ", [v]iew all" } else { "" };
    loop {
        write_question(&mut out, &format!("{}{view} > ", answers.question()))?;
        OPEN.store(true, Ordering::Relaxed);
        let line = watch.read_line();
        if matches!(line, Ok(PromptLine::Unwanted)) {
            // `OPEN` stays set, because the question is still on the terminal.
            return Ok(ApprovalAnswer::No);
        }
        OPEN.store(false, Ordering::Relaxed);
        let PromptLine::Typed(line) = line? else {
            writeln!(out)?;
            return Ok(ApprovalAnswer::No);
        };
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "once" => return Ok(ApprovalAnswer::Once),
            "s" | "session" if answers.lasting => return Ok(ApprovalAnswer::Session),
            "a" | "always" if answers.lasting => return Ok(ApprovalAnswer::Always),
            "n" | "no" | "" => return Ok(ApprovalAnswer::No),
            "e" | "edit" if answers.edit => {
                OPEN.store(true, Ordering::Relaxed);
                let edited = argument_editor::edit_arguments(&mut out, arguments, watch);
                if matches!(edited, Ok(EditedArguments::Unwanted)) {
                    return Ok(ApprovalAnswer::No);
                }
                OPEN.store(false, Ordering::Relaxed);
                match edited? {
                    EditedArguments::Other(edited) => return Ok(ApprovalAnswer::Edit(edited)),
                    EditedArguments::Same | EditedArguments::Unwanted => {
                        writeln!(out, "The arguments are unchanged.")?;
                    }
                }
            }
            "v" | "view" if is_cut => show(&mut out, card_lines, usize::MAX)?,
            _ => writeln!(out, "{}", answers.reminder())?,
        }
    }
}

fn show(out: &mut dyn Write, card_lines: &RenderedCard, max_lines: usize) -> io::Result<()> {
    for line in &card_lines.head {
        writeln!(out, "{line}")?;
    }
    for line in card_lines.arguments.iter().take(max_lines) {
        writeln!(out, "{line}")?;
    }
    if card_lines.arguments.len() > max_lines {
        writeln!(
            out,
            "  … {} more lines",
            card_lines.arguments.len() - max_lines
        )?;
    }
    for line in &card_lines.tail {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

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
            let answers = CardAnswers { lasting, edit };
            assert_eq!(
                (answers.question(), answers.reminder()),
                (question.into(), reminder.into())
            );
        }
    }
}
