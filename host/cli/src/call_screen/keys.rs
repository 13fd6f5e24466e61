//! Keyboard commands of the screen.

use mimir::shared_questions::SharedQuestion;
use mimir_core::RequestId;
use mimir_core::approval::ApprovalAnswer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::terminal::list_screen::movement;

use super::state::CallScreen;

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
    /// Refuse all calls of the user.
    StopAll,
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
    if std::mem::take(&mut screen.asks_to_stop) {
        return match key.code {
            KeyCode::Char('y') => ScreenAction::StopAll,
            _ => {
                screen.set_message("nothing was stopped");
                ScreenAction::Nothing
            }
        };
    }
    match key.code {
        KeyCode::Char('c') => return cancel(screen),
        KeyCode::Char('x') => screen.asks_to_stop = true,
        KeyCode::Char(letter @ ('a' | 's' | 'A' | 'n')) => return answer(screen, letter),
        code => match &screen.page {
            Some(_) => handle_page_key(screen, code),
            None => return handle_list_key(screen, code),
        },
    }
    ScreenAction::Nothing
}

fn handle_list_key(screen: &mut CallScreen, code: KeyCode) -> ScreenAction {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => return ScreenAction::Leave,
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
    if screen.is_question_selected() {
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
    let answer = match letter {
        'a' => ApprovalAnswer::Once,
        's' => ApprovalAnswer::Session,
        'A' => ApprovalAnswer::Always,
        _ => ApprovalAnswer::No,
    };
    ScreenAction::Answer(Box::new(question.clone()), answer)
}
