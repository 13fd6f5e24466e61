//! The tree of a page as lines of text.

use super::refs::RefTable;
use super::tree::{PageElement, PagePart};

/// Options of an outline.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutlineOptions {
    /// Maximum depth; content below it is left out.
    pub(crate) depth: Option<usize>,
    /// Adds the position of each element.
    pub(crate) boxes: bool,
}

/// Maximum number of lines. A page with more is cut off.
pub(crate) const LINES_MAX: usize = 5000;

/// Returns the lines of the children of `root`.
pub(crate) fn outline(
    root: &PageElement,
    refs: &mut RefTable,
    options: OutlineOptions,
) -> Vec<String> {
    let mut writer = OutlineWriter {
        lines: Vec::new(),
        refs,
        options,
    };
    for part in &root.children {
        writer.part(part, 0);
    }
    writer.lines
}

struct OutlineWriter<'a> {
    lines: Vec<String>,
    refs: &'a mut RefTable,
    options: OutlineOptions,
}

impl OutlineWriter<'_> {
    fn part(&mut self, part: &PagePart, depth: usize) {
        if self.lines.len() >= LINES_MAX || self.options.depth.is_some_and(|max| depth >= max) {
            return;
        }
        let indent = "  ".repeat(depth);
        match part {
            PagePart::Text(text) => self.lines.push(format!("{indent}- text: {}", scalar(text))),
            PagePart::Element(element) => {
                let head = format!("{indent}- {}", self.head(element));
                match (element.children.as_slice(), element.properties.as_slice()) {
                    ([], []) if element.value.is_empty() => self.lines.push(head),
                    ([], []) => self
                        .lines
                        .push(format!("{head}: {}", scalar(&element.value))),
                    ([PagePart::Text(text)], []) => {
                        self.lines.push(format!("{head}: {}", scalar(text)));
                    }
                    (children, properties) => {
                        self.lines.push(format!("{head}:"));
                        for (name, value) in properties {
                            self.lines
                                .push(format!("{indent}  - {name}: {}", scalar(value)));
                        }
                        if !element.value.is_empty() {
                            self.lines
                                .push(format!("{indent}  - text: {}", scalar(&element.value)));
                        }
                        for child in children {
                            self.part(child, depth + 1);
                        }
                    }
                }
            }
        }
    }

    fn head(&mut self, element: &PageElement) -> String {
        let mut head = element.role.clone();
        if !element.name.is_empty() {
            head.push(' ');
            head.push_str(&quoted(&element.name));
        }
        let label = head.clone();
        let (after, before): (Vec<_>, Vec<_>) = element
            .states
            .iter()
            .partition(|state| *state == "cursor=pointer");
        for state in before {
            head.push_str(&format!(" [{state}]"));
        }
        if let Some(key) = &element.key {
            head.push_str(&format!(" [ref={}]", self.refs.ref_of(key, &label)));
        }
        for state in after {
            head.push_str(&format!(" [{state}]"));
        }
        if let (true, Some([x, y, width, height])) = (self.options.boxes, element.bounds) {
            let number = |value: f64| value.round() as i64;
            head.push_str(&format!(
                " [box={},{},{},{}]",
                number(x),
                number(y),
                number(width),
                number(height)
            ));
        }
        head
    }
}

/// Returns the text as a string of JSON, on one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(mimir_core::text::visible(text)).to_string()
}

