//! Keyboard commands of the tool browser.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::terminal::list_screen::movement;

use super::list::ToolBrowser;

/// Action of a key that needs more than the state of the browser.
#[derive(Debug, PartialEq, Eq)]
pub enum BrowserAction {
    /// No further action.
    Nothing,
    /// Quit.
    Leave,
    /// Quit with the exit code of an interrupt.
    Interrupt,
    /// Switch the selected tool on or off.
    Switch,
    /// Open the page of the selected tool.
    Read,
}

/// Applies a key to the browser. Returns the action that the caller has to perform.
pub fn handle_key(browser: &mut ToolBrowser, key: KeyEvent) -> BrowserAction {
    if key.kind == KeyEventKind::Release {
        return BrowserAction::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => BrowserAction::Interrupt,
            _ => BrowserAction::Nothing,
        };
    }
    browser.clear_message();
    if browser.page.is_some() {
        return handle_page_key(browser, key.code);
    }
    if browser.typing {
        return handle_filter_key(browser, key.code);
    }
    match key.code {
        KeyCode::Char('q') => return BrowserAction::Leave,
        KeyCode::Esc if browser.filter.is_empty() => return BrowserAction::Leave,
        KeyCode::Esc => browser.set_filter(String::new()),
        KeyCode::Char(' ') => return BrowserAction::Switch,
        KeyCode::Enter | KeyCode::Right => return BrowserAction::Read,
        KeyCode::Char('/') => browser.typing = true,
        code => {
            if let Some(by) = movement(code, browser.height) {
                browser.move_selection(by);
            }
        }
    }
    BrowserAction::Nothing
}

fn handle_page_key(browser: &mut ToolBrowser, code: KeyCode) -> BrowserAction {
    match code {
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Left => browser.page = None,
        KeyCode::Char(' ') => return BrowserAction::Switch,
        code => {
            let by = movement(code, browser.height);
            if let (Some(by), Some(page)) = (by, &mut browser.page) {
                page.top = page.top.saturating_add_signed(by);
            }
        }
    }
    BrowserAction::Nothing
}

fn handle_filter_key(browser: &mut ToolBrowser, code: KeyCode) -> BrowserAction {
    let mut filter = browser.filter.clone();
    match code {
        KeyCode::Enter | KeyCode::Down | KeyCode::Up => browser.typing = false,
        KeyCode::Esc => {
            browser.typing = false;
            browser.set_filter(String::new());
        }
        KeyCode::Backspace => {
            filter.pop();
            browser.set_filter(filter);
        }
        KeyCode::Char(letter) => {
            filter.push(letter);
            browser.set_filter(filter);
        }
        _ => {}
    }
    BrowserAction::Nothing
}
