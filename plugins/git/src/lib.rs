//! `git`: status, diff, log and show read a repository; add, commit, branch and checkout change it.
//!
//! `args` checks the arguments of a call. `repository` runs git so that no program that the repository configures runs.
//! `filters` refuses operations on files that need such a program. Each operation has a module for its result.
//!
//! Out of scope: other git commands. Use `exec` for them; it checks each command.

mod args;
mod branch;
mod change;
mod diff;
mod filters;
mod log;
mod repository;
mod status;
mod tool;

pub use branch::Branch;
pub use diff::{Change, Changes};
pub use log::Commit;
pub use status::{Entry, Status};
pub use tool::{Git, Operation, Report};

mimir_sdk::export!(assessed Git);
