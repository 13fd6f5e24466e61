//! Keyboard commands of the tool browser.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

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
            if let Some(by) = movement(browser, code) {
                browser.move_selection(by);
            }
        }
    }
    BrowserAction::Nothing
}

/// Returns the number of lines that a key moves by; `None` if it is not a movement key.
fn movement(browser: &ToolBrowser, code: KeyCode) -> Option<isize> {
    let page = browser.height.saturating_sub(1).max(1).cast_signed();
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -page,
        KeyCode::PageDown => page,
        // Larger than any list, and small enough that sums do not overflow.
        KeyCode::Home | KeyCode::Char('g') => isize::MIN / 4,
        KeyCode::End | KeyCode::Char('G') => isize::MAX / 4,
        _ => return None,
    })
}

fn handle_page_key(browser: &mut ToolBrowser, code: KeyCode) -> BrowserAction {
    match code {
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Left => browser.page = None,
        KeyCode::Char(' ') => return BrowserAction::Switch,
        code => {
            let by = movement(browser, code);
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
