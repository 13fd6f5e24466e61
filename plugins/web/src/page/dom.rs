//! Queries on a parsed page. Nothing here is recursive, because a page may be nested to any depth.

use std::rc::Rc;

use markup5ever_rcdom::{Node, NodeData};

/// A node of the tree.
pub(super) type Handle = Rc<Node>;

/// The name of an element.
pub(super) fn name(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

/// Returns true for an element of this name.
pub(super) fn is(node: &Node, wanted: &str) -> bool {
    name(node) == Some(wanted)
}

/// The value of an attribute.
pub(super) fn attribute(node: &Node, wanted: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    let attrs = attrs.borrow();
    let mut attrs = attrs.iter();
    let found = attrs.find(|attribute| &*attribute.name.local == wanted)?;
    Some(found.value.to_string())
}

/// Sets an existing attribute, or removes it.
pub(super) fn set(node: &Node, wanted: &str, value: Option<&str>) {
    let NodeData::Element { attrs, .. } = &node.data else {
        return;
    };
    let mut attrs = attrs.borrow_mut();
    match value {
        None => attrs.retain(|attribute| &*attribute.name.local != wanted),
        Some(value) => {
            let mut attrs = attrs.iter_mut();
            if let Some(attribute) = attrs.find(|attribute| &*attribute.name.local == wanted) {
                attribute.value = value.into();
            }
        }
    }
}

/// All nodes below and including this one, in the order of the page.
pub(super) fn walk(node: &Handle) -> impl Iterator<Item = Handle> {
    let mut stack = vec![Rc::clone(node)];
    std::iter::from_fn(move || {
        let next = stack.pop()?;
        let children = next.children.borrow();
        stack.extend(children.iter().rev().cloned());
        drop(children);
        Some(next)
    })
}

/// The first node that matches.
pub(super) fn find(node: &Handle, wanted: impl Fn(&Node) -> bool) -> Option<Handle> {
    walk(node).find(|node| wanted(node))
}

/// All text below a node, unchanged.
pub(super) fn text(node: &Handle) -> String {
    let mut all = String::new();
    for node in walk(node) {
        match &node.data {
            NodeData::Text { contents } => all.push_str(&contents.borrow()),
            NodeData::Element { name, .. } if &*name.local == "br" => all.push('\n'),
            _ => {}
        }
    }
    all
}
