//! What of a page is its content: everything but scripts, menus, forms, what is hidden, and what stands round the main
//! part.
//!
//! What nobody sees on the page is no content: a reader must not be told what a person would not be.

use std::rc::Rc;

use markup5ever_rcdom::{Node, NodeData};
use url::Url;

use super::dom::{self, Handle};

/// Elements that show no text, or controls in place of it.
const NO_CONTENT: [&str; 22] = [
    "script", "style", "template", "noscript", "svg", "canvas", "iframe", "frame", "frameset",
    "object", "embed", "audio", "video", "map", "nav", "aside", "footer", "dialog", "button",
    "input", "select", "textarea",
];

/// What an element is for, where that is no content.
const NO_CONTENT_ROLES: [&str; 11] = [
    "navigation",
    "banner",
    "contentinfo",
    "complementary",
    "search",
    "dialog",
    "alertdialog",
    "menu",
    "menubar",
    "toolbar",
    "presentation-only",
];

/// Classes by which the usual generators of pages mark what is not to be printed, and links beside headings.
const FURNITURE: [&str; 11] = [
    "noprint",
    "no-print",
    "d-print-none",
    "mw-editsection",
    "navbox",
    "headerlink",
    "skip-link",
    "visually-hidden",
    "visuallyhidden",
    "sr-only",
    "screen-reader-text",
];

/// The deepest that a page is nested for a reader. What is deeper becomes text: the writers of the tree call
/// themselves for each level.
const DEPTH_MAX: usize = 200;

/// A main part with less text than this is none: the page is made by its scripts, or marks something else.
const MAIN_LEAST: usize = 200;

/// The main content of a page. The tree is changed for that.
pub(super) fn content(document: &Handle, base: &Url) -> Handle {
    let base = declared_base(document, base);
    let body = dom::find(document, |node| dom::is(node, "body"));
    let body = body.unwrap_or_else(|| Rc::clone(document));
    let main = main_part(&body);
    let root = main.unwrap_or(body);
    prune(&root, &base);
    root
}

/// `<base href>`, which links count from.
fn declared_base(document: &Handle, base: &Url) -> Url {
    let declared = dom::find(document, |node| dom::is(node, "base"));
    let href = declared.and_then(|node| dom::attribute(&node, "href"));
    href.and_then(|href| base.join(&href).ok())
        .unwrap_or_else(|| base.clone())
}

/// The part that the page itself calls its main one: by an element, by a role, or by being its only article.
fn main_part(body: &Handle) -> Option<Handle> {
    let has_text = |node: &Handle| {
        let text = dom::text(node);
        text.split_whitespace().map(str::len).sum::<usize>() >= MAIN_LEAST
    };
    let main = dom::find(body, |node| {
        dom::is(node, "main") || dom::attribute(node, "role").as_deref() == Some("main")
    });
    if let Some(main) = main.filter(has_text) {
        return Some(main);
    }
    let mut articles = dom::walk(body).filter(|node| dom::is(node, "article"));
    let article = articles.next().filter(has_text)?;
    articles.next().is_none().then_some(article)
}

/// Takes out of the tree what is no content, and makes the addresses in it whole.
fn prune(root: &Handle, base: &Url) {
    let mut stack = vec![(Rc::clone(root), 0)];
    while let Some((node, depth)) = stack.pop() {
        if depth >= DEPTH_MAX {
            flatten(&node);
            continue;
        }
        node.children
            .borrow_mut()
            .retain(|child| is_content(child, &node));
        for child in node.children.borrow().iter() {
            address(child, base);
            raise(child);
            stack.push((Rc::clone(child), depth + 1));
        }
    }
}

/// Leaves nothing of what is below a node but its text.
fn flatten(node: &Handle) {
    let text = dom::text(node);
    *node.children.borrow_mut() = vec![words(&text, node)];
}

fn is_content(node: &Handle, parent: &Node) -> bool {
    let name = match &node.data {
        NodeData::Element { name, .. } => &*name.local,
        NodeData::Text { .. } => return true,
        _ => return false,
    };
    if NO_CONTENT.contains(&name) || is_hidden(node) {
        return false;
    }
    let role = dom::attribute(node, "role");
    if role.is_some_and(|role| NO_CONTENT_ROLES.contains(&role.as_str())) {
        return false;
    }
    let classes = dom::attribute(node, "class").unwrap_or_default();
    if classes
        .split_ascii_whitespace()
        .any(|class| FURNITURE.contains(&class))
    {
        return false;
    }
    match name {
        // That of the page, and not of an article; it stays where the heading is in it.
        "header" if dom::is(parent, "body") => {
            dom::find(node, |node| dom::is(node, "h1")).is_some()
        }
        "a" => is_link_with_words(node),
        "li" => !is_translation(node),
        "img" => is_picture(node),
        _ => true,
    }
}

