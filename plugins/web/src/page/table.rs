//! A table as Markdown: every cell of every row, in the order of the page, and no blanks to fill columns.
//!
//! A table that only arranges a page, as mails and old pages have them, becomes the blocks that are in its cells. Never
//! here: what is content and what is not, which `tidy` has decided before.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use htmd::Element;
use htmd::element_handler::{ElementHandler, HandlerResult, Handlers};

use super::dom::{self, Handle};

/// The most columns that a cell stands for beside its own. A page may say a thousand in every cell, and what is written
/// must not grow by that.
const SPAN_MAX: usize = 32;

/// Elements that only a table has which arranges a page, unless it names its rows or columns.
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

/// Between two lines of one cell, which Markdown has no other sign for.
const BREAK: &str = "<br>";

/// In how many cells of tables the writer is now. A cell is one line, whatever is in it.
#[derive(Clone, Default)]
pub(super) struct Cells(Arc<AtomicUsize>);

impl Cells {
    /// Whether what is written becomes a part of one line.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    fn within<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let written = write();
        self.0.fetch_sub(1, Ordering::Relaxed);
        written
    }
}

/// Writes tables.
pub(super) struct Tables(pub(super) Cells);

impl ElementHandler for Tables {
    fn handle(&self, handlers: &dyn Handlers, element: Element<'_>) -> Option<HandlerResult> {
        let table = Table::read(element.node);
        if table.arranges() {
            return Some(blocks(handlers, &table).into());
        }
        let captions = table.captions.iter().map(|node| line(handlers, node));
        let captions: Vec<String> = captions.filter(|text| !text.is_empty()).collect();
        let rows = self.0.within(|| table.written(handlers));
        let mut out = format!("\n\n{}\n\n", captions.join("\n"));
        match self.0.any() {
            false => grid(&mut out, &rows, table.is_headed()),
            // In a cell of another: its rows are lines of that cell.
            true => {
                for row in rows {
                    let texts: Vec<String> = row.into_iter().map(|cell| cell.text).collect();
                    out.push_str(&texts.join("; "));
                    out.push('\n');
                }
            }
        }
        out.push('\n');
        Some(out.into())
    }
}

/// What a table is made of.
#[derive(Default)]
struct Table {
    captions: Vec<Handle>,
    rows: Vec<Row>,
    /// Whether it says of a cell that it names others.
    names: bool,
    /// Whether there is another table in it, or what makes blocks.
    blocks: bool,
}

#[derive(Default)]
struct Row {
    cells: Vec<Handle>,
    in_head: bool,
}

impl Table {
    /// Reads a table. What is in the tables in it is theirs.
    fn read(table: &Handle) -> Self {
        let mut read = Self::default();
        // A node, and whether it is in the head and in a cell.
        let mut stack = vec![(Rc::clone(table), false, false)];
        while let Some((node, mut in_head, mut in_cell)) = stack.pop() {
            match dom::name(&node) {
                Some("table") if !Rc::ptr_eq(&node, table) => {
                    read.blocks = true;
                    continue;
                }
                Some("caption") if !in_cell => {
                    read.captions.push(node);
                    continue;
                }
                Some("thead") if !in_cell => (in_head, read.names) = (true, true),
                Some("tr") if !in_cell => read.rows.push(Row {
                    in_head,
                    ..Row::default()
                }),
                Some(name @ ("td" | "th")) if !in_cell => {
                    in_cell = true;
                    read.names |= name == "th";
                    if read.rows.is_empty() {
                        read.rows.push(Row::default());
                    }
                    if let Some(row) = read.rows.last_mut() {
                        row.cells.push(Rc::clone(&node));
                    }
                }
                Some(name) => read.blocks |= BLOCKS.contains(&name),
                None => {}
            }
            let children = node.children.borrow();
            let children = children.iter().rev().cloned();
            stack.extend(children.map(|child| (child, in_head, in_cell)));
        }
        read
    }

