//! Drawing of the tool browser, for any screen size.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::terminal::list_screen::{colour_style, draw_frame, row_line, scrolled_to, visible_page};

use super::list::{BrowserItem, ToolBrowser, ToolPage};

/// Minimum widths of the screen from which a line shows the cost, the badge, and the description.
const MIN_WIDTH_TOKENS: u16 = 30;
const MIN_WIDTH_BADGE: u16 = 48;
const MIN_WIDTH_DESCRIPTION: u16 = 76;

/// Width of the name column on a screen that shows badges.
const NAME_WIDTH: usize = 24;

/// Draws the whole screen.
pub fn draw_browser(frame: &mut Frame<'_>, browser: &mut ToolBrowser) {
    let style = BrowserStyles::find();
    let width = frame.area().width;
    let Some(body) = draw_frame(frame, title(browser), footer(browser, width)) else {
        return;
    };
    browser.height = usize::from(body.height);
    let lines = match &mut browser.page {
        Some(page) => page_lines(page, body),
        None => list_lines(browser, body, style),
    };
    frame.render_widget(Paragraph::new(lines), body);
}

fn title(browser: &ToolBrowser) -> Line<'static> {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    if let Some(page) = &browser.page {
        return Line::styled(page.name.to_string(), strong);
    }
    let on = browser.items.iter().filter(|item| item.enabled).count();
    let tokens = browser.items.iter().filter(|item| item.listed);
    let tokens: u64 = tokens.map(|item| u64::from(item.tokens)).sum();
    let text = format!(
        "Tools: {on} of {} on, ~{tokens} tokens",
        browser.items.len()
    );
    Line::styled(text, strong)
}

fn footer(browser: &ToolBrowser, width: u16) -> Line<'static> {
    if !browser.message.is_empty() {
        return Line::raw(browser.message.clone());
    }
    if browser.typing {
        return Line::raw(format!("/{}_", browser.filter));
    }
    let faint = Style::new().add_modifier(Modifier::DIM);
    let keys = match (&browser.page, width >= MIN_WIDTH_BADGE) {
        (Some(_), true) => "arrows scroll   space on/off   esc back",
        (Some(_), false) => "esc back",
        (None, true) => "arrows move   space on/off   enter read   / filter   q quit",
        (None, false) => "spc / enter q",
    };
    match browser.filter.is_empty() {
        true => Line::styled(keys, faint),
        false => Line::from(vec![
            Span::raw(format!("/{}  ", browser.filter)),
            Span::styled(keys, faint),
        ]),
    }
}

pub(super) fn list_lines(
    browser: &mut ToolBrowser,
    body: Rect,
    styles: BrowserStyles,
) -> Vec<Line<'static>> {
    let height = usize::from(body.height);
    browser.top = scrolled_to(browser.selected, browser.top, height);
    if browser.shown.is_empty() {
        return vec![Line::raw("  (none)")];
    }
    let visible = browser
        .shown
        .iter()
        .enumerate()
        .skip(browser.top)
        .take(height);
    let visible = visible.filter_map(|(at, number)| Some((at, browser.items.get(*number)?)));
    visible
        .map(|(at, item)| line(item, at == browser.selected, body.width, styles))
        .collect()
}

fn line(item: &BrowserItem, selected: bool, width: u16, styles: BrowserStyles) -> Line<'static> {
    let (mark, style) = match (item.enabled, item.listed) {
        (true, true) => ("✓", styles.on),
        // Callable, but not shown to models under this profile.
        (true, false) => ("·", Style::new()),
        (false, _) => ("✗", styles.off),
    };
    let room = usize::from(width);
    let mut rest = String::from(" ");
    let name = item.name.as_str();
    match width {
        0..MIN_WIDTH_TOKENS => rest.push_str(&cut(name, room.saturating_sub(4))),
        MIN_WIDTH_TOKENS..MIN_WIDTH_BADGE => {
            let name_width = room.saturating_sub(4 + 8);
            rest.push_str(&format!(
                "{:<name_width$} {:>7}",
                cut(name, name_width),
                tokens(item)
            ));
        }
        _ => {
            let (name, badge) = (cut(name, NAME_WIDTH), item.source.badge());
            let tokens = tokens(item);
            rest.push_str(&format!("{name:<NAME_WIDTH$} {badge:<10} {tokens:>7}"));
        }
    }
    if width >= MIN_WIDTH_DESCRIPTION {
        rest.push_str("  ");
        rest.push_str(&item.about);
    }
    row_line(mark, style, rest, selected)
}

fn tokens(item: &BrowserItem) -> String {
    format!("~{}", item.tokens)
}

/// Cuts a name to `width` columns. Names are ASCII.
fn cut(name: &str, width: usize) -> String {
    if name.len() > width {
        format!(
            "{}…",
            mimir_core::text::prefix(name, width.saturating_sub(1))
        )
    } else {
        name.to_owned()
    }
}

fn page_lines(page: &mut ToolPage, body: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(body.width).max(1), usize::from(body.height));
    let lines: Vec<String> = page
        .lines
        .iter()
        .flat_map(|line| wrap(line, width))
        .collect();
    visible_page(lines, &mut page.top, height)
}

/// Splits a line into parts of at most `width` columns, between words if possible.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let length = Line::raw(word.trim_end()).width();
        if used > 0 && used + length > width {
            parts.push(std::mem::take(&mut part));
            used = 0;
        }
        for character in word.chars() {
            let size = Span::raw(character.to_string()).width();
            if used + size > width && character != ' ' {
                parts.push(std::mem::take(&mut part));
                used = 0;
            }
            part.push(character);
            used += size;
        }
    }
    parts.push(part);
    parts
}

/// Styles of the list. All are plain if colours are off.
#[derive(Clone, Copy)]
pub(super) struct BrowserStyles {
    on: Style,
    off: Style,
}

impl BrowserStyles {
    pub(super) fn find() -> Self {
        Self {
            on: colour_style(Color::Green),
            off: colour_style(Color::Red),
        }
    }
}