/// Whether the page says that an element is not shown.
fn is_hidden(node: &Node) -> bool {
    if dom::attribute(node, "hidden").is_some()
        || dom::attribute(node, "aria-hidden").is_some_and(|hidden| hidden == "true")
    {
        return true;
    }
    let Some(style) = dom::attribute(node, "style") else {
        return false;
    };
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let style = style.to_ascii_lowercase();
    style.split(';').any(|declaration| {
        let Some((property, value)) = declaration.split_once(':') else {
            return false;
        };
        hides(property, value.trim_end_matches("!important"))
    })
}

/// Pixels beyond an edge at which nothing is seen any more. Pages that hide a text there use thousands, and those that
/// only align something use tens.
const OUTSIDE: f64 = -900.0;

/// Whether a declaration of a style, in lower case and without blanks, makes an element one that nobody sees.
fn hides(property: &str, value: &str) -> bool {
    match property {
        "display" => value == "none",
        "visibility" => matches!(value, "hidden" | "collapse"),
        "font-size" | "opacity" => number(value) == Some(0.0),
        "left" | "top" | "right" | "bottom" | "text-indent" | "margin-left" | "margin-top" => {
            number(value).is_some_and(|number| number <= OUTSIDE)
        }
        _ => false,
    }
}

/// The number that a value is, whatever its unit.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+'));
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// Whether there is something to read in a link. The marks beside headings lead to the heading itself.
fn is_link_with_words(node: &Handle) -> bool {
    let text = dom::text(node);
    let has_picture = || dom::find(node, |node| dom::is(node, "img") && is_picture(node)).is_some();
    match text.trim() {
        "" => has_picture(),
        "§" | "¶" | "#" | "🔗" => {
            !dom::attribute(node, "href").is_some_and(|href| href.starts_with('#'))
        }
        _ => true,
    }
}

/// Whether an item of a list is only a link to the same page in another language.
fn is_translation(item: &Handle) -> bool {
    let link = dom::find(item, |node| dom::attribute(node, "hreflang").is_some());
    link.is_some_and(|link| dom::text(&link).trim() == dom::text(item).trim())
}

/// A picture without words says nothing to a reader.
fn is_picture(node: &Node) -> bool {
    let alt = dom::attribute(node, "alt").unwrap_or_default();
    let source = dom::attribute(node, "src").unwrap_or_default();
    !alt.trim().is_empty() && !source.is_empty() && !starts_with(&source, "data:")
}

fn starts_with(text: &str, prefix: &str) -> bool {
    let start = text.trim_start().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// What is raised in "1st" and its kind, where no sign is wanted.
const ORDINALS: [&str; 4] = ["st", "nd", "rd", "th"];

/// Says of a raised number or letter that it is raised: `x2` is not what the page says. Notes and marks have brackets
/// or signs of their own.
fn raise(node: &Handle) {
    if !dom::is(node, "sup") {
        return;
    }
    let text = dom::text(node);
    let text = text.trim();
    let first = text
        .trim_start_matches(['+', '-', '\u{2212}'])
        .chars()
        .next();
    if !first.is_some_and(char::is_alphanumeric) || ORDINALS.contains(&text) {
        return;
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '\u{2212}' | '.' | ',');
    let (before, after) = match text.chars().all(plain) {
        true => ("^", ""),
        false => ("^(", ")"),
    };
    node.children.borrow_mut().insert(0, words(before, node));
    if !after.is_empty() {
        node.children.borrow_mut().push(words(after, node));
    }
}

/// A text below a node.
fn words(text: &str, parent: &Handle) -> Handle {
    let contents = NodeData::Text {
        contents: std::cell::RefCell::new(text.into()),
    };
    let node = Node::new(contents);
    node.parent.set(Some(Rc::downgrade(parent)));
    node
}

/// Makes an address whole. A link that leads nowhere else stays as its words.
fn address(node: &Node, base: &Url) {
    let key = match dom::name(node) {
        Some("a") => "href",
        Some("img") => "src",
        _ => return,
    };
    let Some(written) = dom::attribute(node, key) else {
        return;
    };
    let whole = base.join(written.trim()).ok();
    let leads = whole.filter(|url| {
        matches!(url.scheme(), "http" | "https" | "mailto") && !written.starts_with('#')
    });
    dom::set(node, key, leads.as_ref().map(Url::as_str));
    // It says the same again, or what is for the pointer of a mouse.
    dom::set(node, "title", None);
}
