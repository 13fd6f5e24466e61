//! Facts about nodes that the accessibility tree lacks, from a snapshot of the DOM.

use std::collections::HashMap;

use serde_json::Value;

/// Facts about the nodes of one process.
#[derive(Debug, Default)]
pub(crate) struct DomFacts(HashMap<i64, NodeFacts>);

/// Facts about one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeFacts {
    /// The name of the element in upper case.
    pub(crate) tag: String,
    /// True if the node itself reacts to clicks.
    pub(crate) is_clickable: bool,
    /// True if the mouse pointer becomes a hand above it.
    pub(crate) has_pointer: bool,
    /// The attributes `placeholder` and `href`.
    pub(crate) placeholder: Option<String>,
    pub(crate) href: Option<String>,
    /// Left, top, width and height in pixels, relative to the page.
    pub(crate) bounds: Option<[f64; 4]>,
}

/// The style that `DOMSnapshot.captureSnapshot` has to return.
pub(crate) const STYLES: [&str; 1] = ["cursor"];

impl DomFacts {
    /// Reads the result of `DOMSnapshot.captureSnapshot` with [`STYLES`].
    pub(crate) fn parse(snapshot: &Value) -> Self {
        let strings = snapshot["strings"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let text = |index: &Value| -> Option<&str> {
            strings
                .get(usize::try_from(index.as_i64()?).ok()?)?
                .as_str()
        };
        let mut facts = HashMap::new();
        for document in snapshot["documents"].as_array().into_iter().flatten() {
            let nodes = &document["nodes"];
            let ids: Vec<i64> = integers(&nodes["backendNodeId"]).collect();
            let mut of_document: Vec<NodeFacts> = vec![NodeFacts::default(); ids.len()];
            for index in integers(&nodes["isClickable"]["index"]) {
                if let Some(node) = at(&mut of_document, index) {
                    node.is_clickable = true;
                }
            }
            let names = nodes["nodeName"].as_array().into_iter().flatten();
            for (node, name) in of_document.iter_mut().zip(names) {
                node.tag = text(name).unwrap_or_default().to_owned();
            }
            let attributes = nodes["attributes"].as_array().into_iter().flatten();
            for (node, attributes) in of_document.iter_mut().zip(attributes) {
                let pairs = attributes.as_array().map_or(&[][..], Vec::as_slice);
                for pair in pairs.chunks_exact(2) {
                    let [name, value] = pair else { continue };
                    let value = || text(value).map(str::to_owned);
                    match text(name) {
                        Some("placeholder") => node.placeholder = value(),
                        Some("href") => node.href = value(),
                        _ => {}
                    }
                }
            }
            let layout = &document["layout"];
            let styles = layout["styles"].as_array().into_iter().flatten();
            let bounds = layout["bounds"].as_array().into_iter().flatten();
            for ((index, styles), bounds) in integers(&layout["nodeIndex"]).zip(styles).zip(bounds)
            {
                if let Some(node) = at(&mut of_document, index) {
                    node.has_pointer = text(&styles[0]) == Some("pointer");
                    node.bounds = rectangle(bounds);
                }
            }
            facts.extend(ids.into_iter().zip(of_document));
        }
        Self(facts)
    }

    /// Returns the facts about a node.
    pub(crate) fn get(&self, node: i64) -> Option<&NodeFacts> {
        self.0.get(&node)
    }
}

fn integers(values: &Value) -> impl Iterator<Item = i64> {
    let values = values.as_array().into_iter().flatten();
    values.map(|value| value.as_i64().unwrap_or(-1))
}

fn at(nodes: &mut [NodeFacts], index: i64) -> Option<&mut NodeFacts> {
    nodes.get_mut(usize::try_from(index).ok()?)
}

fn rectangle(values: &Value) -> Option<[f64; 4]> {
    let values: Vec<f64> = values
        .as_array()?
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    values.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dom_facts_join_nodes_attributes_and_layout() {
        let facts = DomFacts::parse(&json!({
            "strings": ["DIV", "placeholder", "your name", "INPUT", "pointer", "auto"],
            "documents": [{
                "nodes": {
                    "backendNodeId": [5, 6], "nodeName": [0, 3], "isClickable": {"index": [0]},
                    "attributes": [[], [1, 2]]
                },
                "layout": {"nodeIndex": [0, 1], "styles": [[4], [5]], "bounds": [[1.0, 2.0, 3.0, 4.0], [0, 0, 9, 9]]}
            }]
        }));
        let div = facts.get(5).unwrap();
        assert!(div.is_clickable && div.has_pointer && div.tag == "DIV");
        assert_eq!(div.bounds, Some([1.0, 2.0, 3.0, 4.0]));
        let input = facts.get(6).unwrap();
        assert_eq!(input.placeholder.as_deref(), Some("your name"));
        assert!(!input.is_clickable && !input.has_pointer);
        assert_eq!(DomFacts::parse(&json!({})).get(5), None);
    }
}
