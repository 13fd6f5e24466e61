//! Tools around a project's own programs: `run_tests` runs its test framework, `format_code` its formatters.
//!
//! `test_project` finds the project and its framework, `test_command` makes the command line, and each module of
//! `reports` reads the output of one framework. `formatter` chooses the formatter of a file.
//!
//! Out of scope: deciding which commands may run and in which sandbox. The host does that and runs them.

mod format_code;
mod formatter;
mod missing_program;
mod project_path;
mod reports;
mod run_tests;
mod test_command;
mod test_project;
mod test_report;

pub use format_code::{FormatCode, FormatReport};
pub use run_tests::RunTests;
pub use test_project::Framework;
pub use test_report::{Coverage, CoveredFile, SourceError, TestFailure, TestReport};

mimir_sdk::export!(assessed RunTests, FormatCode);
