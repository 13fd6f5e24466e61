//! `mimir approvals`

use std::time::SystemTime;

use jiff::Timestamp;
use mimir_core::approval::{Lease, Ledger as _};
use mimir_core::audit::{Event, Kind};
use mimir_core::{Code, ToolError};
use serde_json::json;

use crate::args::{ApprovalsWish, Globals};
use crate::exit::{Exit, Failure};
use crate::output::{Printer, approvals, note};
use crate::setup::Setup;

/// Shows what was approved for good, or takes it back.
pub fn run(globals: &Globals, printer: Printer, wish: &ApprovalsWish) -> Result<Exit, Failure> {
    let setup = Setup::find(globals)?;
    let ledger = setup.own_ledger()?;
    match wish {
        ApprovalsWish::List => {
            let leases = ledger
                .lasting(setup.settings.policy()?.lease_life())
                .leases()?;
            approvals::list(printer, &leases, Timestamp::now())?;
        }
        ApprovalsWish::Revoke(ids) => {
            let gone = ledger.change(|book| take(&mut book.leases, ids))??;
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

/// Takes the leases with these ids away, or all if none is named; each id has to mean exactly one.
fn take(leases: &mut Vec<Lease>, ids: &[String]) -> Result<usize, ToolError> {
    for id in ids {
        let found = leases
            .iter()
            .filter(|lease| lease.id.as_str().starts_with(id.as_str()));
        let fault = match found.count() {
            1 => continue,
            0 => "there is no approval",
            _ => "there are several approvals",
        };
        let id = mimir_core::text::visible(mimir_core::text::prefix(id, 64));
        return Err(ToolError::new(
            Code::NotFound,
            format!("{fault} whose id begins with `{id}`; `mimir approvals list` shows them"),
        ));
    }
    let before = leases.len();
    let named = |lease: &Lease| {
        ids.iter()
            .any(|id| lease.id.as_str().starts_with(id.as_str()))
    };
    leases.retain(|lease| !ids.is_empty() && !named(lease));
    Ok(before - leases.len())
}
