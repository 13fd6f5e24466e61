//! `mimir tools` on a terminal: the tools on a screen, to look through, to switch on and off, and to read about.
//!
//! It shows what counts now: a tool that comes or goes, or a config that somebody changes, is seen while it runs.
//! What it switches, it switches like `mimir tools enable`.
//!
//! Never here: what a tool costs, whether it may be switched, what is said about it. `tools` knows.

use std::time::Duration;

use ratatui::crossterm::event::Event;

use crate::args::Globals;
use crate::commands::call::interrupted;
use crate::exit::{Exit, Failure};
use crate::live::{Live, News};
use crate::output::aside;
use crate::setup::Setup;

mod draw;
mod keys;
mod list;
mod screen;

use keys::Wish;
use list::Shelf;
use screen::Screen;

/// How often files are looked at.
const EVERY: Duration = Duration::from_millis(400);

/// Shows the tools until the person leaves.
pub async fn run(globals: &Globals, setup: Setup) -> Result<Exit, Failure> {
    let costs = crate::tools::Costs::open(&setup.places);
    let mut live = Live::new(setup).await?;
    let mut shelf = Shelf::new(live.world(), costs);
    // What would be written across the screen is written after it.
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
        // Nobody listens any more only when this is dropped, too.
        let _ = send.send(what);
        Ok(())
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
                // The size has changed, or something that means nothing here.
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(Exit::Terminated),
            },
        }
    }
}

#[cfg(test)]
mod tests;