    /// Whether it arranges a page and says nothing by its rows and columns.
    fn arranges(&self) -> bool {
        let single = self.rows.iter().all(|row| row.cells.len() < 2);
        !self.names && (self.blocks || single)
    }

    /// Whether its first row names the columns: in the head, or with nothing but names.
    fn is_headed(&self) -> bool {
        let Some(first) = self.rows.iter().find(|row| !row.cells.is_empty()) else {
            return false;
        };
        let is_name = |cell: &Handle| dom::is(cell, "th") || dom::text(cell).trim().is_empty();
        first.in_head || first.cells.iter().all(is_name)
    }

    /// The text of every cell that has one, with its column.
    fn written(&self, handlers: &dyn Handlers) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        // For how many rows more each column is taken by a cell of a row before.
        let mut taken: Vec<usize> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.cells.is_empty()) {
            let (mut next, mut texts) = (0, Vec::new());
            for cell in &row.cells {
                while let Some(rows) = taken.get_mut(next).filter(|rows| **rows > 0) {
                    *rows -= 1;
                    next += 1;
                }
                let (at, rows) = (next, span(cell, "rowspan", usize::MAX));
                next += span(cell, "colspan", SPAN_MAX);
                if rows > 1 && at < SPAN_MAX {
                    taken.resize(taken.len().max(next), 0);
                    taken[at..next].fill(rows - 1);
                }
                let text = line(handlers, cell);
                if !text.is_empty() {
                    texts.push(Cell { at, text });
                }
            }
            let rest = taken.iter_mut().skip(next);
            rest.for_each(|rows| *rows = rows.saturating_sub(1));
            // The first may be the names of the columns, of which there may be none.
            if !texts.is_empty() || rows.is_empty() {
                rows.push(texts);
            }
        }
        rows
    }
}

/// The text of a cell.
struct Cell {
    /// Its column.
    at: usize,
    text: String,
}

/// How many rows or columns a cell stands for.
fn span(cell: &Handle, direction: &str, most: usize) -> usize {
    let written = dom::attribute(cell, direction);
    let count = written.and_then(|count| count.trim().parse().ok());
    count.unwrap_or(1).clamp(1, most)
}

/// What is in an element, as one line.
fn line(handlers: &dyn Handlers, node: &Handle) -> String {
    let content = handlers.walk_children(node).content;
    let lines = content.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(BREAK)
}

/// Writes the rows of a table. Markdown has no table without a row of names, so that one may be empty.
fn grid(out: &mut String, rows: &[Vec<Cell>], is_headed: bool) {
    let ends = rows.iter().filter_map(|row| row.last());
    let columns = ends.map(|cell| cell.at + 1).max().unwrap_or(0);
    if columns == 0 {
        return;
    }
    let (names, rows) = match rows.split_first() {
        Some((first, rest)) if is_headed => (first.as_slice(), rest),
        _ => (&[][..], rows),
    };
    row(out, names, columns);
    out.push('|');
    out.extend(std::iter::repeat_n("---|", columns));
    out.push('\n');
    for cells in rows {
        row(out, cells, 0);
    }
}

/// Writes a row: empty cells before, between and, up to `columns`, behind those that say something.
fn row(out: &mut String, cells: &[Cell], columns: usize) {
    let mut next = 0;
    out.push('|');
    for cell in cells {
        out.extend(std::iter::repeat_n(" |", cell.at - next));
        out.push(' ');
        // In a table it ends the cell wherever it stands, in code too.
        out.push_str(&cell.text.replace('|', "\\|"));
        out.push_str(" |");
        next = cell.at + 1;
    }
    out.extend(std::iter::repeat_n(" |", columns.saturating_sub(next)));
    out.push('\n');
}

/// What is in the cells, one block after the other.
fn blocks(handlers: &dyn Handlers, table: &Table) -> String {
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
