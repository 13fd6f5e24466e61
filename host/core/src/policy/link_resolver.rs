//! The targets of links among the path arguments of one call: a rule about a folder also applies to a link into it.

use std::cell::RefCell;

use crate::backend::{Backend, RealPath};
use crate::tool::Tool;

/// The link resolver of one call. Each path is looked up once.
pub(crate) struct LinkResolver<'a> {
    backend: Option<&'a dyn Backend>,
    known: RefCell<Vec<(String, RealPath)>>,
}

/// The maximum length of a path on Linux: a longer one cannot exist.
const PATH_MAX: usize = 4096;

impl<'a> LinkResolver<'a> {
    /// The resolver for calls of this tool.
    pub(crate) fn for_tool(tool: &'a Tool) -> Self {
        Self {
            backend: Some(&*tool.backend),
            known: RefCell::default(),
        }
    }

    /// A resolver without links, for arguments that belong to no call.
    pub(crate) fn none() -> Self {
        Self {
            backend: None,
            known: RefCell::default(),
        }
    }

    /// Resolves the path.
    pub(crate) fn real(&self, path: &str) -> RealPath {
        let Some(backend) = self.backend else {
            return RealPath::AsWritten;
        };
        let is_path = (1..=PATH_MAX).contains(&path.len()) && !path.contains(['\0', '\n']);
        if !is_path || path.starts_with('/') {
            return RealPath::AsWritten;
        }
        let mut known = self.known.borrow_mut();
        if let Some((_, real)) = known.iter().find(|(known, _)| known == path) {
            return real.clone();
        }
        let real = backend.resolve_path(path);
        known.push((path.to_owned(), real.clone()));
        real
    }
}
