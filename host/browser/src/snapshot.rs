//! The snapshot of a page: its accessibility tree as text, with a ref for each element that a call can name.
//!
//! The text has the form that `@playwright/mcp` made known: one line per element with role, name, states and ref, and the
//! text of the page between them.

mod changes;
mod dom_facts;
mod outline;
mod refs;
mod tree;

pub(crate) use changes::changed_lines;
pub(crate) use dom_facts::{DomFacts, STYLES};
pub(crate) use outline::{LINES_MAX, OutlineOptions, outline};
pub(crate) use refs::{NodeKey, RefTable, is_ref};
pub(crate) use tree::{FrameNodes, PageElement, PagePart, page_tree};
