//! `mimir chat`

use std::pin::pin;

use mimir_agent::{Agent, Conversation, Ended, Message};
use mimir_core::text::{prefix, visible};
use mimir_core::{Code, ToolError};

use crate::agent::{Bench, Saver, Saving, Shown, conversation};
use crate::args::{Approve, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{FAINT, Printer, STRONG, note, styled};
use crate::setup::Setup;
use crate::terminal::Started;

use super::call::interrupted;
use super::run::{bill, remark};

mod typist;
mod wishes;

use typist::{Typed, Typist};
use wishes::{Next, Wish};

/// How the talk begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatWish {
    /// A conversation to go on with, and which: the newest if none is named.
    #[expect(
        clippy::option_option,
        reason = "without it, with it, and with the id of one"
    )]
    pub resume: Option<Option<String>>,
    /// The model, in place of that of the settings.
    pub model: Option<String>,
}

/// Characters of what was said last that are shown of a conversation that goes on.
const LAST: usize = 200;

/// Talks until the person leaves.
pub async fn run(globals: &Globals, printer: Printer, wish: ChatWish) -> Result<Exit, Failure> {
    if printer.is_json() {
        return Err(Failure::usage(
            "`mimir chat` is for people; `mimir run --json` works on a task and prints events",
        ));
    }
    let setup = Setup::find(globals)?;
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
    // Before the editor of lines looks at how Ctrl-C is heard: it puts that back after each line.
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
            format_args!("`mimir chat --resume {id}` goes on with it"),
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
        format!("; you said last: {}", visible(prefix(text, LAST)))
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

/// Why a turn ended before the agent was done.
enum Stopped {
    /// The person has heard enough of it.
    Turn,
    /// The program is to end.
    All(Exit),
}

/// Has the agent work on what was said. Says how the program ends, if it does.
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
                // The first one is for the calls that run.
                Exit::Interrupted if shown.stop() => {}
                Exit::Interrupted => return Err(Stopped::Turn),
                exit => return Err(Stopped::All(exit)),
            },
        }
    }
}

/// Has Ctrl-C heard by us from now on, and not end the program.
#[cfg(unix)]
fn hears() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(not(unix))]
fn hears() -> std::io::Result<()> {
    Ok(())
}

/// Completes when the program is asked to end while a line is typed; Ctrl-C is typed there like any key.
async fn ended() -> Exit {
    loop {
        match interrupted().await {
            Exit::Interrupted => {}
            exit => return exit,
        }
    }
}

/// Prints the last answer, where its words were not shown as they came.
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
