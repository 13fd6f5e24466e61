//! Listing of a directory: entry by entry, so that its size costs no memory, and without hidden entries.
//!
//! WASI's names are Unicode. Any other name is listed with U+FFFD for each invalid part and with an unknown type: a
//! guest sees that an entry exists, and finds nothing by that name. Without the entry, a directory would seem empty
//! but could not be removed; an error, as on other hosts, would hide all the rest.

use super::code;
use super::node::{Node, Slot, Slots};
use super::pace::Pace;
use super::refusal::Fault;
use super::sys::{self, Kind};
use mimir_core::paths::Scope;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry};

/// A position in a directory listing.
pub(super) enum Listing {
    /// Of a host directory.
    Real(Box<Real>),
    /// Of an overlay, whose entries are few and all known.
    Front(std::vec::IntoIter<DirectoryEntry>),
}

/// A position in the listing of a host directory.
pub(super) struct Real {
    entries: sys::List,
    node: Node,
    scope: Scope,
    /// A listing has its own host handle.
    _slot: Slot,
}

impl Listing {
    pub(super) fn open(node: &Node, slots: &Slots) -> Result<Self, Fault> {
        let dir = node.dir()?;
        let slot = slots.take()?;
        let scope = node.shared().rules.scope(node.path());
        Ok(Self::Real(Box::new(Real {
            entries: sys::list(dir)?,
            node: node.clone(),
            scope,
            _slot: slot,
        })))
    }

    /// Returns a listing of these overlay entries.
    pub(super) fn of(entries: Vec<DirectoryEntry>) -> Self {
        Self::Front(entries.into_iter())
    }

    /// Returns the next entry that a guest may see.
    pub(super) async fn next(&mut self, pace: &mut Pace) -> Result<Option<DirectoryEntry>, Fault> {
        match self {
            Self::Real(listing) => listing.next(pace).await,
            Self::Front(entries) => Ok(entries.next()),
        }
    }
}

impl Real {
    async fn next(&mut self, pace: &mut Pace) -> Result<Option<DirectoryEntry>, Fault> {
        loop {
            pace.give_way().await;
            let Some(entry) = self.entries.next() else {
                return Ok(None);
            };
            let (name, mut kind) = entry?;
            let exact = name.is_ok();
            let name = name.unwrap_or_else(|odd| odd.to_string_lossy().into_owned());
            if self
                .node
                .shared()
                .rules
                .check_in(&self.scope, &name)
                .against_reading()
                .is_some()
            {
                continue;
            }
            if !exact {
                let type_ = DescriptorType::Unknown;
                return Ok(Some(DirectoryEntry { type_, name }));
            }
            // Some file systems report the kind only on request; an entry that is gone by then is skipped.
            if kind == Kind::Other {
                match sys::stat_at(self.node.dir()?, &name) {
                    Ok(stat) => kind = stat.kind,
                    Err(_) => continue,
                }
            }
            return Ok(Some(DirectoryEntry {
                type_: code::kind(kind),
                name,
            }));
        }
    }
}
