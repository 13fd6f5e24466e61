//! Reduction of a page to its content: removes scripts, menus, forms, hidden elements, and everything around the main
//! part.
//!
//! Text that is invisible on the page is removed: a model must not read what a person would not see.

use std::rc::Rc;

use markup5ever_rcdom::{Node, NodeData};
use url::Url;

use super::dom::{self, Handle};

/// Elements without text, or with controls in place of it.
const NO_CONTENT: [&str; 22] = [
    "script", "style", "template", "noscript", "svg", "canvas", "iframe", "frame", "frameset",
    "object", "embed", "audio", "video", "map", "nav", "aside", "footer", "dialog", "button",
    "input", "select", "textarea",
];

/// ARIA roles of elements that are not content.
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

/// Classes by which common page generators mark parts that are not printed, and links next to headings.
const NO_CONTENT_CLASSES: [&str; 11] = [
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

/// Maximum nesting depth of the result. Deeper elements are reduced to their text, because the writers are recursive.
const MAX_DEPTH: usize = 200;

/// Minimum length of a main part's text in characters. A page with less text is built by scripts, or marks the wrong
/// element as its main part.
const MIN_MAIN_TEXT: usize = 200;

/// Returns the main content of a page. Modifies the tree.
pub(super) fn content(document: &Handle, base: &Url) -> Handle {
    let base = declared_base(document, base);
    let body = dom::find(document, |node| dom::is(node, "body"));
    let body = body.unwrap_or_else(|| Rc::clone(document));
    let main = main_part(&body);
    let root = main.unwrap_or(body);
    prune(&root, &base);
    root
}

/// `<base href>`, against which links are resolved.
fn declared_base(document: &Handle, base: &Url) -> Url {
    let declared = dom::find(document, |node| dom::is(node, "base"));
    let href = declared.and_then(|node| dom::attribute(&node, "href"));
    href.and_then(|href| base.join(&href).ok())
        .unwrap_or_else(|| base.clone())
}

/// Returns the main part as marked by the page: by an element, a role, or a single article.
fn main_part(body: &Handle) -> Option<Handle> {
    let has_text = |node: &Handle| {
        let text = dom::text(node);
        text.split_whitespace().map(str::len).sum::<usize>() >= MIN_MAIN_TEXT
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

/// Removes everything but the content from the tree, and makes URLs absolute.
fn prune(root: &Handle, base: &Url) {
    let mut stack = vec![(Rc::clone(root), 0)];
    while let Some((node, depth)) = stack.pop() {
        if depth >= MAX_DEPTH {
            flatten(&node);
            continue;
        }
        node.children
            .borrow_mut()
            .retain(|child| is_content(child, &node));
        for child in node.children.borrow().iter() {
            resolve_url(child, base);
            mark_superscript(child);
            stack.push((Rc::clone(child), depth + 1));
        }
    }
}

/// Reduces a node's descendants to their text.
fn flatten(node: &Handle) {
    let text = dom::text(node);
    *node.children.borrow_mut() = vec![text_node(&text, node)];
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
        .any(|class| NO_CONTENT_CLASSES.contains(&class))
    {
        return false;
    }
    match name {
        // The header of the page, not of an article, is removed unless it contains the heading.
        "header" if dom::is(parent, "body") => {
            dom::find(node, |node| dom::is(node, "h1")).is_some()
        }
        "a" => is_link_with_text(node),
        "li" => !is_translation(node),
        "img" => is_described_image(node),
        _ => true,
    }
}

/// Returns true if the page hides an element.
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

/// Offset in pixels beyond which an element is out of view. Pages that hide text this way use thousands, and those
/// that align something use tens.
const OFFSCREEN_PX: f64 = -900.0;

/// Returns true if a style declaration, in lower case and without spaces, makes an element invisible.
fn hides(property: &str, value: &str) -> bool {
    match property {
        "display" => value == "none",
        "visibility" => matches!(value, "hidden" | "collapse"),
        "font-size" | "opacity" => number(value) == Some(0.0),
        "left" | "top" | "right" | "bottom" | "text-indent" | "margin-left" | "margin-top" => {
            number(value).is_some_and(|number| number <= OFFSCREEN_PX)
        }
        _ => false,
    }
}

/// The number in a value, ignoring its unit.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+'));
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// Returns true if a link has text. Anchors next to headings, which link to the heading itself, do not count.
fn is_link_with_text(node: &Handle) -> bool {
    let text = dom::text(node);
    let has_image = || {
        dom::find(node, |node| {
            dom::is(node, "img") && is_described_image(node)
        })
        .is_some()
    };
    match text.trim() {
        "" => has_image(),
        "§" | "¶" | "#" | "🔗" => {
            !dom::attribute(node, "href").is_some_and(|href| href.starts_with('#'))
        }
        _ => true,
    }
}

/// Returns true if a list item is only a link to the same page in another language.
fn is_translation(item: &Handle) -> bool {
    let link = dom::find(item, |node| dom::attribute(node, "hreflang").is_some());
    link.is_some_and(|link| dom::text(&link).trim() == dom::text(item).trim())
}

/// Returns true for an image with a description. Other images are of no use to a reader of text.
fn is_described_image(node: &Node) -> bool {
    let alt = dom::attribute(node, "alt").unwrap_or_default();
    let source = dom::attribute(node, "src").unwrap_or_default();
    !alt.trim().is_empty() && !source.is_empty() && !starts_with(&source, "data:")
}

fn starts_with(text: &str, prefix: &str) -> bool {
    let start = text.trim_start().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Raised endings of ordinals such as "1st", which need no marker.
const ORDINALS: [&str; 4] = ["st", "nd", "rd", "th"];

/// Marks a superscript number or letter with `^`, so that x squared does not become `x2`. Footnotes and symbols have
/// brackets or signs already.
fn mark_superscript(node: &Handle) {
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
    let (before, after) = if text.chars().all(plain) {
        ("^", "")
    } else {
        ("^(", ")")
    };
    node.children
        .borrow_mut()
        .insert(0, text_node(before, node));
    if !after.is_empty() {
        node.children.borrow_mut().push(text_node(after, node));
    }
}

/// Creates a text node below a node.
fn text_node(text: &str, parent: &Handle) -> Handle {
    let contents = NodeData::Text {
        contents: std::cell::RefCell::new(text.into()),
    };
    let node = Node::new(contents);
    node.parent.set(Some(Rc::downgrade(parent)));
    node
}

/// Makes a URL absolute. A link within the page or with another scheme loses its URL and remains as text.
fn resolve_url(node: &Node, base: &Url) {
    let key = match dom::name(node) {
        Some("a") => "href",
        Some("img") => "src",
        _ => return,
    };
    let Some(written) = dom::attribute(node, key) else {
        return;
    };
    let resolved = base.join(written.trim()).ok();
    let target = resolved.filter(|url| {
        matches!(url.scheme(), "http" | "https" | "mailto") && !written.starts_with('#')
    });
    dom::set(node, key, target.as_ref().map(Url::as_str));
    // A title repeats the text, or is a tooltip.
    dom::set(node, "title", None);
}
