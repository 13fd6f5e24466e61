//! Analysis of commands: parses shell text and argument vectors into simple commands, and determines which words are
//! files, which commands only read, and which are dangerous.
//!
//! `shell` parses text. The other modules describe programs: `git`, `sed` (and `awk`), `find`, `xargs`, `interpreters`,
//! `wrappers` (`sudo`, `nice`), `executing_arguments` (options that run something), `finders` (commands that only print
//! file names), `operands` and `script_operands` (files among the words), `subcommands` (package managers and build
//! tools), `unseen_code` (code from the standard input), `read_only` and `dangers`.
//!
//! The crate is pure: it accesses no disk, process or clock. Unsupported text and unlisted programs are reported as
//! unknown, and need approval.
//!
//! Out of scope: rules, decisions and their reasons (`mimir-core`), and running commands (`mimir-process`).

mod dangers;
mod environment_variables;
mod executing_arguments;
mod find;
mod finders;
mod git;
mod glob_text;
mod interpreters;
mod operands;
mod option_paths;
mod option_table;
mod path_text;
mod plain_command;
mod program;
mod read_only;
mod script_operands;
mod sed;
pub mod shell;
pub mod subcommands;
mod unseen_code;
mod word;
mod wrappers;
mod xargs;

pub use dangers::{CommandDanger, dangers, hidden_danger};
pub use environment_variables::is_harmless;
pub use find::{runs_on_unnamed_files, searched_names};
pub use finders::finds_files;
pub use glob_text::{folder, is_wild};
pub use operands::{PathOperand, path_operands};
pub use path_text::{is_safe_device, lexical};
pub use plain_command::PlainCommand;
pub use program::{
    CommandProgram, EnclosingCommand, InsertedText, ParsedCommand, ParsedProgram, ShellRedirection,
    ShellWord,
};
pub use read_only::{only_reads, only_stages};
pub use shell::InvalidProgram;
pub use unseen_code::{loads_code, reads_input_as_data, unseen_code};
