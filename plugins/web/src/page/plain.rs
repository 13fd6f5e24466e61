//! Text without markup: blocks on separate lines, an empty line between paragraphs.

use std::rc::Rc;

use markup5ever_rcdom::NodeData;

use super::dom::{self, Handle};

/// Elements with an empty line before and after.
const PARAGRAPH_ELEMENTS: [&str; 17] = [
    "p",
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
    "table",
    "blockquote",
    "section",
    "article",
    "figure",
    "hr",
];

/// Elements on separate lines.
const LINE_ELEMENTS: [&str; 12] = [
    "div", "li", "dt", "dd", "tr", "caption", "header", "main", "form", "details", "summary",
    "address",
];

/// A step of the writer.
enum Step {
    Node(Handle),
    /// Ensures at least this many line ends.
    Break(usize),
    /// The end of preformatted text.
    EndPreformatted,
}

/// The text of a tree.
pub(super) fn text(root: &Handle) -> String {
    let mut writer = Writer::default();
    let mut preformatted = 0_usize;
    let mut stack = vec![Step::Node(Rc::clone(root))];
    while let Some(step) = stack.pop() {
        let node = match step {
            Step::Node(node) => node,
            Step::Break(lines) => {
                writer.break_line(lines);
                continue;
            }
            Step::EndPreformatted => {
                preformatted -= 1;
                continue;
            }
        };
        if let NodeData::Text { contents } = &node.data {
            match preformatted {
                0 => writer.push_words(&contents.borrow()),
                _ => writer.push_text(&contents.borrow()),
            }
            continue;
        }
        let name = dom::name(&node).unwrap_or_default();
        let lines = match name {
            name if PARAGRAPH_ELEMENTS.contains(&name) => 2,
            name if LINE_ELEMENTS.contains(&name) => 1,
            _ => 0,
        };
        writer.break_line(lines);
        stack.push(Step::Break(lines));
        match name {
            "br" => writer.break_line(1),
            "li" => writer.pending_mark = "- ",
            "td" | "th" if writer.pending_breaks == 0 => writer.pending_mark = "\t",
            "img" => writer.push_words(&dom::attribute(&node, "alt").unwrap_or_default()),
            "pre" => {
                preformatted += 1;
                stack.push(Step::EndPreformatted);
            }
            _ => {}
        }
        let children = node.children.borrow();
        stack.extend(children.iter().rev().cloned().map(Step::Node));
    }
    writer.out
}

/// Delays line ends, marks and spaces until text follows.
#[derive(Default)]
struct Writer {
    out: String,
    /// Pending line ends.
    pending_breaks: usize,
    /// Pending mark before the next words.
    pending_mark: &'static str,
    /// True if a space is pending.
    pending_space: bool,
}

impl Writer {
    fn break_line(&mut self, lines: usize) {
        self.pending_breaks = self.pending_breaks.max(lines);
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.out.is_empty() && self.pending_breaks > 0 {
            self.out
                .extend(std::iter::repeat_n('\n', self.pending_breaks));
        } else if self.pending_space && self.pending_mark.is_empty() && !self.out.is_empty() {
            self.out.push(' ');
        }
        (self.pending_breaks, self.pending_space) = (0, false);
        self.out.push_str(std::mem::take(&mut self.pending_mark));
        self.out.push_str(text);
    }

    /// Words with single spaces between them.
    fn push_words(&mut self, text: &str) {
        self.pending_space |= text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            self.push_text(word);
            self.pending_space = true;
        }
        self.pending_space =
            text.ends_with(char::is_whitespace) || (self.pending_space && text.trim().is_empty());
    }
}
