//! Pictures of a page: as a snapshot of text, as an image, as a PDF.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mimir_core::ToolError;
use serde_json::{Value, json};

use crate::page::Page;
use crate::snapshot::{
    DomFacts, FrameNodes, NodeKey, OutlineOptions, PageElement, STYLES, outline, page_tree,
};

/// Maximum number of frames in a snapshot.
const FRAMES_MAX: usize = 50;

/// Maximum number of elements of a page in a snapshot. The browser describes each in about a kilobyte.
const ELEMENTS_MAX: u64 = 50_000;

/// Maximum size of an image in pixels along one side.
const IMAGE_SIDE_MAX: f64 = 8000.0;

impl Page<'_> {
    /// Returns the tree of the page, with its frames.
    async fn tree(&self, facts: &mut HashMap<String, DomFacts>) -> Result<PageElement, ToolError> {
        let count = self
            .evaluate("document.getElementsByTagName('*').length")
            .await?;
        if count.as_u64().is_some_and(|count| count > ELEMENTS_MAX) {
            return Err(ToolError::limit_exceeded(format!(
                "the page has {count} elements, and a snapshot at most {ELEMENTS_MAX}: read parts of it with browser_evaluate"
            )));
        }
        let (session, frame) = self.with_tab(|tab| (tab.session.clone(), tab.main_frame.clone()));
        let mut left = FRAMES_MAX;
        let nodes = self.frame_nodes(&session, &frame, facts, &mut left).await?;
        let mut tree = page_tree(&nodes, facts);
        let secret_fields = self.with_tab(|tab| tab.secret_fields.clone());
        if !secret_fields.is_empty() {
            hide_fields(&mut tree, &secret_fields);
        }
        Ok(tree)
    }

    /// Hides entered secrets in all texts of a value, before they are shortened.
    fn hide_secrets(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.browser.gate.hide_entered_secrets(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_secrets(item)),
            Value::Object(object) => object.values_mut().for_each(|item| self.hide_secrets(item)),
            _ => {}
        }
    }

    /// Returns the nodes of a frame and of the frames in it.
    async fn frame_nodes(
        &self,
        session: &str,
        frame: &str,
        facts: &mut HashMap<String, DomFacts>,
        left: &mut usize,
    ) -> Result<FrameNodes, ToolError> {
        *left = left.saturating_sub(1);
        if !facts.contains_key(session) {
            let params = json!({"computedStyles": STYLES});
            let mut snapshot = self
                .send_to(session, "DOMSnapshot.captureSnapshot", params)
                .await?;
            self.hide_secrets(&mut snapshot["strings"]);
            facts.insert(session.to_owned(), DomFacts::parse(&snapshot));
        }
        let params = json!({"frameId": frame});
        let mut tree = self
            .send_to(session, "Accessibility.getFullAXTree", params)
            .await?;
        let mut nodes = match tree["nodes"].take() {
            Value::Array(nodes) => nodes,
            _ => Vec::new(),
        };
        if self.browser.gate.has_entered_secret() {
            nodes.iter_mut().for_each(|node| self.hide_secrets(node));
        }
        let mut frames = HashMap::new();
        for node in &nodes {
            let Some(id) = node["backendDOMNodeId"].as_i64() else {
                continue;
            };
            if node["role"]["value"] != "Iframe" || *left == 0 {
                continue;
            }
            let params = json!({"backendNodeId": id});
            let Ok(described) = self.send_to(session, "DOM.describeNode", params).await else {
                continue;
            };
            let Some(inner) = described["node"]["frameId"].as_str() else {
                continue;
            };
            let of_frame = self.browser.state().frame_sessions.get(inner).cloned();
            let of_frame = of_frame.unwrap_or_else(|| session.to_owned());
            // A frame may have gone in the meantime.
            if let Ok(nodes) = Box::pin(self.frame_nodes(&of_frame, inner, facts, left)).await {
                frames.insert(id, nodes);
            }
        }
        Ok(FrameNodes {
            session: session.to_owned(),
            frame: frame.to_owned(),
            nodes,
            frames,
        })
    }

    /// Returns the lines of a snapshot of the page, or of the part below an element.
    pub(crate) async fn snapshot(
        &self,
        below: Option<&NodeKey>,
        options: OutlineOptions,
    ) -> Result<Vec<String>, ToolError> {
        let mut facts = HashMap::new();
        let tree = self.tree(&mut facts).await?;
        let part;
        let root = match below {
            None => &tree,
            Some(key) => {
                let found = find_element(&tree, key).ok_or_else(|| {
                    ToolError::not_found(
                        "the element is not part of the snapshot: it may be hidden, or only a container",
                    )
                })?;
                part = PageElement {
                    children: vec![crate::snapshot::PagePart::Element(Box::new(found.clone()))],
                    ..PageElement::default()
                };
                &part
            }
        };
        Ok(self.with_tab(|tab| outline(root, &mut tab.refs, options)))
    }

    /// Takes a picture of the window, the whole page, or an element.
    pub(crate) async fn screenshot(
        &self,
        format: &str,
        of: Option<&NodeKey>,
        full_page: bool,
    ) -> Result<Vec<u8>, ToolError> {
        let mut params = json!({"format": format});
        if format == "jpeg" {
            params["quality"] = 80.into();
        }
        if let Some(key) = of {
            let scroll = json!({"backendNodeId": key.node});
            self.send_to(&key.session, "DOM.scrollIntoViewIfNeeded", scroll)
                .await?;
            let model = json!({"backendNodeId": key.node});
            let model = self.send_to(&key.session, "DOM.getBoxModel", model).await?;
            let border = model["model"]["border"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let numbers: Vec<f64> = border.iter().filter_map(Value::as_f64).collect();
            let axis = |offset: usize| numbers.iter().skip(offset).step_by(2).copied();
            let (left, top) = (
                axis(0).fold(f64::MAX, f64::min),
                axis(1).fold(f64::MAX, f64::min),
            );
            let width = axis(0).fold(f64::MIN, f64::max) - left;
            let height = axis(1).fold(f64::MIN, f64::max) - top;
            let metrics = self.send("Page.getLayoutMetrics", json!({})).await?;
            let view = &metrics["cssVisualViewport"];
            let page_x = view["pageX"].as_f64().unwrap_or_default();
            let page_y = view["pageY"].as_f64().unwrap_or_default();
            if width < 1.0 || height < 1.0 {
                return Err(ToolError::execution("the element has no size"));
            }
            params["clip"] = clip(left + page_x, top + page_y, width, height);
        } else if full_page {
            let metrics = self.send("Page.getLayoutMetrics", json!({})).await?;
            let size = &metrics["cssContentSize"];
            let side = |name: &str| size[name].as_f64().unwrap_or(1.0);
            params["clip"] = clip(0.0, 0.0, side("width"), side("height"));
            params["captureBeyondViewport"] = true.into();
        }
        let shot = self.send("Page.captureScreenshot", params).await?;
        decode(&shot["data"])
    }

    /// Returns the page as a PDF.
    pub(crate) async fn pdf(&self) -> Result<Vec<u8>, ToolError> {
        let params = json!({"printBackground": true, "preferCSSPageSize": true});
        let pdf = self.send("Page.printToPDF", params).await?;
        decode(&pdf["data"])
    }
}