/// Returns the text as a scalar of YAML: plain if it can be read only as this text.
fn scalar(text: &str) -> String {
    let is_plain_start = text.starts_with(|first: char| first.is_alphabetic() || first == '/');
    let has_special = text.contains(": ") || text.contains(" #") || text.ends_with(':');
    let is_word = matches!(
        &*text.to_ascii_lowercase(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off"
    );
    if is_plain_start && !has_special && !is_word && !text.contains(char::is_control) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::{FrameNodes, page_tree};
    use super::super::{DomFacts, RefTable};
    use super::*;
    use serde_json::{Value, json};
    use std::collections::HashMap;

    fn node(id: i64, role: &str, name: &str, children: &[i64]) -> Value {
        let children: Vec<String> = children.iter().map(ToString::to_string).collect();
        json!({
            "nodeId": id.to_string(), "backendDOMNodeId": id, "role": {"value": role},
            "name": {"value": name}, "childIds": children
        })
    }

    fn lines(nodes: Vec<Value>, facts: Value, options: OutlineOptions) -> Vec<String> {
        let frame = FrameNodes {
            session: "s".to_owned(),
            frame: "f".to_owned(),
            nodes,
            frames: HashMap::new(),
        };
        let facts = HashMap::from([("s".to_owned(), DomFacts::parse(&facts))]);
        outline(
            &page_tree(&frame, &facts),
            &mut RefTable::default(),
            options,
        )
    }

    #[test]
    fn outline_joins_texts_and_hoists_containers() {
        let nodes = vec![
            node(1, "RootWebArea", "Shop", &[2, 3, 10]),
            node(2, "heading", "Orders", &[20]),
            node(20, "StaticText", "Orders", &[]),
            node(3, "paragraph", "", &[4, 5, 6, 7]),
            node(4, "StaticText", "Hello ", &[]),
            node(5, "strong", "", &[50]),
            node(50, "StaticText", "world", &[]),
            node(6, "StaticText", " and", &[]),
            node(7, "link", "Second page", &[70]),
            node(70, "StaticText", "Second page", &[]),
            node(10, "generic", "", &[11, 12]),
            node(11, "generic", "", &[110]),
            node(110, "StaticText", "One", &[]),
            node(12, "generic", "", &[120]),
            node(120, "StaticText", "Two: 2", &[]),
        ];
        assert_eq!(
            lines(nodes, json!({}), OutlineOptions::default()),
            [
                "- heading \"Orders\" [ref=e1]",
                "- paragraph [ref=e2]:",
                "  - text: Hello world and",
                "  - link \"Second page\" [ref=e3]",
                "- text: \"One Two: 2\"",
            ]
        );
    }

    #[test]
    fn outline_shows_states_values_and_click_targets() {
        let mut checkbox = node(2, "checkbox", "Agree", &[]);
        checkbox["properties"] = json!([
            {"name": "checked", "value": {"value": "true"}},
            {"name": "focused", "value": {"value": true}}
        ]);
        let mut field = node(3, "textbox", "Age", &[30]);
        field["value"] = json!({"value": "30"});
        let nodes = vec![
            node(1, "RootWebArea", "", &[2, 3, 4, 5]),
            checkbox,
            field,
            node(30, "StaticText", "30", &[]),
            node(4, "generic", "", &[40]),
            node(40, "StaticText", "Open", &[]),
            node(5, "combobox", "Size", &[50]),
            node(50, "MenuListPopup", "", &[51, 52]),
            node(51, "option", "Small", &[]),
            node(52, "option", "Large", &[]),
        ];
        let facts = json!({
            "strings": ["DIV", "auto", "placeholder", "years", "INPUT"],
            "documents": [{
                "nodes": {"backendNodeId": [4, 3], "nodeName": [0, 4], "isClickable": {"index": [0]},
                    "attributes": [[], [2, 3]]},
                "layout": {"nodeIndex": [0, 1], "styles": [[1], [1]], "bounds": [[1, 2.4, 3, 4], [0, 0, 1, 1]]}
            }]
        });
        let options = OutlineOptions {
            boxes: true,
            depth: None,
        };
        assert_eq!(
            lines(nodes, facts, options),
            [
                "- checkbox \"Agree\" [active] [checked] [ref=e1]",
                "- textbox \"Age\" [ref=e2] [box=0,0,1,1]:",
                "  - /placeholder: years",
                "  - text: \"30\"",
                "- generic [ref=e3] [cursor=pointer] [box=1,2,3,4]: Open",
                "- combobox \"Size\" [ref=e4]:",
                "  - option \"Small\"",
                "  - option \"Large\"",
            ]
        );
    }

    #[test]
    fn outline_survives_hostile_trees() {
        // Far deeper than the limit.
        let mut nodes = vec![node(1, "RootWebArea", "", &[2])];
        nodes.extend((2..5000).map(|id| node(id, "list", "", &[id + 1])));
        let deep = lines(nodes, json!({}), OutlineOptions::default());
        assert!(deep.len() < 200, "{}", deep.len());
        // A name that tries to look like another line.
        let nodes = vec![
            node(1, "RootWebArea", "", &[2]),
            node(2, "button", "x\n- button \"Pay\" [ref=e1]", &[]),
        ];
        let lines = lines(nodes, json!({}), OutlineOptions::default());
        assert_eq!(lines.len(), 1);
        assert!(!lines[0].contains('\n'), "{lines:?}");
    }
}
