//! Where the paths among the arguments of one call really lead: a rule about a folder speaks of a link to it too.

use std::cell::RefCell;

use crate::backend::{Backend, RealPath};
use crate::tool::Tool;

/// The links of one call. Each path is looked up once, whoever asks.
pub(crate) struct Links<'a> {
    backend: Option<&'a dyn Backend>,
    known: RefCell<Vec<(String, RealPath)>>,
}

/// As long as a path may be on Linux: what is longer is none.
const PATH_MAX: usize = 4096;

impl<'a> Links<'a> {
    /// Those that calls of this tool meet.
    pub(crate) fn of(tool: &'a Tool) -> Self {
        Self {
            backend: Some(&*tool.backend),
            known: RefCell::default(),
        }
    }

    /// None: of arguments that belong to no call.
    pub(crate) fn none() -> Self {
        Self {
            backend: None,
            known: RefCell::default(),
        }
    }

    /// Where the path leads.
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
        let real = backend.real_path(path);
        known.push((path.to_owned(), real.clone()));
        real
    }
}
