//! `mimir undo`

use crate::args::{Globals, UndoWish};
use crate::exit::{Exit, Failure};
use crate::output::Printer;

/// Takes back a change, or lists what can be taken back.
pub fn run(_globals: &Globals, _printer: Printer, _wish: UndoWish) -> Result<Exit, Failure> {
    Err(Failure::usage("later"))
}
