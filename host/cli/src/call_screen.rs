//! `mimir top` on a terminal: the calls that run now, and the open approval questions, which a key answers.
//!
//! A question is answered on its card only, so that no call is approved unseen.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mimir_core::ToolError;
use mimir_core::approval::ApprovalAnswer;
use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::text::visible;
use ratatui::crossterm::event::Event;
use tokio::time::MissedTickBehavior;

use crate::args::GlobalOptions;
use crate::commands::call::wait_for_interrupt;
use crate::commands::{start_all_calls, stop_all_calls};
use crate::console::{live, undo};
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::stderr_queue;
use crate::tool_browser::BrowserScreen;
use mimir::call_switch::StopFile;
use mimir::live_calls::{LiveCallHub, LiveConsole};
use mimir::process_identity::{machine_name, user_name};
use mimir::setup::HostSetup;
use mimir::shared_questions::{GivenAnswer, QuestionStore, QuestionWatch, SharedQuestion};
use mimir::undo::UndoStore;

mod changes;
mod draw;
mod keys;
mod state;
#[cfg(test)]
mod tests;

use changes::QuestionChanges;
use keys::ScreenAction;
use state::{CallScreen, ScreenOrder};

/// The screen in audit events.
const PLACE: &str = "in `mimir top`";

/// Interval at which changed calls are drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Number of draw intervals after which run times, ended questions and the order to stop are looked at again.
const INTERVALS_PER_LOOK: u32 = 10;

/// Shows the screen until the person quits.
pub async fn run(globals: &GlobalOptions) -> CommandResult {
    let setup = HostSetup::find(globals.workspace.as_deref())?;
    let hub = LiveCallHub::default();
    let _console = LiveConsole::open(&setup.user_dirs, &hub)?;
    // Questions wait for this screen until it is closed.
    let _announced = setup.announce_console()?;
    let store = setup.local_state().map(QuestionStore::new);
    let watch = match &store {
        Some(store) => store.watch().await.ok(),
        None => None,
    };
    let session = ScreenSession {
        globals,
        stop: StopFile::of_user(&setup.user_dirs),
        setup: &setup,
        hub: &hub,
        store: store.as_ref(),
    };
    // Output to stderr would corrupt the screen, so it is held back until the screen is closed.
    let held = stderr_queue::hold_output();
    // Installs the signal handlers: a signal before that would leave the terminal in full-screen mode.
    let stop = std::pin::pin!(wait_for_interrupt());
    let mut screen = BrowserScreen::open()?;
    let ended = session.run(&mut screen, watch, stop).await;
    drop(screen);
    drop(held);
    ended
}

/// The data that the screen shows and changes.
struct ScreenSession<'a> {
    globals: &'a GlobalOptions,
    setup: &'a HostSetup,
    hub: &'a LiveCallHub,
    store: Option<&'a QuestionStore>,
    stop: Option<StopFile>,
}

