//! Facts about commands: reads shell text and argument vectors into simple commands, and knows programs: which words are
//! files, which commands only read, and which are dangerous.
//!
//! Pure: nothing here touches a disk, a process or a clock. The reader is frozen: text that it cannot read, and programs
//! that no table lists, are reported as unknown, and a person is asked.
//!
//! Out of scope: rules, decisions and their reasons, which are in `mimir-core`; running a command (`mimir-process`).

mod environment_variables;
mod plain_command;
mod program;
pub mod shell;
mod word;

pub use environment_variables::is_harmless;
pub use plain_command::PlainCommand;
pub use program::{CommandProgram, ParsedCommand, ParsedProgram, ShellRedirection, ShellWord};
pub use shell::InvalidProgram;
