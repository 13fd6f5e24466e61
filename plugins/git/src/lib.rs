//! `git`: status, diff, log and show read a repository; add, commit, branch and checkout change it.
//!
//! `words` tells what the arguments of a call may be, `repository` runs git so that nothing in the
//! repository runs with it, `moved` refuses what that would spoil, and each operation has a room with what it reports.
//!
//! Never here: a way to any other git command. Those go through `exec`, where each is judged by itself.

mod branch;
mod change;
mod diff;
mod log;
mod moved;
mod repository;
mod status;
mod tool;
mod words;

pub use branch::Branch;
pub use diff::{Change, Changes};
pub use log::Commit;
pub use status::{Entry, Status};
pub use tool::{Git, Operation, Report};

mimir_sdk::export!(assessed Git);
