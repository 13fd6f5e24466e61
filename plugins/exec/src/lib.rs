//! The command tools: `exec` runs a command; `exec_status`, `exec_output` and `exec_stop` manage the background jobs
//! it started.
//!
//! Each module is one tool; `report` formats command output for a model.
//!
//! Out of scope: deciding which commands may run and in which sandbox. The host does that and runs them.

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
