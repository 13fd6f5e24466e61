//! Keyboard commands.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::list::Shelf;

/// Action of a key, beyond changes of the browser's own state.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
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
pub fn wish(shelf: &mut Shelf, key: KeyEvent) -> Wish {
    if key.kind == KeyEventKind::Release {
        return Wish::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Wish::Interrupt,
            _ => Wish::Nothing,
        };
    }
    shelf.hush();
    if shelf.page.is_some() {
        return page(shelf, key.code);
    }
    if shelf.typing {
        return typed(shelf, key.code);
    }
    match key.code {
        KeyCode::Char('q') => return Wish::Leave,
        KeyCode::Esc if shelf.filter.is_empty() => return Wish::Leave,
        KeyCode::Esc => shelf.look_for(String::new()),
        KeyCode::Char(' ') => return Wish::Switch,
        KeyCode::Enter | KeyCode::Right => return Wish::Read,
        KeyCode::Char('/') => shelf.typing = true,
        code => {
            if let Some(by) = movement(shelf, code) {
                shelf.go(by);
            }
        }
    }
    Wish::Nothing
}

/// Number of lines that a key moves by.
fn movement(shelf: &Shelf, code: KeyCode) -> Option<isize> {
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

fn page(shelf: &mut Shelf, code: KeyCode) -> Wish {
    match code {
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Left => shelf.page = None,
        KeyCode::Char(' ') => return Wish::Switch,
        code => {
            let by = movement(shelf, code);
            if let (Some(by), Some(page)) = (by, &mut shelf.page) {
                page.top = page.top.saturating_add_signed(by);
            }
        }
    }
    Wish::Nothing
}

fn typed(shelf: &mut Shelf, code: KeyCode) -> Wish {
    let mut filter = shelf.filter.clone();
    match code {
        KeyCode::Enter | KeyCode::Down | KeyCode::Up => shelf.typing = false,
        KeyCode::Esc => {
            shelf.typing = false;
            shelf.look_for(String::new());
        }
        KeyCode::Backspace => {
            filter.pop();
            shelf.look_for(filter);
        }
        KeyCode::Char(letter) => {
            filter.push(letter);
            shelf.look_for(filter);
        }
        _ => {}
    }
    Wish::Nothing
}
