//! `mimir run`.

use std::io::Read as _;

use mimir_agent::{Conversation, Message, TaskEnd};
use mimir_core::text::sanitize;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::agent::{
    AgentRuntime, ConversationSaver, DiffEventSink, JsonEventWriter, SavingEventSink,
    TerminalEventSink, new_conversation, read_image,
};
use crate::args::{GlobalOptions, RunArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::workspace_option::all_with_workspace;
use crate::output::{FAINT, ResultPrinter, note, styled, warn};
use crate::terminal::StartedCommand;
use mimir::setup::HostSetup;

use super::call::wait_for_interrupt;

/// Maximum size of a task in bytes, which is more than the context of any model.
const MAX_TASK_SIZE: u64 = 16 << 20;

/// Runs an agent on a task.
pub async fn run(globals: &GlobalOptions, args: RunArgs) -> CommandResult {
    let printer = globals.printer();
    let task = read_task(&args.task);
    if !printer.is_json() {
        return run_on_terminal(globals, &task?, args).await;
    }
    let lines = JsonEventWriter::default();
    let mut conversation = Conversation::default();
    let ended = match task {
        Ok(task) => run_task(globals, &args, &task, &mut conversation, &lines, false).await,
        Err(failure) => Err(failure),
    };
    let exit = exit_reason(&ended);
    let mut end = json!({ "event": "end", "ok": exit == ExitReason::Done });
    if !conversation.id.is_empty() {
        end["conversation"] = conversation.id.as_str().into();
        end["spent"] = json!(conversation.spent);
    }
    match &ended {
        Ok(ended) => {
            end["text"] = conversation.last_reply().into();
            end["ended"] = ending_word(*ended).into();
            if let TaskEnd::LimitReached(bound) = ended {
                let message = format!("the task reached {bound} (`{}`)", bound.key());
                end["error"] = json!(ToolError::limit_exceeded(message));
            }
        }
        Err(CommandFailure::Reported { error, .. }) => {
            end["error"] = json!(error);
            if !error.remedies.is_empty() {
                end["wayOut"] = json!(all_with_workspace(&error.remedies));
            }
        }
        Err(CommandFailure::Print(_)) => return ended.map(|_| exit),
    }
    lines.write_line(&end);
    lines.finish()?;
    Ok(exit)
}

async fn run_on_terminal(globals: &GlobalOptions, task: &str, args: RunArgs) -> CommandResult {
    let terminal_sink = TerminalEventSink::new();
    let mut conversation = Conversation::default();
    let ended = run_task(
        globals,
        &args,
        task,
        &mut conversation,
        &terminal_sink,
        true,
    )
    .await;
    terminal_sink.close();
    let exit = exit_reason(&ended);
    if ended.is_err() && conversation.spent.tokens() > 0 {
        note(styled(FAINT, usage_line(&conversation)));
    }
    let ended = ended?;
    if !terminal_sink.streams() {
        ResultPrinter::new(false).print_result(&(), |out| {
            let text = sanitize(conversation.last_reply().to_owned());
            writeln!(out, "{}", text.trim_end())
        })?;
    }
    print_ending(ended);
    note(styled(FAINT, usage_line(&conversation)));
    Ok(exit)
}

/// Runs the task until it ends or is cancelled. Saves the conversation in both cases. With `shows_diffs`, the changes of
/// files are shown on a terminal.
async fn run_task(
    globals: &GlobalOptions,
    args: &RunArgs,
    task: &str,
    conversation: &mut Conversation,
    events: &dyn mimir_agent::AgentEventSink,
    shows_diffs: bool,
) -> CommandResult<TaskEnd> {
    let setup = HostSetup::find_with_bundles(globals.workspace.as_deref(), true).await?;
    let mut runtime = AgentRuntime::new(
        setup,
        args.model.as_deref(),
        args.worker.as_deref(),
        args.approve,
        StartedCommand::Run,
    )
    .await?;
    let agent = runtime.agent.clone();
    let mut images = Vec::new();
    for path in &args.image {
        images.push(read_image(&agent, path, images.len())?);
    }
    let diff_sink = DiffEventSink::new(events, runtime.change_diffs());
    let saving_sink = SavingEventSink {
        events: if shows_diffs { &diff_sink } else { events },
        saver: ConversationSaver::for_agent(&runtime),
    };
    *conversation = new_conversation(&agent);
    conversation.worker.clone_from(&args.worker);
    conversation
        .messages
        .push(Message::user_with_images(task, images));
    let work = async {
        tokio::select! {
            ended = agent.run_task(conversation, &saving_sink) => ended.map_err(CommandFailure::from),
            exit = wait_for_interrupt() => Err(CommandFailure::with_exit(
                ToolError::new(ToolErrorCode::Cancelled, "the task was cancelled"),
                exit,
            )),
        }
    };
    let ended = runtime.run_with_reload(work).await?;
    conversation.answer_open_calls();
    agent.absorb_side_usage(conversation);
    saving_sink.saver.save(conversation);
    runtime.pipeline().end_session(&conversation.id);
    match ended {
        Ok(TaskEnd::Finished) if is_empty_answer(conversation) => Err(empty_answer().into()),
        ended => ended,
    }
}

/// Returns true if the model has returned neither text nor calls.
fn is_empty_answer(conversation: &Conversation) -> bool {
    conversation.messages.iter().all(|message| match message {
        Message::Assistant { text, calls } => text.trim().is_empty() && calls.is_empty(),
        _ => true,
    })
}

fn empty_answer() -> ToolError {
    let message = "the model returned an empty answer without tool calls";
    let remedies = [
        "rephrase the task, or use another model with `--model PROVIDER/MODEL`",
        "raise `agent.maxAnswerTokens` if the model reasons before it answers",
    ];
    ToolError::unavailable(message).with_remedies(remedies.map(str::to_owned))
}

fn read_task(argument: &str) -> CommandResult<String> {
    let mut task = argument.to_owned();
    if argument == "-" {
        task.clear();
        let read = std::io::stdin()
            .lock()
            .take(MAX_TASK_SIZE + 1)
            .read_to_string(&mut task);
        read.map_err(|error| {
            CommandFailure::usage(format!("cannot read the task from stdin: {error}"))
        })?;
    }
    if task.len() as u64 > MAX_TASK_SIZE {
        return Err(CommandFailure::usage(
            "the task is too long: expected at most 16 MiB",
        ));
    }
    if task.trim().is_empty() {
        return Err(CommandFailure::usage(
            "the task is empty: describe what to do",
        ));
    }
    Ok(task)
}

fn exit_reason(ended: &CommandResult<TaskEnd>) -> ExitReason {
    match ended {
        Ok(TaskEnd::Finished) => ExitReason::Done,
        Ok(TaskEnd::Length | TaskEnd::LimitReached(_)) => ExitReason::Limit,
        Ok(TaskEnd::Withheld) => ExitReason::Refused,
        Err(CommandFailure::Reported { exit, .. }) => *exit,
        Err(CommandFailure::Print(_)) => ExitReason::Failed,
    }
}

fn ending_word(ended: TaskEnd) -> &'static str {
    match ended {
        TaskEnd::Finished => "finished",
        TaskEnd::Length => "length",
        TaskEnd::Withheld => "withheld",
        TaskEnd::LimitReached(_) => "bound",
    }
}

