//! The accessibility tree of the browser, reduced to what a reader of the page needs.

use std::collections::HashMap;

use serde_json::Value;

use super::dom_facts::{DomFacts, NodeFacts};
use super::refs::NodeKey;

/// Maximum depth of the tree. Below it, content is left out.
const DEPTH_MAX: usize = 150;

/// Maximum number of options of a list that are shown.
const OPTIONS_MAX: usize = 100;

/// Maximum length of a name in characters, as in `@playwright/mcp`.
const NAME_MAX: usize = 900;

/// The accessibility nodes of one frame.
pub(crate) struct FrameNodes {
    /// The session of the process that shows it.
    pub(crate) session: String,
    /// The id of the frame.
    pub(crate) frame: String,
    /// The result of `Accessibility.getFullAXTree`.
    pub(crate) nodes: Vec<Value>,
    /// The frames in it, by the id of the `<iframe>` node.
    pub(crate) frames: HashMap<i64, FrameNodes>,
}

/// Facts about nodes, by session.
pub(crate) type FactsBySession = HashMap<String, DomFacts>;

/// An element of the page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PageElement {
    pub(crate) role: String,
    pub(crate) name: String,
    /// The text in a field.
    pub(crate) value: String,
    /// States such as `checked` and `level=2`.
    pub(crate) states: Vec<String>,
    /// The node, if a call can name the element.
    pub(crate) key: Option<NodeKey>,
    /// Properties such as `/url`.
    pub(crate) properties: Vec<(&'static str, String)>,
    /// Left, top, width and height.
    pub(crate) bounds: Option<[f64; 4]>,
    pub(crate) children: Vec<PagePart>,
}

/// A part of an element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PagePart {
    Element(Box<PageElement>),
    Text(String),
}

/// Builds the tree of a page.
pub(crate) fn page_tree(frame: &FrameNodes, facts: &FactsBySession) -> PageElement {
    let mut root = PageElement::default();
    FrameReader::new(frame, facts).read_into(&mut root.children, 0);
    root
}

struct FrameReader<'a> {
    frame: &'a FrameNodes,
    facts: &'a FactsBySession,
    by_id: HashMap<&'a str, &'a Value>,
}

/// The treatment of a node.
enum NodeUse {
    /// It is left out with its content.
    Drop,
    /// Only its content is shown. `true`: it is set off from the text around it.
    Hoist(bool),
    Text,
    Show(String),
}

impl<'a> FrameReader<'a> {
    fn new(frame: &'a FrameNodes, facts: &'a FactsBySession) -> Self {
        let by_id = frame.nodes.iter();
        let by_id = by_id.filter_map(|node| Some((node["nodeId"].as_str()?, node)));
        Self {
            frame,
            facts,
            by_id: by_id.collect(),
        }
    }

    fn read_into(&self, parts: &mut Vec<PagePart>, depth: usize) {
        if let Some(root) = self.frame.nodes.first() {
            self.add(root, parts, depth, false);
        }
        normalize(parts);
    }

    /// Adds a node, or its content, to `parts`. `is_pointed` is true below an element with the pointer of links.
    fn add(&self, node: &Value, parts: &mut Vec<PagePart>, depth: usize, is_pointed: bool) {
        if depth > DEPTH_MAX {
            return;
        }
        let id = node["backendDOMNodeId"].as_i64();
        let facts = id.and_then(|id| self.facts.get(&self.frame.session)?.get(id));
        match node_use(node, facts, is_pointed) {
            NodeUse::Drop => {}
            NodeUse::Text => parts.push(PagePart::Text(text_of(&node["name"]).to_owned())),
            NodeUse::Hoist(is_apart) => {
                if is_apart {
                    parts.push(PagePart::Text(" ".to_owned()));
                }
                self.add_children(node, parts, depth, is_pointed);
                if is_apart {
                    parts.push(PagePart::Text(" ".to_owned()));
                }
            }
            NodeUse::Show(role) => {
                let mut element = self.element(node, role, facts);
                if has_children(&element) {
                    let pointed = is_pointed || facts.is_some_and(|facts| facts.has_pointer);
                    self.add_children(node, &mut element.children, depth, pointed);
                }
                if let Some(frame) = id.and_then(|id| self.frame.frames.get(&id)) {
                    let reader = FrameReader::new(frame, self.facts);
                    reader.read_into(&mut element.children, depth + 1);
                }
                finish(&mut element);
                parts.push(PagePart::Element(Box::new(element)));
            }
        }
    }

    fn add_children(&self, node: &Value, parts: &mut Vec<PagePart>, depth: usize, pointed: bool) {
        for child in node["childIds"].as_array().into_iter().flatten() {
            if let Some(child) = child.as_str().and_then(|id| self.by_id.get(id)) {
                self.add(child, parts, depth + 1, pointed);
            }
        }
    }

    fn element(&self, node: &Value, role: String, facts: Option<&NodeFacts>) -> PageElement {
        let mut element = PageElement {
            name: mimir_core::text::prefix(text_of(&node["name"]).trim(), NAME_MAX).to_owned(),
            states: states_of(node),
            key: node["backendDOMNodeId"].as_i64().map(|node| NodeKey {
                session: self.frame.session.clone(),
                frame: self.frame.frame.clone(),
                node,
            }),
            bounds: facts.and_then(|facts| facts.bounds),
            ..PageElement::default()
        };
        if matches!(
            &*role,
            "textbox" | "searchbox" | "spinbutton" | "slider" | "combobox"
        ) {
            element.value = match &node["value"]["value"] {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => String::new(),
            };
        }
        if role == "generic" && facts.is_some_and(|facts| facts.is_clickable || facts.has_pointer) {
            element.states.push("cursor=pointer".to_owned());
        }
        if role == "link"
            && let Some(href) = facts.and_then(|facts| facts.href.as_ref())
        {
            element.properties.push(("/url", href.clone()));
        }
        if let Some(text) = facts.and_then(|facts| facts.placeholder.as_ref())
            && *text != element.name
        {
            element.properties.push(("/placeholder", text.clone()));
        }
        element.role = role;
        element
    }
}

