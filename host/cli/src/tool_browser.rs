//! `mimir tools` on a terminal: a screen to browse tools, switch them on and off, and read about them.
//!
//! The screen follows changes of tools and config files. Switching a tool has the same effect as `mimir tools enable`
//! or `disable`.
//!
//! Out of scope: computing costs and descriptions, which `tools` does.

use std::pin::Pin;
use std::time::Duration;

use ratatui::crossterm::event::Event;

use crate::args::GlobalOptions;
use crate::commands::call::wait_for_interrupt;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::stderr_queue;
use mimir::live_setup::{LiveSetup, SetupUpdate};
use mimir::setup::HostSetup;

mod draw;
mod keys;
mod list;
mod screen;

use keys::BrowserAction;
use list::ToolBrowser;
pub use screen::BrowserScreen;

/// Interval of the checks for changed files.
const REFRESH_INTERVAL: Duration = Duration::from_millis(400);

/// Shows the tool browser until the person quits.
pub async fn run(globals: &GlobalOptions, setup: HostSetup) -> CommandResult {
    let costs = crate::tools::TokenCosts::open(&setup.user_dirs);
    let mut live = LiveSetup::new(setup).await?;
    let mut browser = ToolBrowser::new(live.snapshot(), costs);
    // Output to stderr would corrupt the screen, so it is held back until the screen is closed.
    let held = stderr_queue::hold_output();
    // Installs the signal handlers: a signal before that would leave the terminal in full-screen mode.
    let stop = std::pin::pin!(wait_for_interrupt());
    let mut screen = BrowserScreen::open()?;
    let ended = event_loop(globals, &mut live, &mut screen, &mut browser, stop).await;
    drop(screen);
    drop(held);
    browser.costs.save();
    // The program ends here, so freeing the tools is left to the system.
    std::mem::forget(browser);
    ended
}

async fn event_loop(
    globals: &GlobalOptions,
    live: &mut LiveSetup,
    screen: &mut BrowserScreen,
    browser: &mut ToolBrowser,
    mut stop: Pin<&mut impl Future<Output = ExitReason>>,
) -> CommandResult {
    let mut events = BrowserScreen::events();
    let (send, mut updates) = tokio::sync::mpsc::unbounded_channel();
    let mut follow = std::pin::pin!(live.follow(REFRESH_INTERVAL, move |_, update| {
        // The receiver outlives this closure, so sending cannot fail.
        let _ = send.send(update);
        Ok::<(), CommandFailure>(())
    }));
    loop {
        screen.draw(browser)?;
        tokio::select! {
            exit = &mut stop => return Ok(exit),
            ended = &mut follow => ended?,
            Some(update) = updates.recv() => match update {
                SetupUpdate::Snapshot { snapshot, .. } => browser.set_snapshot(*snapshot),
                SetupUpdate::Broken(error) | SetupUpdate::Halted(error) => browser.set_message(&error.message),
            },
            event = events.recv() => match event {
                Some(Event::Key(key)) => match keys::handle_key(browser, key) {
                    BrowserAction::Nothing => {}
                    BrowserAction::Leave => return Ok(ExitReason::Done),
                    BrowserAction::Interrupt => return Ok(ExitReason::Interrupted),
                    BrowserAction::Switch => browser.switch(globals),
                    BrowserAction::Read => browser.open_page(globals),
                },
                // A resize, or an event that is not used.
                Some(_) => {}
                // The terminal has closed.
                None => return Ok(ExitReason::Terminated),
            },
        }
    }
}

#[cfg(test)]
mod tests;
