//! `mimir chat`.

use std::pin::pin;

use mimir_agent::{Agent, Conversation, Ended, Message};
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};

use crate::agent::{Bench, Saver, Saving, Shown, conversation};
use crate::args::{Approve, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, STRONG, note, styled};
use crate::terminal::Started;
use mimir::setup::Setup;

use super::call::interrupted;
use super::run::{bill, remark};

mod typist;
mod wishes;

use typist::{Typed, Typist};
use wishes::{Next, Wish};

/// Arguments of `mimir chat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatWish {
    /// The conversation to continue: its id, or the newest if no id is given.
    #[expect(
        clippy::option_option,
        reason = "without it, with it, and with the id of one"
    )]
    pub resume: Option<Option<String>>,
    /// Model to use instead of the one in the settings.
    pub model: Option<String>,
}

/// Most characters shown of the last message in a resumed conversation.
const LAST: usize = 200;

/// Chats until the person leaves.
pub async fn run(globals: &Globals, printer: Printer, wish: ChatWish) -> Result<Exit, Failure> {
    if printer.is_json() {
        return Err(Failure::usage(
            "`mimir chat` does not support --json: use `mimir run --json`, which prints events",
        ));
    }
    let setup = Setup::find(globals.workspace.as_deref())?;
    let mut bench = Bench::new(
        setup,
        wish.model.as_deref(),
        None,
        Approve::Ask,
        Started::Chat,
    )
    .await?;
    let mut talk = match &wish.resume {
        Some(id) => resumed(&bench, id.as_deref())?,
        None => conversation(&bench.agent),
    };
    // Before the line editor saves the handling of Ctrl-C, because it restores that after each line.
    let _hears = hears()?;
    let typist = Typist::new(bench.shelf.typed())?;
    greet(&bench.agent);
    let exit = talking(globals, &mut bench, &mut talk, &typist).await;
    bench.shelf.keep_typed(&typist.typed());
    if !talk.messages.is_empty() {
        Saver::of(&bench).save(&talk);
        note(styled(FAINT, bill(&talk)));
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

fn resumed(bench: &Bench, id: Option<&str>) -> Result<Conversation, ToolError> {
    let mut talk = bench.shelf.take(id)?;
    bench.pipeline().resume(&talk.id, &talk.has_read());
    talk.mend();
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
        format!("; your last message: {}", visible(prefix(text, LAST)))
    });
    note(styled(FAINT, format_args!("{count} messages{said}")));
    Ok(talk)
}

async fn talking(
    globals: &Globals,
    bench: &mut Bench,
    talk: &mut Conversation,
    typist: &Typist,
) -> Result<Exit, Failure> {
    loop {
        typist.knows(wishes::completions(bench.pipeline()));
        let line = bench
            .following(async {
                tokio::select! {
                    typed = typist.line() => Ok(typed),
                    exit = ended() => Err(exit),
                }
            })
            .await?;
        let line = match line {
            Ok(Typed::Line(line)) => line,
            Ok(Typed::Nothing) => continue,
            Ok(Typed::End) => return Ok(Exit::Done),
            Err(exit) => return Ok(exit),
        };
        match Wish::read(&line) {
            Some(wish) => {
                let wish = match wish {
                    Ok(wish) => wish,
                    Err(error) => {
                        told(&error);
                        continue;
                    }
                };
                match wishes::carry_out(globals, bench, talk, wish).await {
                    Ok(Next::Talk) => {}
                    Ok(Next::Leave) => return Ok(Exit::Done),
                    Err(Failure::Told { error, .. }) => told(&error),
                    Err(failure @ Failure::Print(_)) => return Err(failure),
                }
            }
            None => {
                talk.messages.push(Message::user(line));
                if let Some(exit) = turn(bench, talk).await? {
                    return Ok(exit);
                }
            }
        }
    }
}

/// Reason why a turn ended early.
enum Stopped {
    /// The person cancelled the reply.
    Turn,
    /// The program was asked to end.
    All(Exit),
}

/// Runs a turn of the agent. Returns the exit code if the program has to end.
async fn turn(bench: &mut Bench, talk: &mut Conversation) -> Result<Option<Exit>, Failure> {
    let agent = bench.agent.clone();
    let shown = Shown::new();
    let face = Saving {
        face: &shown,
        saver: Saver::of(bench),
    };
    let ended = bench.following(work(&agent, talk, &shown, &face)).await?;
    shown.close();
    talk.mend();
    agent.take_up_rest(talk);
    face.saver.save(talk);
    match ended {
        Ok(Ok(ended)) => {
            if !shown.streams() {
                last(talk)?;
            }
            remark(ended);
        }
        Ok(Err(error)) => told(&error),
        Err(Stopped::Turn) => note(styled(FAINT, "stopped")),
        Err(Stopped::All(exit)) => return Ok(Some(exit)),
    }
    Ok(None)
}

async fn work(
    agent: &Agent,
    talk: &mut Conversation,
    shown: &Shown,
    face: &Saving<'_>,
) -> Result<Result<Ended, ToolError>, Stopped> {
    let mut task = pin!(agent.task(talk, face));
    loop {
        tokio::select! {
            biased;
            ended = &mut task => return Ok(ended),
            exit = interrupted() => match exit {
                // The first Ctrl-C cancels the running calls.
                Exit::Interrupted if shown.stop() => {}
                Exit::Interrupted => return Err(Stopped::Turn),
                exit => return Err(Stopped::All(exit)),
            },
        }
    }
}

/// Handles Ctrl-C from now on, instead of ending the program.
#[cfg(unix)]
fn hears() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(not(unix))]
fn hears() -> std::io::Result<()> {
    Ok(())
}

/// Completes when the program is asked to end while a line is typed; there, Ctrl-C arrives as a key.
async fn ended() -> Exit {
    loop {
        match interrupted().await {
            Exit::Interrupted => {}
            exit => return exit,
        }
    }
}

/// Prints the final answer, unless it was streamed.
fn last(talk: &Conversation) -> Result<(), Failure> {
    let Some(Message::Assistant { text, .. }) = talk.messages.last() else {
        return Ok(());
    };
    let text = mimir_core::text::sanitize(text.clone());
    Printer::new(false).result(&(), |out| writeln!(out, "{}", text.trim_end()))
}

fn told(error: &ToolError) {
    if error.code != Code::Cancelled {
        let _ = crate::output::outcome::error(error);
    }
}