fn node_use(node: &Value, facts: Option<&NodeFacts>, is_pointed: bool) -> NodeUse {
    let role = text_of(&node["role"]);
    let is_click_target = facts.is_some_and(|facts| {
        // A click on a label is one on its field.
        let is_other = matches!(&*facts.tag, "BODY" | "HTML" | "#document" | "LABEL");
        !is_other && (facts.is_clickable || (facts.has_pointer && !is_pointed))
    });
    if node["ignored"] == true {
        return if is_click_target && facts.is_some_and(|facts| facts.is_clickable) {
            NodeUse::Show("generic".to_owned())
        } else {
            NodeUse::Hoist(false)
        };
    }
    match role {
        "InlineTextBox" | "LineBreak" | "ListMarker" | "Ignored" => NodeUse::Drop,
        "StaticText" => NodeUse::Text,
        "none" | "presentation" | "generic" | "Section" | "LayoutTable" | "LayoutTableRow"
        | "LayoutTableCell" | "SectionHeader" | "SectionFooter" => {
            if is_click_target {
                NodeUse::Show("generic".to_owned())
            } else {
                NodeUse::Hoist(true)
            }
        }
        "strong" | "emphasis" | "mark" | "subscript" | "superscript" | "insertion" | "deletion"
        | "LabelText" | "Abbr" | "Ruby" | "RubyAnnotation" => NodeUse::Hoist(false),
        "RootWebArea" | "rowgroup" | "MenuListPopup" | "Legend" | "Pre" => NodeUse::Hoist(true),
        "image" | "SvgRoot" => {
            // A picture without a name is decoration.
            if text_of(&node["name"]).is_empty() && !is_click_target {
                NodeUse::Drop
            } else {
                NodeUse::Show("img".to_owned())
            }
        }
        "DisclosureTriangle" | "DisclosureTriangleGrouped" => NodeUse::Show("button".to_owned()),
        "Details" => NodeUse::Show("group".to_owned()),
        "columnheader" | "rowheader" | "gridcell" => NodeUse::Show(role.to_owned()),
        "MenuListOption" => NodeUse::Show("option".to_owned()),
        role if role.starts_with(|first: char| first.is_ascii_uppercase()) => {
            NodeUse::Show(role.to_ascii_lowercase())
        }
        role => NodeUse::Show(role.to_owned()),
    }
}

/// Returns false for fields, whose content is their value.
fn has_children(element: &PageElement) -> bool {
    !matches!(
        &*element.role,
        "textbox" | "searchbox" | "spinbutton" | "slider" | "progressbar" | "img" | "meter"
    ) || (element.role == "textbox" && element.value.is_empty())
}

/// Removes what would be said twice.
fn finish(element: &mut PageElement) {
    normalize(&mut element.children);
    match &*element.role {
        "combobox" | "listbox" => {
            let options = element.children.len();
            if options > OPTIONS_MAX {
                element.children.truncate(OPTIONS_MAX);
                let more = format!("({} more options)", options - OPTIONS_MAX);
                element.children.push(PagePart::Text(more));
            } else if element.children.iter().any(is_option) {
                element.value.clear();
            }
        }
        // Options are chosen by their text.
        "option" => element.key = None,
        _ => {}
    }
    if let [PagePart::Text(text)] = element.children.as_slice()
        && (*text == element.name || *text == element.value)
    {
        element.children.clear();
    }
}

fn is_option(part: &PagePart) -> bool {
    matches!(part, PagePart::Element(element) if element.role == "option")
}

/// Joins adjacent texts, and removes empty ones.
fn normalize(parts: &mut Vec<PagePart>) {
    let mut joined: Vec<PagePart> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        match (joined.last_mut(), part) {
            (Some(PagePart::Text(before)), PagePart::Text(text)) => before.push_str(&text),
            (_, part) => joined.push(part),
        }
    }
    joined.retain_mut(|part| match part {
        PagePart::Element(_) => true,
        PagePart::Text(text) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            *text = words.join(" ");
            !text.is_empty()
        }
    });
    *parts = joined;
}

fn states_of(node: &Value) -> Vec<String> {
    let mut states = Vec::new();
    for property in node["properties"].as_array().into_iter().flatten() {
        let value = &property["value"]["value"];
        let is_true = *value == true || *value == "true";
        match property["name"].as_str().unwrap_or_default() {
            "focused" if is_true => states.push("active".to_owned()),
            "checked" | "pressed" if *value == "mixed" => {
                let name = property["name"].as_str().unwrap_or_default();
                states.push(format!("{name}=mixed"));
            }
            name @ ("checked" | "pressed" | "disabled" | "expanded" | "selected") if is_true => {
                states.push(name.to_owned());
            }
            "invalid" if is_true => states.push("invalid".to_owned()),
            // Of list items, it only repeats the indentation.
            "level" if text_of(&node["role"]) == "heading" => {
                states.extend(value.as_i64().map(|level| format!("level={level}")));
            }
            _ => {}
        }
    }
    states.sort();
    states
}

/// Returns the text of a value of the accessibility tree.
fn text_of(value: &Value) -> &str {
    value["value"].as_str().unwrap_or_default()
}
