//! `mimir run`.

use std::io::Read as _;

use mimir_agent::{Conversation, Ended, Message};
use mimir_core::text::sanitize;
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::agent::{Bench, Lines, Saver, Saving, Shown, conversation};
use crate::args::{Approve, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, note, styled, warn};
use crate::terminal::Started;
use mimir::setup::Setup;

use super::call::interrupted;

/// Arguments of `mimir run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunWish {
    /// The task; `-` reads it from stdin.
    pub task: String,
    /// Model to use instead of the one in the settings.
    pub model: Option<String>,
    /// Worker to run the task as.
    pub worker: Option<String>,
    /// Answer to approval questions.
    pub approve: Approve,
}

/// Longest task in bytes: longer than the context of any model.
const TASK_MOST: u64 = 16 << 20;

/// Has an agent work on a task.
pub async fn run(globals: &Globals, printer: Printer, wish: RunWish) -> Result<Exit, Failure> {
    let task = task(&wish.task);
    if !printer.is_json() {
        return shown(globals, &task?, wish).await;
    }
    let lines = Lines::default();
    let mut talk = Conversation::default();
    let ended = match task {
        Ok(task) => attempt(globals, &wish, &task, &mut talk, &lines).await,
        Err(failure) => Err(failure),
    };
    let exit = exit(&ended);
    let mut end = json!({ "event": "end", "ok": exit == Exit::Done });
    if !talk.id.is_empty() {
        end["conversation"] = talk.id.as_str().into();
        end["spent"] = json!(talk.spent);
    }
    match &ended {
        Ok(ended) => {
            end["text"] = talk.said().into();
            end["ended"] = word(*ended).into();
            if let Ended::Bound(bound) = ended {
                let message = format!("the task reached its limit of {bound} (`{}`)", bound.key());
                end["error"] = json!(ToolError::new(Code::LimitExceeded, message));
            }
        }
        Err(Failure::Told { error, .. }) => {
            end["error"] = json!(error);
            if !error.way_out.is_empty() {
                end["wayOut"] = json!(error.way_out);
            }
        }
        Err(Failure::Print(_)) => return ended.map(|_| exit),
    }
    lines.line(&end);
    lines.end()?;
    Ok(exit)
}

async fn shown(globals: &Globals, task: &str, wish: RunWish) -> Result<Exit, Failure> {
    let shown = Shown::new();
    let mut talk = Conversation::default();
    let ended = attempt(globals, &wish, task, &mut talk, &shown).await;
    shown.close();
    let exit = exit(&ended);
    if ended.is_err() && talk.spent.tokens() > 0 {
        note(styled(FAINT, bill(&talk)));
    }
    let ended = ended?;
    if !shown.streams() {
        Printer::new(false).result(&(), |out| {
            let text = sanitize(talk.said().to_owned());
            writeln!(out, "{}", text.trim_end())
        })?;
    }
    remark(ended);
    note(styled(FAINT, bill(&talk)));
    Ok(exit)
}

/// Runs the task until it ends or is cancelled. The conversation is saved in both cases.
async fn attempt(
    globals: &Globals,
    wish: &RunWish,
    task: &str,
    talk: &mut Conversation,
    face: &dyn mimir_agent::Face,
) -> Result<Ended, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    let mut bench = Bench::new(
        setup,
        wish.model.as_deref(),
        wish.worker.as_deref(),
        wish.approve,
        Started::Run,
    )
    .await?;
    let agent = bench.agent.clone();
    let saving = Saving {
        face,
        saver: Saver::of(&bench),
    };
    *talk = conversation(&agent);
    talk.messages.push(Message::user(task));
    let work = async {
        tokio::select! {
            ended = agent.task(talk, &saving) => ended.map_err(Failure::from),
            exit = interrupted() => Err(Failure::ending(
                ToolError::new(Code::Cancelled, "the task was cancelled"),
                exit,
            )),
        }
    };
    let ended = bench.following(work).await?;
    talk.mend();
    agent.take_up_rest(talk);
    saving.saver.save(talk);
    bench.pipeline().end_session(&talk.id);
    match ended {
        Ok(Ended::Finished) if is_silent(talk) => Err(silent().into()),
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
    ToolError::new(Code::Unavailable, message).with_way_out(ways.map(str::to_owned))
}

fn task(words: &str) -> Result<String, Failure> {
    let mut task = words.to_owned();
    if words == "-" {
        task.clear();
        let read = std::io::stdin()
            .lock()
            .take(TASK_MOST + 1)
            .read_to_string(&mut task);
        read.map_err(|error| Failure::usage(format!("cannot read the task from stdin: {error}")))?;
    }
    if task.len() as u64 > TASK_MOST {
        return Err(Failure::usage("the task is too long for any model"));
    }
    if task.trim().is_empty() {
        return Err(Failure::usage("the task is empty: describe what to do"));
    }
    Ok(task)
}

fn exit(ended: &Result<Ended, Failure>) -> Exit {
    match ended {
        Ok(Ended::Finished) => Exit::Done,
        Ok(Ended::Length | Ended::Bound(_)) => Exit::Limit,
        Ok(Ended::Withheld) => Exit::Refused,
        Err(Failure::Told { exit, .. }) => *exit,
        Err(Failure::Print(_)) => Exit::Failed,
    }
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Length => "length",
        Ended::Withheld => "withheld",
        Ended::Bound(_) => "bound",
    }
}

/// Reports why a task ended unfinished.
pub fn remark(ended: Ended) {
    match ended {
        Ended::Finished => {}
        Ended::Length => warn("the answer was truncated at `agent.maxAnswerTokens`"),
        Ended::Withheld => warn("the provider stopped the answer"),
        Ended::Bound(bound) => warn(format_args!(
            "stopped: the task reached its limit of {bound}; raise `{}` in the settings to continue",
            bound.key()
        )),
    }
}

/// Usage of a conversation, on a line.
pub fn bill(talk: &Conversation) -> String {
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
