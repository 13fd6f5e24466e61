//! Text without markup: blocks on separate lines, an empty line between paragraphs.

use std::rc::Rc;

use markup5ever_rcdom::NodeData;

use super::dom::{self, Handle};

/// Elements with an empty line before and after.
const APART: [&str; 17] = [
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
const LINES: [&str; 12] = [
    "div", "li", "dt", "dd", "tr", "caption", "header", "main", "form", "details", "summary",
    "address",
];

/// A step of the writer.
enum Step {
    Node(Handle),
    /// Ensures at least this many line ends.
    End(usize),
    /// The end of preformatted text.
    Loose,
}

/// The text of a tree.
pub(super) fn text(root: &Handle) -> String {
    let mut writer = Writer::default();
    let mut preformatted = 0_usize;
    let mut stack = vec![Step::Node(Rc::clone(root))];
    while let Some(step) = stack.pop() {
        let node = match step {
            Step::Node(node) => node,
            Step::End(lines) => {
                writer.end(lines);
                continue;
            }
            Step::Loose => {
                preformatted -= 1;
                continue;
            }
        };
        if let NodeData::Text { contents } = &node.data {
            match preformatted {
                0 => writer.words(&contents.borrow()),
                _ => writer.put(&contents.borrow()),
            }
            continue;
        }
        let name = dom::name(&node).unwrap_or_default();
        let lines = match name {
            name if APART.contains(&name) => 2,
            name if LINES.contains(&name) => 1,
            _ => 0,
        };
        writer.end(lines);
        stack.push(Step::End(lines));
        match name {
            "br" => writer.end(1),
            "li" => writer.mark = "- ",
            "td" | "th" if writer.ends == 0 => writer.mark = "\t",
            "img" => writer.words(&dom::attribute(&node, "alt").unwrap_or_default()),
            "pre" => {
                preformatted += 1;
                stack.push(Step::Loose);
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
    ends: usize,
    /// Pending mark before the next words.
    mark: &'static str,
    /// True if a space is pending.
    space: bool,
}

impl Writer {
    fn end(&mut self, lines: usize) {
        self.ends = self.ends.max(lines);
    }

    fn put(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.out.is_empty() && self.ends > 0 {
            self.out.extend(std::iter::repeat_n('\n', self.ends));
        } else if self.space && self.mark.is_empty() && !self.out.is_empty() {
            self.out.push(' ');
        }
        (self.ends, self.space) = (0, false);
        self.out.push_str(std::mem::take(&mut self.mark));
        self.out.push_str(text);
    }

    /// Words with single spaces between them.
    fn words(&mut self, text: &str) {
        self.space |= text.starts_with(char::is_whitespace);
        for word in text.split_whitespace() {
            self.put(word);
            self.space = true;
        }
        self.space = text.ends_with(char::is_whitespace) || (self.space && text.trim().is_empty());
    }
}
