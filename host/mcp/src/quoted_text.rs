//! Text of others in messages to people.

use mimir_core::text::wrapped;

/// Prefix of every line that a tool or a server could influence, so that no such line can pass for mimir's own text.
const GUTTER: &str = "  │ ";

/// Maximum width of the text after the prefix, in columns. A client would wrap longer lines, and what follows would lack
/// the prefix.
pub(crate) const QUOTED_WIDTH: usize = 72;

/// Returns the lines of a text with the prefix, wrapped.
pub(crate) fn quoted_lines(text: &str) -> impl Iterator<Item = String> {
    let parts = text.lines().flat_map(|line| wrapped(line, QUOTED_WIDTH));
    parts.map(|part| format!("{GUTTER}{part}"))
}
