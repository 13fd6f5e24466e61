//! Drawing on an in-memory terminal.

use mimir_core::pipeline::PipelineSnapshot;
use mimir_core::{Policy, Registry};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;

use super::draw::{self, BrowserStyles};
use super::list::ToolBrowser;
use crate::tools::TokenCosts;
use mimir::user_dirs::UserDirs;

/// A thousand tools, as a folder of plugins would provide.
fn browser(count: usize) -> ToolBrowser {
    let tools = (0..count).map(|number| crate::tools::tests::tool(&format!("tool_{number:04}")));
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::default(),
    };
    ToolBrowser::new(snapshot, TokenCosts::open(&UserDirs::default()))
}

fn shown(browser: &mut ToolBrowser, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::draw_browser(frame, browser))
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

#[test]
fn tool_browser_scrolls_to_the_selected_tool() {
    let mut browser = browser(1_000);
    for (by, first, selected) in [
        (0, "tool_0000", "tool_0000"),
        (21, "tool_0000", "tool_0021"),
        (1, "tool_0001", "tool_0022"),
        (-1, "tool_0001", "tool_0021"),
        (isize::MAX / 4, "tool_0978", "tool_0999"),
        (isize::MIN / 4, "tool_0000", "tool_0000"),
    ] {
        browser.move_selection(by);
        let rows = shown(&mut browser, 80, 24);
        assert!(rows[1].contains(first), "{rows:#?}");
        let own: Vec<_> = rows.iter().filter(|row| row.starts_with("> ")).collect();
        assert!(own.len() == 1 && own[0].contains(selected), "{rows:#?}");
    }
    browser.set_filter("099".to_owned());
    assert_eq!(browser.shown.len(), 11);
    browser.set_filter("nothing like it".to_owned());
    assert!(shown(&mut browser, 80, 24)[1].contains("(none)"));
    assert!(browser.current().is_none());
}

#[test]
fn tool_browser_draws_at_any_size() {
    let mut browser = browser(30);
    for width in [1, 2, 3, 5, 10, 20, 29, 30, 31, 47, 48, 75, 76, 80, 300] {
        for height in [1, 2, 3, 24] {
            shown(&mut browser, width, height);
        }
    }
    let narrow = shown(&mut browser, 20, 24);
    assert_eq!(narrow[1].trim_end(), "> ✓ tool_0000");
}

#[test]
fn tool_browser_formats_only_the_visible_tools() {
    let mut browser = browser(1_000);
    browser.move_selection(700);
    let lines = draw::list_lines(&mut browser, Rect::new(0, 1, 80, 22), BrowserStyles::find());
    assert_eq!(lines.len(), 22);
}
