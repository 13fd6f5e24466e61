//! `mimir chat`.

use std::pin::pin;

use mimir_agent::{Agent, Conversation, Message, TaskEnd};
use mimir_core::text::{prefix, visible};
use mimir_core::{ToolError, ToolErrorCode};

use crate::agent::{
    AgentRuntime, ConversationSaver, DiffEventSink, SavingEventSink, TerminalEventSink,
    new_conversation,
};
use crate::args::{ApproveMode, ChatArgs, GlobalOptions};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::progress::ProgressLine;
use crate::output::{FAINT, ResultPrinter, STRONG, note, styled};
use crate::terminal::StartedCommand;
use mimir::setup::HostSetup;
use mimir::teams::spawn_refresh;

use super::call::wait_for_interrupt;
use super::run::{print_ending, usage_line};

mod line_editor;
mod slash_commands;
mod stored;

use line_editor::{ChatInput, LineEditor};
use slash_commands::{ChatFlow, SlashCommand};

/// Maximum number of characters shown of the last message in a resumed conversation.
const MAX_RESUMED_CHARS: usize = 200;

/// Runs the chat until the user ends it.
pub async fn run(globals: &GlobalOptions, args: ChatArgs) -> CommandResult {
    if args.list || args.search.is_some() {
        return stored::list(globals, args.search.as_deref());
    }
    if let Some(id) = &args.delete {
        return stored::delete(globals, id);
    }
    let printer = globals.printer();
    if printer.is_json() {
        return Err(CommandFailure::usage(
            "`mimir chat` does not support --json: use `mimir run --json`, which prints events",
        ));
    }
    let setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), false).await?;
    let refresh = spawn_refresh(&setup);
    let mut runtime = AgentRuntime::new(
        setup,
        args.model.as_deref(),
        None,
        ApproveMode::Ask,
        StartedCommand::Chat,
    )
    .await?;
    runtime.refresh_teams(refresh);
    let mut conversation = match &args.resume {
        Some(id) => resume_conversation(&runtime, id.as_deref())?,
        None => new_conversation(&runtime.agent),
    };
    // Before the line editor is created, because it restores the current handling of Ctrl-C after each line.
    let _ctrl_c = listen_for_ctrl_c()?;
    let editor = LineEditor::new(runtime.conversations.read_input_history())?;
    greet(&runtime.agent);
    let exit = chat_loop(globals, &mut runtime, &mut conversation, &editor).await;
    runtime
        .conversations
        .save_input_history(&editor.input_history());
    if !conversation.messages.is_empty() {
        ConversationSaver::for_agent(&runtime).save(&conversation);
        note(styled(FAINT, usage_line(&conversation)));
        let id = &conversation.id;
        note(styled(
            FAINT,
            format_args!("use `mimir chat --resume {id}` to continue"),
        ));
    }
    runtime.pipeline().end_session(&conversation.id);
    exit
}

fn greet(agent: &Agent) {
    let model = visible(agent.model.name());
    let help = styled(FAINT, "/help lists commands, Ctrl-D ends");
    note(format_args!("{} {help}", styled(STRONG, model)));
}

fn resume_conversation(
    runtime: &AgentRuntime,
    id: Option<&str>,
) -> Result<Conversation, ToolError> {
    let mut conversation = runtime.conversations.load(id)?;
    runtime
        .pipeline()
        .restore_session_label(&conversation.id, &conversation.restored_label());
    conversation.answer_open_calls();
    let count = conversation.messages.len();
    let last_message = conversation
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User { text, .. } => Some(text),
            _ => None,
        });
    let last_message = last_message.map_or_else(String::new, |text| {
        format!(
            "; your last message: {}",
            visible(prefix(text, MAX_RESUMED_CHARS))
        )
    });
    note(styled(
        FAINT,
        format_args!("{count} messages{last_message}"),
    ));
    Ok(conversation)
}