impl ScreenSession<'_> {
    async fn run(
        &self,
        screen: &mut BrowserScreen,
        mut watch: Option<QuestionWatch>,
        mut interrupt: Pin<&mut impl Future<Output = ExitReason>>,
    ) -> CommandResult {
        let mut state = CallScreen::default();
        let mut events = BrowserScreen::events();
        let mut updates = self.hub.subscribe();
        let mut ticks = tokio::time::interval(DRAW_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = QuestionChanges::new(self.setup);
        let undo = UndoStore::for_workspace(&self.setup.workspace);
        let mut until_look = 0_u32;
        let (mut has_changed, mut is_stale) = (true, true);
        self.load_questions(&mut state).await;
        loop {
            changes.begin(&state.questions);
            if is_stale {
                state.set_calls(self.hub);
                state.name_changed_files(|id| undo.record_of(id));
                screen.render(|frame| draw::draw_calls(frame, &mut state))?;
                is_stale = false;
            }
            tokio::select! {
                exit = &mut interrupt => return Ok(exit),
                event = events.recv() => {
                    let Some(event) = event else {
                        // The terminal has closed.
                        return Ok(ExitReason::Terminated);
                    };
                    is_stale = true;
                    let Event::Key(key) = event else { continue };
                    match keys::handle_key(&mut state, key) {
                        ScreenAction::Nothing => {}
                        ScreenAction::Leave => return Ok(ExitReason::Done),
                        ScreenAction::Interrupt => return Ok(ExitReason::Interrupted),
                        action => {
                            let done = self.perform(&mut state, &changes, action).await;
                            if let Err(failure) = done {
                                state.set_message(&failure_text(&failure));
                            }
                        }
                    }
                }
                Some(_) = updates.next() => has_changed = true,
                Some((id, preview)) = changes.next() => {
                    state.set_preview(id, preview);
                    is_stale = true;
                }
                Some(_) = next_question(&mut watch) => {
                    self.load_questions(&mut state).await;
                    is_stale = true;
                }
                _ = ticks.tick() => {
                    is_stale |= has_changed;
                    has_changed = false;
                    if until_look == 0 {
                        until_look = INTERVALS_PER_LOOK;
                        self.load_questions(&mut state).await;
                        state.stop = self.stop.as_ref().and_then(StopFile::read);
                        is_stale = true;
                    }
                    until_look -= 1;
                }
            }
        }
    }

    async fn load_questions(&self, state: &mut CallScreen) {
        let Some(store) = self.store else {
            return;
        };
        match store.open_questions().await {
            Ok(questions) => state.set_questions(questions),
            Err(error) => state.set_message(&error.to_string()),
        }
    }

    async fn perform(
        &self,
        state: &mut CallScreen,
        changes: &QuestionChanges,
        action: ScreenAction,
    ) -> Result<(), CommandFailure> {
        match action {
            ScreenAction::Cancel(id) => {
                self.hub.cancel(&id, &person())?;
                state.set_message("cancelled; the call ends");
            }
            ScreenAction::Answer(question, answer) => {
                self.answer_on_screen(state, changes, &question, &answer)
                    .await?;
            }
            ScreenAction::Order(ScreenOrder::AnswerAlways(id)) => {
                let mut open = state.questions.iter();
                match open.find(|question| question.id == id).cloned() {
                    Some(question) => {
                        let always = ApprovalAnswer::Always;
                        self.answer_on_screen(state, changes, &question, &always)
                            .await?;
                    }
                    None => state.set_message("the question has ended; nothing was answered"),
                }
            }
            ScreenAction::Order(order) => self.carry_out(state, order).await?,
            ScreenAction::Nothing | ScreenAction::Leave | ScreenAction::Interrupt => {}
        }
        Ok(())
    }

    /// Answers a question, unless the change that the screen shows is not the one that the call would make now.
    async fn answer_on_screen(
        &self,
        state: &mut CallScreen,
        changes: &QuestionChanges,
        question: &SharedQuestion,
        answer: &ApprovalAnswer,
    ) -> Result<(), CommandFailure> {
        let shown = state.previews.get(&question.id);
        if *answer != ApprovalAnswer::No
            && let Some(preview) = changes.changed(question, shown).await?
        {
            state.set_preview(question.id.clone(), preview);
            state.set_message("a file has changed since: look at the difference and answer again");
            return Ok(());
        }
        self.answer(question, answer).await?;
        state.close_page();
        let tool = &question.card.tool;
        state.set_message(&format!("answered `{}` for `{tool}`", answer.as_str()));
        self.load_questions(state).await;
        Ok(())
    }

    async fn carry_out(
        &self,
        state: &mut CallScreen,
        order: ScreenOrder,
    ) -> Result<(), CommandFailure> {
        match order {
            ScreenOrder::StopAll => {
                let notice = stop_all_calls(self.globals).await?;
                state.stop = Some(notice);
            }
            ScreenOrder::StartAll => {
                start_all_calls(self.globals).await?;
                state.stop = None;
                state.set_message("calls are allowed again");
            }
            ScreenOrder::StopAgent(key, name) => {
                let event = live::stop_agent(self.hub, &key, &person(), PLACE, None)?;
                self.setup.record_event(&event);
                state.set_message(&format!("`{name}` is stopped; t lets it work again"));
            }
            ScreenOrder::StartAgent(key, name) => {
                let event = live::start_agent(self.hub, &key, &person(), PLACE)?;
                self.setup.record_event(&event);
                state.set_message(&format!("`{name}` may work again"));
            }
            // An answer, and not an order.
            ScreenOrder::AnswerAlways(_) => {}
            ScreenOrder::Undo(id, tool) => {
                // May wait for a disk, which only delays the next draw.
                undo::undo(self.setup, &id, &person())?;
                state.set_message(&format!("the changes of `{tool}` were undone"));
            }
        }
        Ok(())
    }

    /// Answers a question, and records it like `mimir approvals answer`.
    async fn answer(
        &self,
        question: &SharedQuestion,
        answer: &ApprovalAnswer,
    ) -> Result<(), ToolError> {
        let Some(store) = self.store else {
            return Ok(());
        };
        let by = person();
        let given = GivenAnswer {
            answer: answer.clone(),
            by: by.clone(),
            at: Timestamp::now(),
            reason: None,
        };
        store.answer(&question.id, given).await?;
        let (id, tool) = (visible(&question.id), visible(&question.card.tool));
        let detail = format!("question {id} about `{tool}` was answered by {by}");
        let mut event = AuditEvent::new(EventKind::Approval, SystemTime::now())
            .with_subject(question.card.fingerprint.as_str())
            .with_detail(&detail);
        event.answer = Some(answer.as_str());
        self.setup.record_event(&event);
        Ok(())
    }
}

/// Returns the message of a failure, without its code.
fn failure_text(failure: &CommandFailure) -> String {
    match failure {
        CommandFailure::Reported { error, .. } => error.message.clone(),
        CommandFailure::Print(error) => error.to_string(),
    }
}

/// Returns the name of the person for records.
fn person() -> String {
    format!("{} on {}", user_name(), machine_name())
}

/// Waits for a question that is new or has changed; forever, if questions cannot be followed.
async fn next_question(watch: &mut Option<QuestionWatch>) -> Option<SharedQuestion> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}
