//! A directory being listed: entry by entry, so that its size costs no memory, and without what is hidden.
//!
//! WASI's names are Unicode. One that is not is shown with U+FFFD in the place of what is wrong and as of unknown
//! type: a guest sees that something is there, and finds nothing by that name. To leave it out would make a
//! directory seem empty that can't be removed; to fail, as other hosts do, would hide all the rest.

use super::code;
use super::node::{Node, Slot, Slots};
use super::pace::Pace;
use super::refusal::Fault;
use super::sys::{self, Kind};
use mimir_core::paths::Scope;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry};

/// A place in a directory.
pub(super) enum Listing {
    /// Of the host.
    Real(Box<Real>),
    /// Of a front, whose entries are few and all known.
    Front(std::vec::IntoIter<DirectoryEntry>),
}

/// A place in a directory of the host.
pub(super) struct Real {
    entries: sys::List,
    node: Node,
    scope: Scope,
    /// A listing has a handle of the host of its own.
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

    /// These entries, of a front.
    pub(super) fn of(entries: Vec<DirectoryEntry>) -> Self {
        Self::Front(entries.into_iter())
    }

    /// The next entry that a guest may see.
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
            // Some filesystems tell the kind only when asked; what is gone by then is left out.
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
