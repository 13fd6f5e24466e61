//! The command tools: `exec` runs one, `exec_status`, `exec_output` and `exec_stop` are about those that it has
//! started in the background.
//!
//! Each room is one tool; `report` turns what a command wrote into what a model reads.
//!
//! Never here: which commands may run, and in what sandbox. The host judges and runs them.

mod exec;
mod job;
mod output;
mod report;
mod status;
mod stop;

pub use exec::{Exec, Ran};
pub use job::JobReport;
pub use output::{ExecOutput, Written};
pub use status::{ExecStatus, Jobs};
pub use stop::ExecStop;

mimir_sdk::export!(Exec, ExecStatus, ExecOutput, ExecStop);
