//! `mimir approvals`.

use std::collections::BTreeSet;
use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::approval::{Lease, Ledger as _};
use mimir_core::audit::{Event, Kind};
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::args::{ApprovalsWish, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, approvals, note};
use mimir::ledger::{Book, Listed};
use mimir::setup::Setup;

/// Lists stored approvals and those of running sessions, or revokes some.
pub fn run(globals: &Globals, printer: Printer, wish: &ApprovalsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals.workspace.as_deref())?;
    let ledger = setup.own_ledger()?;
    match wish {
        ApprovalsWish::List => {
            let mut sessions = ledger.book()?.sessions;
            sessions.retain(Listed::may_count);
            let life = setup.settings.policy()?.lease_life();
            let leases = ledger.lasting(life).leases()?;
            approvals::list(printer, &leases, &sessions, Timestamp::now())?;
        }
        ApprovalsWish::Revoke(ids) => {
            let gone = ledger.change(|book| take(book, ids))??;
            let event = Event::of(Kind::Revoke, SystemTime::now());
            setup.record(&event.with_detail(&format!("{gone} remembered approvals")));
            if printer.is_json() {
                printer.value(&json!({ "revoked": gone }))?;
            } else {
                note(format_args!("revoked {gone}"));
            }
        }
    }
    Ok(Exit::Done)
}

/// Revokes the approvals with these ids, or all if none is given; each id must match exactly one.
fn take(book: &mut Book, ids: &[String]) -> Result<usize, ToolError> {
    book.sessions.retain(Listed::may_count);
    let sessions = book.sessions.iter().map(|listed| &listed.lease);
    let known: BTreeSet<&str> = book.leases.iter().chain(sessions).map(id_of).collect();
    for id in ids {
        let found = known.iter().filter(|known| known.starts_with(id.as_str()));
        let fault = match found.count() {
            1 => continue,
            0 => "no approval",
            _ => "several approvals",
        };
        let id = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
        return Err(ToolError::new(
            Code::NotFound,
            format!(
                "{fault} with an id that begins with `{id}`; `mimir approvals list` shows them"
            ),
        ));
    }
    let stays = |lease: &Lease| {
        let mut named = ids.iter();
        !ids.is_empty() && !named.any(|id| id_of(lease).starts_with(id.as_str()))
    };
    let before = book.leases.len() + book.sessions.len();
    book.leases.retain(stays);
    book.sessions.retain(|listed| stays(&listed.lease));
    Ok(before - book.leases.len() - book.sessions.len())
}

fn id_of(lease: &Lease) -> &str {
    lease.id.as_str()
}
