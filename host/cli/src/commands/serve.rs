//! `mimir serve`

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

use mimir_core::{Code, ToolError};
use mimir_mcp::{Asking, Server};
use mimir_wasm::SystemClock;

use crate::args::{Globals, ServeWish};
use crate::exit::{Exit, Failure};
use crate::live::{EVERY, Keeper, Live};
use crate::output::{BAD, aside, note, outcome, styled};
use crate::serve::Streams;
use crate::setup::Setup;
use crate::terminal::elsewhere;

use super::call::interrupted;

/// Serves the tools until the client goes away or somebody ends this.
pub async fn run(globals: &Globals, wish: ServeWish) -> Result<Exit, Failure> {
    match wish {
        ServeWish::Stdio => stdio(globals).await,
    }
}

async fn stdio(globals: &Globals) -> Result<Exit, Failure> {
    if std::io::stdin().is_terminal() {
        note(
            "mimir serves MCP on stdin and stdout, for an agent that starts it; `mimir serve --help` shows how",
        );
    }
    aside::detach();
    let Streams {
        reader,
        writer,
        line,
    } = Streams::take()?;
    let setup = Setup::find(globals)?;
    // If this fails, no call can be recorded, and each says so.
    let _ = setup.workspace.make_state();
    let mut live = Live::new(setup).await?;
    let (server, keeper) = served(&live);
    let exit = Mutex::new(Exit::Done);
    let stop = async {
        tokio::select! {
            signal = interrupted() => *exit.lock().unwrap_or_else(PoisonError::into_inner) = signal,
            () = line.hung_up() => {}
        }
    };
    let follow = live.follow(EVERY, |setup, news| {
        keeper.take_up(setup, news);
        server.refresh();
        Ok(())
    });
    let ended = tokio::select! {
        ended = server.serve(reader, writer, stop) => ended,
        followed = follow => return followed.map(|()| Exit::Done),
    };
    ended.map_err(|error| ToolError::new(Code::ExecutionError, error.to_string()))?;
    Ok(exit.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A server over the tools as they are now, and what keeps it up to date.
fn served(live: &Live) -> (Server, Keeper) {
    let setup = live.setup();
    let pipeline = setup.pipeline(live.world(), elsewhere());
    let asking = Asking {
        next: elsewhere(),
        timeout: Some(setup.patience()),
        clock: Arc::new(SystemClock),
    };
    let server = Server::new(pipeline.clone(), asking, Arc::new(refused));
    (server, Keeper::new(pipeline, setup))
}

/// Tells the person what the model that made the call must not read: what would allow it.
fn refused(tool: &str, error: &ToolError) {
    let message = mimir_core::text::visible(&error.message);
    let code = error.code;
    note(format_args!(
        "{} {tool}: {message} [{code}]",
        styled(BAD, "refused:")
    ));
    outcome::ways(&error.way_out);
}