/// Prints the reason if a task ended unfinished.
pub fn print_ending(ended: TaskEnd) {
    match ended {
        TaskEnd::Finished => {}
        TaskEnd::Length => warn("the answer was truncated at `agent.maxAnswerTokens`"),
        TaskEnd::Withheld => warn("the provider stopped the answer"),
        TaskEnd::LimitReached(bound) => warn(format_args!(
            "stopped: the task reached {bound}; raise `{}` in the settings to continue",
            bound.key()
        )),
    }
}

/// Describes the usage of a conversation in one line.
pub fn usage_line(conversation: &Conversation) -> String {
    let spent = &conversation.spent;
    let cost = match spent.cost {
        Some(cost) => format!(", {cost:.4} in all"),
        None => String::new(),
    };
    let answers = if spent.turns == 1 {
        "answer"
    } else {
        "answers"
    };
    let calls = if spent.tool_calls == 1 {
        "call"
    } else {
        "calls"
    };
    let cached = match spent.cached_tokens {
        0 => String::new(),
        cached => format!(" ({cached} from the provider's cache)"),
    };
    format!(
        "{}: {} {answers}, {} {calls}, {} + {} tokens{cached}{cost}",
        mimir_core::text::visible(&conversation.model),
        spent.turns,
        spent.tool_calls,
        spent.input_tokens,
        spent.output_tokens,
    )
}
