//! Refs of elements, such as `e12`.

use std::collections::HashMap;

/// A node of the page, as the browser identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NodeKey {
    /// The session of the process that shows it.
    pub(crate) session: String,
    /// The id of the frame that contains it.
    pub(crate) frame: String,
    /// The id of the node in that process.
    pub(crate) node: i64,
}

/// The refs of a tab. A node keeps its ref until the tab shows another page, and no ref is used twice in a tab: the ref of
/// an earlier page names nothing instead of another element.
#[derive(Debug, Default)]
pub(crate) struct RefTable {
    by_node: HashMap<NodeKey, u64>,
    by_ref: HashMap<u64, LabeledNode>,
    last: u64,
}

/// A node with its role and name in the last snapshot that contains it.
#[derive(Debug)]
struct LabeledNode {
    key: NodeKey,
    label: String,
}

impl RefTable {
    /// Returns the ref of a node, and creates it on first use. `label` is the role and the name that the snapshot shows.
    pub(crate) fn ref_of(&mut self, key: &NodeKey, label: &str) -> String {
        let number = match self.by_node.get(key) {
            Some(number) => *number,
            None => {
                self.last += 1;
                self.by_node.insert(key.clone(), self.last);
                self.last
            }
        };
        let node = LabeledNode {
            key: key.clone(),
            label: label.to_owned(),
        };
        self.by_ref.insert(number, node);
        format!("e{number}")
    }

    /// Returns the node of a ref.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeKey> {
        self.by_ref.get(&parse_ref(name)?).map(|node| &node.key)
    }

    /// Returns role and name of a ref, as in the last snapshot that contains it.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let node = self.by_ref.get(&parse_ref(name)?);
        node.map(|node| node.label.as_str())
    }

    /// Forgets all refs.
    pub(crate) fn clear(&mut self) {
        self.by_node.clear();
        self.by_ref.clear();
    }
}

/// Returns the number of a text of the form `e12`.
fn parse_ref(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('e')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// Returns true if the text has the form of a ref.
pub(crate) fn is_ref(name: &str) -> bool {
    parse_ref(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_stay_stable_and_are_never_reused() {
        let key = |node| NodeKey {
            session: "s".to_owned(),
            frame: "f".to_owned(),
            node,
        };
        let mut refs = RefTable::default();
        assert_eq!(refs.ref_of(&key(7), "button \"Order\""), "e1");
        assert_eq!(refs.ref_of(&key(9), "link"), "e2");
        assert_eq!(refs.label("e1"), Some("button \"Order\""));
        assert_eq!(refs.ref_of(&key(7), "button \"Delete\""), "e1");
        assert_eq!(refs.label("e1"), Some("button \"Delete\""));
        assert_eq!(refs.node("e2"), Some(&key(9)));
        refs.clear();
        assert_eq!(refs.node("e2"), None);
        assert_eq!(refs.label("e1"), None);
        assert_eq!(refs.ref_of(&key(7), ""), "e3");
        for text in ["e", "e1x", "1", "email", "e-1"] {
            assert!(!is_ref(text), "{text}");
        }
    }
}
