//! `mimir chat`.

use std::pin::pin;

use mimir_agent::{Agent, Conversation, Message, TaskEnd};
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};

use crate::agent::{
    AgentRuntime, ConversationSaver, SavingEventSink, TerminalEventSink, new_conversation,
};
use crate::args::{ApproveMode, ChatArgs, GlobalOptions};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, STRONG, note, styled};
use crate::terminal::StartedCommand;
use mimir::setup::HostSetup;

use super::call::wait_for_interrupt;
use super::run::{print_ending, usage_line};

mod line_editor;
mod slash_commands;

use line_editor::{ChatInput, LineEditor};
use slash_commands::{ChatFlow, SlashCommand};

/// Most characters shown of the last message in a resumed conversation.
const MAX_RESUMED_CHARS: usize = 200;

/// Chats until the person leaves.
pub async fn run(globals: &GlobalOptions, args: ChatArgs) -> CommandResult {
    let printer = globals.printer();
    if printer.is_json() {
        return Err(CommandFailure::usage(
            "`mimir chat` does not support --json: use `mimir run --json`, which prints events",
        ));
    }
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let mut bench = AgentRuntime::new(
        setup,
        args.model.as_deref(),
        None,
        ApproveMode::Ask,
        StartedCommand::Chat,
    )
    .await?;
    let mut talk = match &args.resume {
        Some(id) => resumed(&bench, id.as_deref())?,
        None => new_conversation(&bench.agent),
    };
    // Before the line editor saves the handling of Ctrl-C, because it restores that after each line.
    let _hears = listen_for_ctrl_c()?;
    let typist = LineEditor::new(bench.conversations.read_input_history())?;
    greet(&bench.agent);
    let exit = talking(globals, &mut bench, &mut talk, &typist).await;
    bench
        .conversations
        .save_input_history(&typist.input_history());
    if !talk.messages.is_empty() {
        ConversationSaver::for_agent(&bench).save(&talk);
        note(styled(FAINT, usage_line(&talk)));
        let id = &talk.id;
        note(styled(
            FAINT,
            format_args!("use `mimir chat --resume {id}` to continue"),
        ));
    }
    bench.pipeline().end_session(&talk.id);
    exit
}

fn greet(agent: &Agent) {
    let model = visible(agent.model.name());
    let help = styled(FAINT, "/help lists commands, Ctrl-D ends");
    note(format_args!("{} {help}", styled(STRONG, model)));
}

fn resumed(bench: &AgentRuntime, id: Option<&str>) -> Result<Conversation, ToolError> {
    let mut talk = bench.conversations.load(id)?;
    bench
        .pipeline()
        .restore_session_label(&talk.id, &talk.restored_label());
    talk.answer_open_calls();
    let count = talk.messages.len();
    let said = talk
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User { text } => Some(text),
            _ => None,
        });
    let said = said.map_or_else(String::new, |text| {
        format!(
            "; your last message: {}",
            visible(prefix(text, MAX_RESUMED_CHARS))
        )
    });
    note(styled(FAINT, format_args!("{count} messages{said}")));
    Ok(talk)
}

async fn talking(
    globals: &GlobalOptions,
    bench: &mut AgentRuntime,
    talk: &mut Conversation,
    typist: &LineEditor,
) -> CommandResult {
    loop {
        typist.set_completions(slash_commands::completions(bench.pipeline()));
        let line = bench
            .run_with_reload(async {
                tokio::select! {
                    typed = typist.read_line() => Ok(typed),
                    exit = wait_for_termination() => Err(exit),
                }
            })
            .await?;
        let line = match line {
            Ok(ChatInput::Line(line)) => line,
            Ok(ChatInput::Nothing) => continue,
            Ok(ChatInput::End) => return Ok(ExitReason::Done),
            Err(exit) => return Ok(exit),
        };
        match SlashCommand::parse(&line) {
            Some(command) => {
                let command = match command {
                    Ok(command) => command,
                    Err(error) => {
                        print_error(&error);
                        continue;
                    }
                };
                match slash_commands::carry_out(globals, bench, talk, command).await {
                    Ok(ChatFlow::Talk) => {}
                    Ok(ChatFlow::Leave) => return Ok(ExitReason::Done),
                    Err(CommandFailure::Reported { error, .. }) => print_error(&error),
                    Err(failure @ CommandFailure::Print(_)) => return Err(failure),
                }
            }
            None => {
                talk.messages.push(Message::user(line));
                if let Some(exit) = run_turn(bench, talk).await? {
                    return Ok(exit);
                }
            }
        }
    }
}

/// Reason why a turn ended early.
enum TurnInterrupt {
    /// The person cancelled the reply.
    Turn,
    /// The program was asked to end.
    All(ExitReason),
}

/// Runs a turn of the agent. Returns the exit code if the program has to end.
async fn run_turn(
    bench: &mut AgentRuntime,
    talk: &mut Conversation,
) -> CommandResult<Option<ExitReason>> {
    let agent = bench.agent.clone();
    let shown = TerminalEventSink::new();
    let face = SavingEventSink {
        events: &shown,
        saver: ConversationSaver::for_agent(bench),
    };
    let ended = bench
        .run_with_reload(run_agent(&agent, talk, &shown, &face))
        .await?;
    shown.close();
    talk.answer_open_calls();
    agent.absorb_side_usage(talk);
    face.saver.save(talk);
    match ended {
        Ok(Ok(ended)) => {
            if !shown.streams() {
                last(talk)?;
            }
            print_ending(ended);
        }
        Ok(Err(error)) => print_error(&error),
        Err(TurnInterrupt::Turn) => note(styled(FAINT, "stopped")),
        Err(TurnInterrupt::All(exit)) => return Ok(Some(exit)),
    }
    Ok(None)
}

async fn run_agent(
    agent: &Agent,
    talk: &mut Conversation,
    shown: &TerminalEventSink,
    face: &SavingEventSink<'_>,
) -> Result<Result<TaskEnd, ToolError>, TurnInterrupt> {
    let mut task = pin!(agent.run_task(talk, face));
    loop {
        tokio::select! {
            biased;
            ended = &mut task => return Ok(ended),
            exit = wait_for_interrupt() => match exit {
                // The first Ctrl-C cancels the running calls.
                ExitReason::Interrupted if shown.stop_calls() => {}
                ExitReason::Interrupted => return Err(TurnInterrupt::Turn),
                exit => return Err(TurnInterrupt::All(exit)),
            },
        }
    }
}

/// Handles Ctrl-C from now on, instead of ending the program.
#[cfg(unix)]
fn listen_for_ctrl_c() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(not(unix))]
fn listen_for_ctrl_c() -> std::io::Result<()> {
    Ok(())
}

/// Completes when the program is asked to end while a line is typed; there, Ctrl-C arrives as a key.
async fn wait_for_termination() -> ExitReason {
    loop {
        match wait_for_interrupt().await {
            ExitReason::Interrupted => {}
            exit => return exit,
        }
    }
}

/// Prints the final answer, unless it was streamed.
fn last(talk: &Conversation) -> CommandResult<()> {
    let Some(Message::Assistant { text, .. }) = talk.messages.last() else {
        return Ok(());
    };
    let text = mimir_core::text::sanitize(text.clone());
    ResultPrinter::new(false).print_result(&(), |out| writeln!(out, "{}", text.trim_end()))
}

fn print_error(error: &ToolError) {
    if error.code != ToolErrorCode::Cancelled {
        let _ = crate::output::outcome::error(error);
    }
}
