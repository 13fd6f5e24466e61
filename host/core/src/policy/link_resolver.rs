//! Resolves links among the path arguments of one call, so that a rule about a folder also applies to links into it.

use std::cell::RefCell;

use crate::backend::{Backend, RealPath};
use crate::tool::Tool;

/// The link resolver of one call. Caches the result of each lookup.
pub(crate) struct LinkResolver<'a> {
    backend: Option<&'a dyn Backend>,
    resolved: RefCell<Vec<(String, RealPath)>>,
}

/// Maximum length of a path on Linux, in bytes. A longer path cannot exist.
const PATH_MAX: usize = 4096;

impl<'a> LinkResolver<'a> {
    /// Creates the resolver for a call of this tool.
    pub(crate) fn for_tool(tool: &'a Tool) -> Self {
        Self {
            backend: Some(&*tool.backend),
            resolved: RefCell::default(),
        }
    }

    /// Creates a resolver without links, for arguments that belong to no call.
    pub(crate) fn none() -> Self {
        Self {
            backend: None,
            resolved: RefCell::default(),
        }
    }

    /// Resolves a path relative to the workspace root. Texts that cannot be such paths are returned as written.
    pub(crate) fn resolve(&self, path: &str) -> RealPath {
        let Some(backend) = self.backend else {
            return RealPath::AsWritten;
        };
        let is_path = (1..=PATH_MAX).contains(&path.len()) && !path.contains(['\0', '\n']);
        if !is_path || path.starts_with('/') {
            return RealPath::AsWritten;
        }
        let mut resolved = self.resolved.borrow_mut();
        if let Some((_, real)) = resolved.iter().find(|(resolved, _)| resolved == path) {
            return real.clone();
        }
        let real = backend.resolve_path(path);
        resolved.push((path.to_owned(), real.clone()));
        real
    }
}
