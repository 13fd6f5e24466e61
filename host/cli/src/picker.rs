//! `mimir tools` on a terminal: a screen to browse tools, switch them on and off, and read about them.
//!
//! It follows changes of tools and config files while it is open. Switching a tool is the same as `mimir tools
//! enable`.
//!
//! Out of scope: costs, policy and descriptions, which are in `tools`.

use std::time::Duration;

use ratatui::crossterm::event::Event;

use crate::args::Globals;
use crate::commands::call::interrupted;
use crate::exit::{Exit, Failure};
use crate::output::aside;
use mimir::live::{Live, News};
use mimir::setup::Setup;

mod draw;
mod keys;
mod list;
mod screen;

use keys::Wish;
use list::Shelf;
use screen::Screen;

/// Interval for checking files.
const EVERY: Duration = Duration::from_millis(400);

/// Shows the tool browser until the person quits.
pub async fn run(globals: &Globals, setup: Setup) -> Result<Exit, Failure> {
    let costs = crate::tools::Costs::open(&setup.places);
    let mut live = Live::new(setup).await?;
    let mut shelf = Shelf::new(live.world(), costs);
    // Output to stderr would corrupt the screen, so it is printed afterwards.
    let held = aside::hold();
    let mut screen = Screen::open()?;
    let ended = show(globals, &mut live, &mut screen, &mut shelf).await;
    drop(screen);
    drop(held);
    shelf.costs.keep();
    // The program ends here: see `tools list`.
    std::mem::forget(shelf);
    ended
}

async fn show(
    globals: &Globals,
    live: &mut Live,
    screen: &mut Screen,
    shelf: &mut Shelf,
) -> Result<Exit, Failure> {
    let mut typed = Screen::events();
    let (send, mut news) = tokio::sync::mpsc::unbounded_channel();
    let mut follow = std::pin::pin!(live.follow(EVERY, move |_, what| {
        // The input channel closes only when this is dropped, too.
        let _ = send.send(what);
        Ok::<(), Failure>(())
    }));
    let mut stop = std::pin::pin!(interrupted());
    loop {
        screen.draw(shelf)?;
        tokio::select! {
            exit = &mut stop => return Ok(exit),
            ended = &mut follow => ended?,
            Some(what) = news.recv() => match what {
                News::World { world, .. } => shelf.take(*world),
                News::Broken(error) => shelf.say(&error.message),
            },
            event = typed.recv() => match event {
                Some(Event::Key(key)) => match keys::wish(shelf, key) {
                    Wish::Nothing => {}
                    Wish::Leave => return Ok(Exit::Done),
                    Wish::Interrupt => return Ok(Exit::Interrupted),
                    Wish::Switch => shelf.switch(globals),
                    Wish::Read => shelf.read(globals),
                },
                // A resize, or an event without meaning here.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(Exit::Terminated),
            },
        }
    }
}

#[cfg(test)]
mod tests;
