//! The folder of tools: good files, bad files, and files that change.

mod cache;
mod files;
mod folder;
mod named;
mod shipped;
mod slow;
mod watch;

use mimir_testkit::{Quarantined, Testkit};

/// The quarantine entry of a file.
fn find_quarantined(kit: &Testkit, name: &str) -> Quarantined {
    let all = kit.quarantined();
    let own = all.iter().find(|left| left.location.contains(name));
    own.unwrap_or_else(|| panic!("{name} was not left out: {all:?}"))
        .clone()
}
