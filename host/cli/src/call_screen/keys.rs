//! Keyboard commands of the screen.

use mimir::live_calls::LiveAgent;
use mimir::shared_questions::SharedQuestion;
use mimir_core::RequestId;
use mimir_core::approval::ApprovalAnswer;
use mimir_core::text::visible;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::terminal::list_screen::movement;

use super::state::{CallScreen, ScreenOrder};

/// Action of a key that needs more than the state of the screen.
#[derive(Debug)]
pub enum ScreenAction {
    /// No further action.
    Nothing,
    /// Quit.
    Leave,
    /// Quit with the exit code of an interrupt.
    Interrupt,
    /// Cancel a call.
    Cancel(RequestId),
    /// Answer a question.
    Answer(Box<SharedQuestion>, ApprovalAnswer),
    /// Carry out an order, after a yes.
    Order(ScreenOrder),
}

/// Applies a key to the screen. Returns the action that the caller has to perform.
pub fn handle_key(screen: &mut CallScreen, key: KeyEvent) -> ScreenAction {
    // A key that is held down answers nothing twice.
    if key.kind != KeyEventKind::Press {
        return ScreenAction::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => ScreenAction::Interrupt,
            _ => ScreenAction::Nothing,
        };
    }
    // Escape and a letter in one go arrive as Alt with the letter: neither an answer nor an order.
    if key.modifiers.contains(KeyModifiers::ALT) {
        return ScreenAction::Nothing;
    }
    screen.message.clear();
    if let Some(order) = screen.asks.take() {
        return match key.code {
            KeyCode::Char('y') => ScreenAction::Order(order),
            _ => {
                let message = match order {
                    ScreenOrder::StopAll | ScreenOrder::StopAgent(..) => "nothing was stopped",
                    ScreenOrder::StartAll | ScreenOrder::StartAgent(..) => "nothing was started",
                    ScreenOrder::Undo(..) => "nothing was undone",
                    ScreenOrder::AnswerAlways(_) => "nothing was answered",
                };
                screen.set_message(message);
                ScreenAction::Nothing
            }
        };
    }
    match key.code {
        KeyCode::Char('c') => return cancel(screen),
        KeyCode::Char('x') => ask_to_stop(screen),
        KeyCode::Char('S') => ask_to_start(screen),
        KeyCode::Char('t') => ask_about_agent(screen),
        KeyCode::Char('u') => ask_to_undo(screen),
        KeyCode::Char(letter @ ('o' | 's' | 'a' | 'A' | 'n')) => return answer(screen, letter),
        code => match &screen.page {
            Some(_) => handle_page_key(screen, code),
            None => return handle_list_key(screen, code),
        },
    }
    ScreenAction::Nothing
}

fn ask_to_stop(screen: &mut CallScreen) {
    if screen.stop.is_some() {
        screen.set_message("all calls are stopped already; S allows them again");
    } else {
        screen.asks = Some(ScreenOrder::StopAll);
    }
}

fn ask_to_start(screen: &mut CallScreen) {
    if screen.stop.is_some() {
        screen.asks = Some(ScreenOrder::StartAll);
    } else {
        screen.set_message("calls are not stopped; x stops all, t the agent of the selected call");
    }
}

/// Asks whether to stop the agent of the selected call, or to let it work again. Without a call, the only stopped agent is
/// meant.
fn ask_about_agent(screen: &mut CallScreen) {
    let selected = screen
        .current_row()
        .map(|row| (row.agent.clone(), row.who.clone()));
    let stopped = || match screen.stopped_agents.as_slice() {
        [agent] => Some((agent.key(), agent_name(agent))),
        _ => None,
    };
    let Some((key, name)) = selected.or_else(stopped) else {
        screen.set_message("select a call to stop its agent");
        return;
    };
    screen.asks = Some(if screen.is_agent_stopped(&key) {
        ScreenOrder::StartAgent(key, name)
    } else {
        ScreenOrder::StopAgent(key, name)
    });
}

/// Returns the name of an agent for people: its client, or its user, or its process.
pub fn agent_name(agent: &LiveAgent) -> String {
    let name = agent.client.as_deref().or(agent.user.as_deref());
    visible(name.unwrap_or(&agent.process.name))
}

fn ask_to_undo(screen: &mut CallScreen) {
    let undo = screen
        .current_row()
        .and_then(|row| Some((row.undo.clone()?, row.tool.clone())));
    match undo {
        Some((id, tool)) => screen.asks = Some(ScreenOrder::Undo(id, tool)),
        None => screen.set_message("select an ended call that has changed files to undo it"),
    }
}

fn handle_list_key(screen: &mut CallScreen, code: KeyCode) -> ScreenAction {
    match code {
        KeyCode::Char('q') => return ScreenAction::Leave,
        // Closes a card, which may have closed itself a moment before.
        KeyCode::Esc => screen.set_message("q quits"),
        KeyCode::Enter | KeyCode::Right => screen.open_page(),
        code => {
            if let Some(by) = movement(code, screen.height) {
                screen.move_selection(by);
            }
        }
    }
    ScreenAction::Nothing
}

fn handle_page_key(screen: &mut CallScreen, code: KeyCode) {
    match code {
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Left => screen.close_page(),
        code => {
            let by = movement(code, screen.height);
            if let (Some(by), Some(page)) = (by, &mut screen.page) {
                page.top = page.top.saturating_add_signed(by);
            }
        }
    }
}

fn cancel(screen: &mut CallScreen) -> ScreenAction {
    match screen.current_call() {
        Some(id) => ScreenAction::Cancel(id.clone()),
        None => {
            screen.set_message("select a running call to cancel it");
            ScreenAction::Nothing
        }
    }
}

/// Answers the question whose card is open. In the list, a key opens the card first.
fn answer(screen: &mut CallScreen, letter: char) -> ScreenAction {
    if screen.selected_question().is_some() {
        screen.open_page();
        screen.set_message("this is the question; press the key again to answer it");
        return ScreenAction::Nothing;
    }
    let Some(question) = screen.open_question() else {
        screen.set_message("select a question to answer it");
        return ScreenAction::Nothing;
    };
    if screen.is_page_unread() {
        screen.set_message("this question has just appeared; read it, and press the key again");
        return ScreenAction::Nothing;
    }
    let card = &question.card;
    let is_offered = match letter {
        's' => card.offers_session(),
        'a' | 'A' => card.always.is_some(),
        _ => true,
    };
    if !is_offered {
        let message = match card.always {
            Some(_) => "this answer is not offered: several clients share the session",
            None => "each call needs its own approval: o allows this one, n refuses it",
        };
        screen.set_message(message);
        return ScreenAction::Nothing;
    }
    let answer = match letter {
        'o' => ApprovalAnswer::Once,
        's' => ApprovalAnswer::Session,
        'n' => ApprovalAnswer::No,
        // Counts for longer than this call, so the screen says for what, and asks.
        _ => {
            screen.asks = Some(ScreenOrder::AnswerAlways(question.id.clone()));
            return ScreenAction::Nothing;
        }
    };
    ScreenAction::Answer(Box::new(question.clone()), answer)
}
