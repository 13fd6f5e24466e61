//! Tables as Markdown: every cell of every row, in the order of the page, without padding.
//!
//! A layout table, as in emails and old pages, becomes the blocks in its cells. `tidy` has already removed everything
//! but the main content.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use htmd::Element;
use htmd::element_handler::{ElementHandler, HandlerResult, Handlers};

use super::dom::{self, Handle};

/// Maximum number of columns that a cell spans in addition to its own, so that a page with huge spans in every cell
/// does not inflate the output.
const MAX_SPAN: usize = 32;

/// Elements that only layout tables contain, unless the table names its rows or columns.
const BLOCKS: [&str; 13] = [
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "dl",
    "pre",
    "blockquote",
    "article",
    "section",
];

/// Separates two lines of one cell, for which Markdown has no syntax.
const BREAK: &str = "<br>";

/// Nesting depth of table cells at the writer's position. A cell is written as one line.
#[derive(Clone, Default)]
pub(super) struct Cells(Arc<AtomicUsize>);

impl Cells {
    /// Returns true inside a cell.
    pub(super) fn inside_cell(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn enter_cell<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = write();
        self.0.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

/// Handler that writes tables.
pub(super) struct Tables(pub(super) Cells);

impl ElementHandler for Tables {
    fn handle(&self, handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
        let table = Table::parse(element.node);
        if table.is_layout() {
            return Some(cells_as_blocks(handlers, &table).into());
        }
        let captions = table.captions.iter().map(|node| line(handlers, node));
        let captions: Vec<String> = captions.filter(|text| !text.is_empty()).collect();
        let rows = self.0.enter_cell(|| table.cell_rows(handlers));
        let mut out = format!("\n\n{}\n\n", captions.join("\n"));
        if self.0.inside_cell() {
            // Inside a cell of another table, rows become lines of that cell.
            for row in rows {
                let texts: Vec<String> = row.into_iter().map(|cell| cell.text).collect();
                out.push_str(&texts.join("; "));
                out.push('\n');
            }
        } else {
            grid(&mut out, &rows, table.is_headed());
        }
        out.push('\n');
        Some(out.into())
    }
}

/// A parsed table.
#[derive(Default)]
struct Table {
    captions: Vec<Handle>,
    rows: Vec<Row>,
    /// True if a cell is marked as a header of others.
    has_headers: bool,
    /// True if it contains another table or block elements.
    has_blocks: bool,
}

#[derive(Default)]
struct Row {
    cells: Vec<Handle>,
    in_head: bool,
}

impl Table {
    /// Parses a table, without the content of nested tables.
    fn parse(table: &Handle) -> Self {
        let mut parsed = Self::default();
        // A node, with flags for being in the head and in a cell.
        let mut stack = vec![(Rc::clone(table), false, false)];
        while let Some((node, mut in_head, mut in_cell)) = stack.pop() {
            match dom::name(&node) {
                Some("table") if !Rc::ptr_eq(&node, table) => {
                    parsed.has_blocks = true;
                    continue;
                }
                Some("caption") if !in_cell => {
                    parsed.captions.push(node);
                    continue;
                }
                Some("thead") if !in_cell => (in_head, parsed.has_headers) = (true, true),
                Some("tr") if !in_cell => parsed.rows.push(Row {
                    in_head,
                    ..Row::default()
                }),
                Some(name @ ("td" | "th")) if !in_cell => {
                    in_cell = true;
                    parsed.has_headers |= name == "th";
                    if parsed.rows.is_empty() {
                        parsed.rows.push(Row::default());
                    }
                    if let Some(row) = parsed.rows.last_mut() {
                        row.cells.push(Rc::clone(&node));
                    }
                }
                Some(name) => parsed.has_blocks |= BLOCKS.contains(&name),
                None => {}
            }
            let children = node.children.borrow();
            let children = children.iter().rev().cloned();
            stack.extend(children.map(|child| (child, in_head, in_cell)));
        }
        parsed
    }

    /// Returns true for a layout table, whose rows and columns carry no meaning.
    fn is_layout(&self) -> bool {
        let single = self.rows.iter().all(|row| row.cells.len() < 2);
        !self.has_headers && (self.has_blocks || single)
    }

    /// Returns true if the first row names the columns: it is in the head, or has only header cells.
    fn is_headed(&self) -> bool {
        let Some(first) = self.rows.iter().find(|row| !row.cells.is_empty()) else {
            return false;
        };
        let is_name = |cell: &Handle| dom::is(cell, "th") || dom::text(cell).trim().is_empty();
        first.in_head || first.cells.iter().all(is_name)
    }

    /// The text of every non-empty cell, with its column.
    fn cell_rows(&self, handlers: &dyn Handlers) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        // For each column, the number of further rows that a cell above spans.
        let mut spanned_rows: Vec<usize> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.cells.is_empty()) {
            let (mut next, mut texts) = (0, Vec::new());
            for cell in &row.cells {
                while let Some(rows) = spanned_rows.get_mut(next).filter(|rows| **rows > 0) {
                    *rows -= 1;
                    next += 1;
                }
                let (at, rows) = (next, span(cell, "rowspan", usize::MAX));
                next += span(cell, "colspan", MAX_SPAN);
                if rows > 1 && at < MAX_SPAN {
                    spanned_rows.resize(spanned_rows.len().max(next), 0);
                    spanned_rows[at..next].fill(rows - 1);
                }
                let text = line(handlers, cell);
                if !text.is_empty() {
                    texts.push(Cell { at, text });
                }
            }
            let rest = spanned_rows.iter_mut().skip(next);
            rest.for_each(|rows| *rows = rows.saturating_sub(1));
            // An empty first row is kept, because it may be the header.
            if !texts.is_empty() || rows.is_empty() {
                rows.push(texts);
            }
        }
        rows
    }
}

