//! `git`: status, diff, log and show read a repository; add, commit, branch and checkout change it.
//!
//! `args` parses the arguments of a call. `repository` runs git without the programs that a repository can configure.
//! `filters` refuses operations on files that need such a program. The results of the operations are in `status`,
//! `diff`, `log`, `branch` and `change`.
//!
//! Out of scope: other git commands. They can be run with `exec`, which checks each command.

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
