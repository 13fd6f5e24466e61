//! Listing of a directory without hidden entries. Entries are read one by one, so that large directories need no more
//! memory.
//!
//! Names in WASI are Unicode. Any other name is listed with U+FFFD for each invalid part and with an unknown type: a
//! guest sees that the entry exists, but cannot open it. If such entries were left out, a directory would seem empty
//! but could not be removed; an error, as on other hosts, would hide all other entries.

use super::node::{FsNode, HandleSlot, HandleSlots};
use super::refusal::FsFault;
use super::sys::{self, FileKind};
use super::wasi_types;
use super::yield_timer::YieldTimer;
use mimir_core::paths::PathScope;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry};

/// A position in a directory listing.
pub(super) enum DirListing {
    /// Listing of a host directory.
    Real(Box<HostListing>),
    /// Listing of an overlay directory, whose few entries are all known.
    Overlay(std::vec::IntoIter<DirectoryEntry>),
}

/// One step of a listing.
pub(super) enum ListingStep {
    /// An entry that the guest may see.
    Entry(DirectoryEntry),
    /// An entry that the guest may not see, or that is gone.
    Hidden,
    /// No further entry.
    End,
}

/// A position in the listing of a host directory.
pub(super) struct HostListing {
    entries: sys::DirEntries,
    node: FsNode,
    scope: PathScope,
    /// The slot of the listing's own host handle.
    _slot: HandleSlot,
}

impl DirListing {
    pub(super) fn open(node: &FsNode, slots: &HandleSlots) -> Result<Self, FsFault> {
        let dir = node.dir()?;
        let slot = slots.acquire()?;
        let scope = node.shared().rules.scope(node.path());
        Ok(Self::Real(Box::new(HostListing {
            entries: sys::list(dir)?,
            node: node.clone(),
            scope,
            _slot: slot,
        })))
    }

    /// Returns a listing of these overlay entries.
    pub(super) fn from_entries(entries: Vec<DirectoryEntry>) -> Self {
        Self::Overlay(entries.into_iter())
    }

    /// Returns the next entry that a guest may see.
    pub(super) async fn next(
        &mut self,
        yield_timer: &mut YieldTimer,
    ) -> Result<Option<DirectoryEntry>, FsFault> {
        loop {
            yield_timer.yield_if_due().await;
            match self.step()? {
                ListingStep::Entry(entry) => return Ok(Some(entry)),
                ListingStep::Hidden => {}
                ListingStep::End => return Ok(None),
            }
        }
    }

    /// Reads one entry.
    pub(super) fn step(&mut self) -> Result<ListingStep, FsFault> {
        match self {
            Self::Real(listing) => listing.step(),
            Self::Overlay(entries) => {
                Ok(entries.next().map_or(ListingStep::End, ListingStep::Entry))
            }
        }
    }
}

impl HostListing {
    fn step(&mut self) -> Result<ListingStep, FsFault> {
        let Some(entry) = self.entries.next() else {
            return Ok(ListingStep::End);
        };
        let (name, mut kind) = entry?;
        let is_unicode = name.is_ok();
        let name = name.unwrap_or_else(|raw| raw.to_string_lossy().into_owned());
        let rules = &self.node.shared().rules;
        let refusal = rules.check_in(&self.scope, &name).against_reading();
        if refusal.is_some() {
            return Ok(ListingStep::Hidden);
        }
        if !is_unicode {
            let type_ = DescriptorType::Unknown;
            return Ok(ListingStep::Entry(DirectoryEntry { type_, name }));
        }
        // Some file systems report the kind only on request; an entry that is gone by then is skipped.
        if kind == FileKind::Other {
            match sys::stat_at(self.node.dir()?, &name) {
                Ok(stat) => kind = stat.kind,
                Err(_) => return Ok(ListingStep::Hidden),
            }
        }
        let type_ = wasi_types::descriptor_type(kind);
        Ok(ListingStep::Entry(DirectoryEntry { type_, name }))
    }
}
