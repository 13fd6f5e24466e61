//! Keyboard commands.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::list::ToolBrowser;

/// Action of a key, beyond changes of the browser's own state.
#[derive(Debug, PartialEq, Eq)]
pub enum BrowserAction {
    /// No further action.
    Nothing,
    /// Quit.
    Leave,
    /// Quit as after Ctrl-C.
    Interrupt,
    /// Switch the selected tool on or off.
    Switch,
    /// Open the page of the selected tool.
    Read,
}

/// Applies a key to the browser and returns the remaining action.
pub fn handle_key(shelf: &mut ToolBrowser, key: KeyEvent) -> BrowserAction {
    if key.kind == KeyEventKind::Release {
        return BrowserAction::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => BrowserAction::Interrupt,
            _ => BrowserAction::Nothing,
        };
    }
    shelf.clear_message();
    if shelf.page.is_some() {
        return page(shelf, key.code);
    }
    if shelf.typing {
        return typed(shelf, key.code);
    }
    match key.code {
        KeyCode::Char('q') => return BrowserAction::Leave,
        KeyCode::Esc if shelf.filter.is_empty() => return BrowserAction::Leave,
        KeyCode::Esc => shelf.set_filter(String::new()),
        KeyCode::Char(' ') => return BrowserAction::Switch,
        KeyCode::Enter | KeyCode::Right => return BrowserAction::Read,
        KeyCode::Char('/') => shelf.typing = true,
        code => {
            if let Some(by) = movement(shelf, code) {
                shelf.move_selection(by);
            }
        }
    }
    BrowserAction::Nothing
}

/// Number of lines that a key moves by.
fn movement(shelf: &ToolBrowser, code: KeyCode) -> Option<isize> {
    let page = shelf.height.saturating_sub(1).max(1).cast_signed();
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -page,
        KeyCode::PageDown => page,
        // Larger than any list, but small enough that a sum does not overflow.
        KeyCode::Home | KeyCode::Char('g') => isize::MIN / 4,
        KeyCode::End | KeyCode::Char('G') => isize::MAX / 4,
        _ => return None,
    })
}

fn page(shelf: &mut ToolBrowser, code: KeyCode) -> BrowserAction {
    match code {
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Left => shelf.page = None,
        KeyCode::Char(' ') => return BrowserAction::Switch,
        code => {
            let by = movement(shelf, code);
            if let (Some(by), Some(page)) = (by, &mut shelf.page) {
                page.top = page.top.saturating_add_signed(by);
            }
        }
    }
    BrowserAction::Nothing
}

fn typed(shelf: &mut ToolBrowser, code: KeyCode) -> BrowserAction {
    let mut filter = shelf.filter.clone();
    match code {
        KeyCode::Enter | KeyCode::Down | KeyCode::Up => shelf.typing = false,
        KeyCode::Esc => {
            shelf.typing = false;
            shelf.set_filter(String::new());
        }
        KeyCode::Backspace => {
            filter.pop();
            shelf.set_filter(filter);
        }
        KeyCode::Char(letter) => {
            filter.push(letter);
            shelf.set_filter(filter);
        }
        _ => {}
    }
    BrowserAction::Nothing
}