/// A cell with text.
struct Cell {
    /// Column index.
    at: usize,
    text: String,
}

/// Number of rows or columns that a cell spans.
fn span(cell: &Handle, direction: &str, max: usize) -> usize {
    let attribute = dom::attribute(cell, direction);
    let count = attribute.and_then(|count| count.trim().parse().ok());
    count.unwrap_or(1).clamp(1, max)
}

/// The content of an element, as one line.
fn line(handlers: &dyn Handlers, node: &Handle) -> String {
    let content = handlers.walk_children(node).content;
    let lines = content.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(BREAK)
}

/// Writes the rows of a table. Markdown requires a header row, so that one may be empty.
fn grid(out: &mut String, rows: &[Vec<Cell>], is_headed: bool) {
    let ends = rows.iter().filter_map(|row| row.last());
    let columns = ends.map(|cell| cell.at + 1).max().unwrap_or(0);
    if columns == 0 {
        return;
    }
    let (header, rows) = match rows.split_first() {
        Some((first, rest)) if is_headed => (first.as_slice(), rest),
        _ => (&[][..], rows),
    };
    row(out, header, columns);
    out.push('|');
    out.extend(std::iter::repeat_n("---|", columns));
    out.push('\n');
    for cells in rows {
        row(out, cells, 0);
    }
}

/// Writes a row, with empty cells for missing columns up to `columns`.
fn row(out: &mut String, cells: &[Cell], columns: usize) {
    let mut next = 0;
    out.push('|');
    for cell in cells {
        out.extend(std::iter::repeat_n(" |", cell.at - next));
        out.push(' ');
        // In a table `|` ends the cell everywhere, even in code.
        out.push_str(&cell.text.replace('|', "\\|"));
        out.push_str(" |");
        next = cell.at + 1;
    }
    out.extend(std::iter::repeat_n(" |", columns.saturating_sub(next)));
    out.push('\n');
}

/// The content of the cells, one block after the other.
fn cells_as_blocks(handlers: &dyn Handlers, table: &Table) -> String {
    let cells = table.rows.iter().flat_map(|row| &row.cells);
    let nodes = table.captions.iter().chain(cells);
    let mut out = String::from("\n\n");
    for node in nodes {
        let content = handlers.walk_children(node).content;
        let content = content.trim_matches('\n');
        if !content.trim().is_empty() {
            out.push_str(content);
            out.push_str("\n\n");
        }
    }
    out
}
