//! Conversion of an HTML page to its title and its main content, as Markdown or as plain text.
//!
//! The page is parsed as in a browser. `tidy` removes everything but the main content from the tree, then `htmd` or
//! `plain` writes it. The URL of the page is only used to resolve links.

mod attributes;
mod dom;
mod plain;
mod table;
mod tidy;

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::options::{BulletListMarker, Options};
use htmd::{Element, HtmlToMarkdown};
use url::Url;

pub use attributes::check;
use table::{Cells, Tables};

/// A page converted for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Text of its `title` element.
    pub title: Option<String>,
    /// Its content.
    pub text: String,
}

/// Converts the page to Markdown. Links and images are resolved against `base`.
pub fn markdown(html: &str, base: &Url) -> Page {
    convert(html, base, |converter, content| {
        converter.tree_to_markdown(content)
    })
}

/// Converts the page to text without markup.
pub fn text(html: &str, base: &Url) -> Page {
    convert(html, base, |_, content| plain::text(content))
}

/// Parses a page, reduces it to its main content, and writes the content with `write`.
fn convert(
    html: &str,
    base: &Url,
    write: impl FnOnce(&HtmlToMarkdown, &dom::Handle) -> String,
) -> Page {
    let converter = converter();
    // Reading from memory does not fail.
    let Ok(document) = converter.html_to_tree(html) else {
        return Page {
            title: None,
            text: html.to_owned(),
        };
    };
    let title = dom::find(&document, |node| dom::is(node, "title"));
    let title = title.map(|title| one_line(&dom::text(&title)));
    let content = tidy::content(&document, base);
    let text = write(&converter, &content);
    Page {
        title: title.filter(|title| !title.is_empty()),
        text: collapse_blank_lines(&text),
    }
}

fn converter() -> HtmlToMarkdown {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ul_bullet_spacing: 1,
        ol_number_spacing: 1,
        ..Options::default()
    };
    let cells = Cells::default();
    let in_cells = cells.clone();
    HtmlToMarkdown::builder()
        .options(options)
        .add_handler(
            vec!["pre"],
            move |_: &dyn Handlers, element: Element<'_>| {
                let written = if in_cells.inside_cell() {
                    code_lines(element.node)
                } else {
                    code_block(element.node)
                };
                Some(HandlerResult::from(written))
            },
        )
        .add_handler(vec!["code"], |_: &dyn Handlers, element: Element<'_>| {
            Some(HandlerResult::from(code_span(&dom::text(element.node))))
        })
        .add_handler(vec!["table"], Tables(cells))
        .build()
}

/// Formats preformatted text as a code block, with or without a `code` element.
fn code_block(node: &dom::Handle) -> String {
    let text = dom::text(node);
    let text = text.trim_matches('\n').trim_end();
    if text.trim().is_empty() {
        return String::new();
    }
    let code = dom::find(node, |node| dom::is(node, "code"));
    let nodes = code.iter().chain([node]);
    let language = nodes.filter_map(language).next().unwrap_or_default();
    // A fence must be longer than any run of backticks in the code.
    let fence = "`".repeat(longest_ticks(text).max(2) + 1);
    format!("\n\n{fence}{language}\n{text}\n{fence}\n\n")
}

/// Formats preformatted text as lines of inline code, because a table cell cannot contain a code block.
fn code_lines(node: &dom::Handle) -> String {
    let text = dom::text(node);
    let lines: Vec<String> = text.lines().map(code_span).collect();
    format!("\n\n{}\n\n", lines.join("\n"))
}

/// Formats the text of an element as inline code, without links.
fn code_span(text: &str) -> String {
    let text = one_line(text);
    if text.is_empty() {
        return String::new();
    }
    let ticks = "`".repeat(longest_ticks(&text) + 1);
    if text.starts_with('`') || text.ends_with('`') {
        format!("{ticks} {text} {ticks}")
    } else {
        format!("{ticks}{text}{ticks}")
    }
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// The language of a code block, in the form that highlighters use in class names.
fn language(node: &dom::Handle) -> Option<String> {
    let classes = dom::attribute(node, "class")?;
    let mut classes = classes.split_ascii_whitespace();
    let name = classes.find_map(|class| {
        class
            .strip_prefix("language-")
            .or_else(|| class.strip_prefix("lang-"))
    })?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-_#.".contains(c);
    let known = name.chars().all(plain) && name.len() <= MAX_LANGUAGE;
    known.then(|| name.to_owned())
}

/// Longest name of a language.
const MAX_LANGUAGE: usize = 20;

/// Text as one line, with single spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes trailing spaces and repeated empty lines, except in code.
fn collapse_blank_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut empty, mut fence) = (0, None::<&str>);
    for line in text.lines() {
        let mark = line.trim_start();
        let ticks = &mark[..mark.len() - mark.trim_start_matches('`').len()];
        match fence {
            Some(open) if mark.trim_end() == open => fence = None,
            None if ticks.len() >= 3 => fence = Some(ticks),
            _ => {}
        }
        let line = match fence {
            Some(_) => line,
            None => line.trim_end(),
        };
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if fence.is_some() || empty < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests;