async fn chat_loop(
    globals: &GlobalOptions,
    runtime: &mut AgentRuntime,
    conversation: &mut Conversation,
    editor: &LineEditor,
) -> CommandResult {
    // Images for the next message.
    let mut images = Vec::new();
    loop {
        editor.set_completions(slash_commands::completions(runtime.pipeline()));
        let line = runtime
            .run_with_reload(async {
                tokio::select! {
                    typed = editor.read_line() => Ok(typed),
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
        let message = match SlashCommand::parse(&line) {
            Some(command) => {
                let command = match command {
                    Ok(command) => command,
                    Err(error) => {
                        print_error(&error);
                        continue;
                    }
                };
                let result = slash_commands::run_command(
                    globals,
                    runtime,
                    conversation,
                    &mut images,
                    command,
                );
                match result.await {
                    Ok(ChatFlow::Continue) => continue,
                    Ok(ChatFlow::Send(message)) => message,
                    Ok(ChatFlow::End) => return Ok(ExitReason::Done),
                    Err(CommandFailure::Reported { error, .. }) => {
                        print_error(&error);
                        continue;
                    }
                    Err(failure @ CommandFailure::Print(_)) => return Err(failure),
                }
            }
            None => line,
        };
        let message = Message::user_with_images(message, std::mem::take(&mut images));
        conversation.messages.push(message);
        if let Some(exit) = run_turn(runtime, conversation).await? {
            return Ok(exit);
        }
    }
}

/// Reason why a turn ended early.
enum TurnInterrupt {
    /// The user cancelled the reply.
    Turn,
    /// The program has to end.
    All(ExitReason),
}

/// Runs a turn of the agent. Returns an exit reason if the program has to end.
async fn run_turn(
    runtime: &mut AgentRuntime,
    conversation: &mut Conversation,
) -> CommandResult<Option<ExitReason>> {
    let agent = runtime.agent.clone();
    let terminal_sink = TerminalEventSink::new();
    let diff_sink = DiffEventSink::new(&terminal_sink, runtime.change_diffs());
    let event_sink = SavingEventSink {
        events: &diff_sink,
        saver: ConversationSaver::for_agent(runtime),
    };
    let result = runtime
        .run_with_reload(run_agent(&agent, conversation, &terminal_sink, &event_sink))
        .await?;
    terminal_sink.close();
    conversation.answer_open_calls();
    agent.absorb_side_usage(conversation);
    event_sink.saver.save(conversation);
    match result {
        Ok(Ok(task_end)) => {
            if !terminal_sink.streams() {
                print_final_answer(conversation)?;
            }
            print_ending(task_end);
        }
        Ok(Err(error)) => print_error(&error),
        Err(TurnInterrupt::Turn) => note(styled(FAINT, "stopped")),
        Err(TurnInterrupt::All(exit)) => return Ok(Some(exit)),
    }
    Ok(None)
}

/// Summarises the conversation. Ctrl-C cancels it.
async fn compact(
    runtime: &mut AgentRuntime,
    conversation: &mut Conversation,
) -> CommandResult<ChatFlow> {
    let agent = runtime.agent.clone();
    let terminal_sink = TerminalEventSink::new();
    let progress = ProgressLine::spinner("summarising (Ctrl-C cancels)".to_owned());
    let work = async {
        tokio::select! {
            biased;
            result = agent.compact(conversation, &terminal_sink) => Ok(result),
            exit = wait_for_interrupt() => Err(exit),
        }
    };
    let result = runtime.run_with_reload(work).await?;
    drop(progress);
    terminal_sink.close();
    ConversationSaver::for_agent(runtime).save(conversation);
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error.into()),
        Err(ExitReason::Interrupted) => note(styled(FAINT, "stopped")),
        Err(_) => return Ok(ChatFlow::End),
    }
    Ok(ChatFlow::Continue)
}

async fn run_agent(
    agent: &Agent,
    conversation: &mut Conversation,
    terminal_sink: &TerminalEventSink,
    event_sink: &SavingEventSink<'_>,
) -> Result<Result<TaskEnd, ToolError>, TurnInterrupt> {
    let mut task = pin!(agent.run_task(conversation, event_sink));
    loop {
        tokio::select! {
            biased;
            result = &mut task => return Ok(result),
            exit = wait_for_interrupt() => match exit {
                // The first Ctrl-C cancels the running calls, the next one the reply.
                ExitReason::Interrupted if terminal_sink.stop_calls() => {}
                ExitReason::Interrupted => return Err(TurnInterrupt::Turn),
                exit => return Err(TurnInterrupt::All(exit)),
            },
        }
    }
}

/// Stops Ctrl-C from ending the program.
#[cfg(unix)]
fn listen_for_ctrl_c() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(not(unix))]
fn listen_for_ctrl_c() -> std::io::Result<()> {
    Ok(())
}

/// Completes when the program has to end while a line is edited. Ignores Ctrl-C, which the line editor handles as a
/// key.
async fn wait_for_termination() -> ExitReason {
    loop {
        match wait_for_interrupt().await {
            ExitReason::Interrupted => {}
            exit => return exit,
        }
    }
}

/// Prints the final answer, for an output that did not stream it.
fn print_final_answer(conversation: &Conversation) -> CommandResult<()> {
    let Some(Message::Assistant { text, .. }) = conversation.messages.last() else {
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
