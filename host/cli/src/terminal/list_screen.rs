//! Layout, movement keys and styles of the full-screen lists.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Returns the number of lines that a key moves by on a screen of `height` lines; `None` if it is not a movement key.
pub fn movement(code: KeyCode, height: usize) -> Option<isize> {
    let page = height.saturating_sub(1).max(1).cast_signed();
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

/// Draws the first and the last line of a screen. Returns the area in between, or `None` if the screen has no lines.
pub fn draw_frame(
    frame: &mut Frame<'_>,
    title: Line<'static>,
    footer: Line<'static>,
) -> Option<Rect> {
    let area = frame.area();
    if area.height == 0 {
        return None;
    }
    let row = |at: u16| Rect {
        y: area.y + at,
        height: 1,
        ..area
    };
    frame.render_widget(Paragraph::new(title), row(0));
    if area.height > 1 {
        frame.render_widget(Paragraph::new(footer), row(area.height - 1));
    }
    Some(Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(2),
        ..area
    })
}

/// Returns the first visible line of a list, scrolled only as far as needed to keep the selected line visible.
pub fn scrolled_to(selected: usize, top: usize, height: usize) -> usize {
    let first = (selected + 1).saturating_sub(height);
    top.clamp(first, selected.max(first))
}

/// Returns the visible lines of a page, and keeps `top` within it.
pub fn visible_page(lines: Vec<String>, top: &mut usize, height: usize) -> Vec<Line<'static>> {
    *top = (*top).min(lines.len().saturating_sub(height));
    let visible = lines.into_iter().skip(*top).take(height);
    visible.map(Line::raw).collect()
}

/// Returns a line of a list: a pointer if it is selected, a mark in its style, and the rest.
pub fn row_line(
    mark: &'static str,
    style: Style,
    rest: String,
    is_selected: bool,
) -> Line<'static> {
    let (pointer, text, style) = if is_selected {
        let reversed = Modifier::REVERSED;
        (
            "> ",
            Style::new().add_modifier(reversed),
            style.add_modifier(reversed),
        )
    } else {
        ("  ", Style::new(), style)
    };
    Line::from(vec![
        Span::styled(pointer, text),
        Span::styled(mark, style),
        Span::styled(rest, text),
    ])
}

/// Returns the style of a colour, which is plain if colours are off.
pub fn colour_style(colour: Color) -> Style {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    if is_plain {
        Style::new()
    } else {
        Style::new().fg(colour)
    }
}