fn clip(x: f64, y: f64, width: f64, height: f64) -> Value {
    json!({
        "x": x, "y": y, "width": width.min(IMAGE_SIDE_MAX), "height": height.min(IMAGE_SIDE_MAX), "scale": 1
    })
}

fn decode(data: &Value) -> Result<Vec<u8>, ToolError> {
    let bytes = STANDARD.decode(data.as_str().unwrap_or_default());
    bytes.map_err(|error| ToolError::internal(error.to_string()))
}

/// Hides the content of fields that got a secret: the page may have changed it, so that it is not masked.
fn hide_fields(element: &mut PageElement, fields: &HashSet<(String, i64)>) {
    let is_secret = element
        .key
        .as_ref()
        .is_some_and(|key| fields.contains(&(key.session.clone(), key.node)));
    if is_secret {
        element.value = "[entered secret]".to_owned();
        element.children.clear();
        return;
    }
    for part in &mut element.children {
        if let crate::snapshot::PagePart::Element(child) = part {
            hide_fields(child, fields);
        }
    }
}

fn find_element<'a>(element: &'a PageElement, key: &NodeKey) -> Option<&'a PageElement> {
    if element.key.as_ref() == Some(key) {
        return Some(element);
    }
    let children = element.children.iter();
    children
        .filter_map(|part| match part {
            crate::snapshot::PagePart::Element(child) => Some(child),
            crate::snapshot::PagePart::Text(_) => None,
        })
        .find_map(|child| find_element(child, key))
}

/// Returns the lines that match, each with its ancestors and some lines around it.
pub(crate) fn find_lines(
    lines: &[String],
    is_match: impl Fn(&str) -> bool,
) -> (usize, Vec<String>) {
    /// Lines around a match.
    const CONTEXT: usize = 2;
    /// Maximum number of matches that are shown.
    const MATCHES_MAX: usize = 50;
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut shown: HashSet<usize> = HashSet::new();
    let mut count = 0;
    for (index, line) in lines.iter().enumerate() {
        if !is_match(line) {
            continue;
        }
        count += 1;
        if count > MATCHES_MAX {
            continue;
        }
        shown.extend(index.saturating_sub(CONTEXT)..(index + CONTEXT + 1).min(lines.len()));
        let mut above = depth(line);
        for (before, other) in lines.iter().enumerate().take(index).rev() {
            if depth(other) < above {
                shown.insert(before);
                above = depth(other);
            }
        }
    }
    let found = lines.iter().enumerate();
    let found = found.filter(|(index, _)| shown.contains(index));
    (count, found.map(|(_, line)| line.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_shows_matches_below_their_ancestors() {
        let text = "- list:\n  - item: a\n  - item: b\n  - item: c\n  - item: d\n- text: end";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let (count, found) = find_lines(&lines, |line| line.contains("item: d"));
        assert_eq!(count, 1);
        assert_eq!(
            found,
            [
                "- list:",
                "  - item: b",
                "  - item: c",
                "  - item: d",
                "- text: end"
            ]
        );
        assert_eq!(
            find_lines(&lines, |line| line.contains("nothing")),
            (0, Vec::new())
        );
    }
}
