//! `git`: status, diff, log and show read a repository; add, commit, branch and checkout change it.
//!
//! `words` checks the arguments of a call. `repository` runs git so that no program that the repository configures runs.
//! `moved` refuses operations on files that need such a program. Each operation has a module for its result.
//!
//! Out of scope: other git commands. Use `exec` for them; it checks each command.

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
