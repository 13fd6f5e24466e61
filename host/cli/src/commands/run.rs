//! `mimir run`.

use std::io::Read as _;

use mimir_agent::{Conversation, Message, TaskEnd};
use mimir_core::text::sanitize;
use mimir_core::{ToolError, ToolErrorCode};
use serde_json::json;

use crate::agent::{
    AgentRuntime, ConversationSaver, JsonEventWriter, SavingEventSink, TerminalEventSink,
    new_conversation,
};
use crate::args::{GlobalOptions, RunArgs};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, note, styled, warn};
use crate::terminal::StartedCommand;
use mimir::setup::HostSetup;

use super::call::wait_for_interrupt;

/// Longest task in bytes: longer than the context of any model.
const MAX_TASK_SIZE: u64 = 16 << 20;

/// Has an agent work on a task.
pub async fn run(globals: &GlobalOptions, args: RunArgs) -> CommandResult {
    let printer = globals.printer();
    let task = task(&args.task);
    if !printer.is_json() {
        return shown(globals, &task?, args).await;
    }
    let lines = JsonEventWriter::default();
    let mut talk = Conversation::default();
    let ended = match task {
        Ok(task) => attempt(globals, &args, &task, &mut talk, &lines).await,
        Err(failure) => Err(failure),
    };
    let exit = exit(&ended);
    let mut end = json!({ "event": "end", "ok": exit == ExitReason::Done });
    if !talk.id.is_empty() {
        end["conversation"] = talk.id.as_str().into();
        end["spent"] = json!(talk.spent);
    }
    match &ended {
        Ok(ended) => {
            end["text"] = talk.last_reply().into();
            end["ended"] = ending_word(*ended).into();
            if let TaskEnd::Bound(bound) = ended {
                let message = format!("the task reached its limit of {bound} (`{}`)", bound.key());
                end["error"] = json!(ToolError::limit_exceeded(message));
            }
        }
        Err(CommandFailure::Reported { error, .. }) => {
            end["error"] = json!(error);
            if !error.remedies.is_empty() {
                end["wayOut"] = json!(error.remedies);
            }
        }
        Err(CommandFailure::Print(_)) => return ended.map(|_| exit),
    }
    lines.line(&end);
    lines.finish()?;
    Ok(exit)
}

async fn shown(globals: &GlobalOptions, task: &str, args: RunArgs) -> CommandResult {
    let shown = TerminalEventSink::new();
    let mut talk = Conversation::default();
    let ended = attempt(globals, &args, task, &mut talk, &shown).await;
    shown.close();
    let exit = exit(&ended);
    if ended.is_err() && talk.spent.tokens() > 0 {
        note(styled(FAINT, usage_line(&talk)));
    }
    let ended = ended?;
    if !shown.streams() {
        ResultPrinter::new(false).print_result(&(), |out| {
            let text = sanitize(talk.last_reply().to_owned());
            writeln!(out, "{}", text.trim_end())
        })?;
    }
    print_ending(ended);
    note(styled(FAINT, usage_line(&talk)));
    Ok(exit)
}

/// Runs the task until it ends or is cancelled. The conversation is saved in both cases.
async fn attempt(
    globals: &GlobalOptions,
    args: &RunArgs,
    task: &str,
    talk: &mut Conversation,
    face: &dyn mimir_agent::AgentEventSink,
) -> CommandResult<TaskEnd> {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let mut bench = AgentRuntime::new(
        setup,
        args.model.as_deref(),
        args.worker.as_deref(),
        args.approve,
        StartedCommand::Run,
    )
    .await?;
    let agent = bench.agent.clone();
    let saving = SavingEventSink {
        events: face,
        saver: ConversationSaver::for_agent(&bench),
    };
    *talk = new_conversation(&agent);
    talk.messages.push(Message::user(task));
    let work = async {
        tokio::select! {
            ended = agent.run_task(talk, &saving) => ended.map_err(CommandFailure::from),
            exit = wait_for_interrupt() => Err(CommandFailure::with_exit(
                ToolError::new(ToolErrorCode::Cancelled, "the task was cancelled"),
                exit,
            )),
        }
    };
    let ended = bench.run_with_reload(work).await?;
    talk.answer_open_calls();
    agent.absorb_side_usage(talk);
    saving.saver.save(talk);
    bench.pipeline().end_session(&talk.id);
    match ended {
        Ok(TaskEnd::Finished) if is_silent(talk) => Err(silent().into()),
        ended => ended,
    }
}

/// Returns true if the model returned neither text nor calls.
fn is_silent(talk: &Conversation) -> bool {
    talk.messages.iter().all(|message| match message {
        Message::Assistant { text, calls } => text.trim().is_empty() && calls.is_empty(),
        _ => true,
    })
}

fn silent() -> ToolError {
    let message = "the model returned an empty answer without tool calls";
    let ways = [
        "rephrase the task, or use another model with `--model PROVIDER/MODEL`",
        "raise `agent.maxAnswerTokens` if the model reasons before it answers",
    ];
    ToolError::unavailable(message).with_remedies(ways.map(str::to_owned))
}

fn task(words: &str) -> CommandResult<String> {
    let mut task = words.to_owned();
    if words == "-" {
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
        return Err(CommandFailure::usage("the task is too long for any model"));
    }
    if task.trim().is_empty() {
        return Err(CommandFailure::usage(
            "the task is empty: describe what to do",
        ));
    }
    Ok(task)
}

fn exit(ended: &CommandResult<TaskEnd>) -> ExitReason {
    match ended {
        Ok(TaskEnd::Finished) => ExitReason::Done,
        Ok(TaskEnd::Length | TaskEnd::Bound(_)) => ExitReason::Limit,
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
        TaskEnd::Bound(_) => "bound",
    }
}

/// Reports why a task ended unfinished.
pub fn print_ending(ended: TaskEnd) {
    match ended {
        TaskEnd::Finished => {}
        TaskEnd::Length => warn("the answer was truncated at `agent.maxAnswerTokens`"),
        TaskEnd::Withheld => warn("the provider stopped the answer"),
        TaskEnd::Bound(bound) => warn(format_args!(
            "stopped: the task reached its limit of {bound}; raise `{}` in the settings to continue",
            bound.key()
        )),
    }
}

/// Usage of a conversation, on a line.
pub fn usage_line(talk: &Conversation) -> String {
    let spent = &talk.spent;
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
    format!(
        "{}: {} {answers}, {} {calls}, {} + {} tokens{cost}",
        mimir_core::text::visible(&talk.model),
        spent.turns,
        spent.tool_calls,
        spent.input_tokens,
        spent.output_tokens,
    )
}
