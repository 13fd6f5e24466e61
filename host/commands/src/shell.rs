//! Parses programs: returns the commands that a shell text or an argument vector runs, each as a list of words that
//! can be judged.
//!
//! A text is parsed twice. Our own parser (`lexer`) splits it into words and stops at text that shells could interpret
//! in two ways; `brush-parser`, which aims to parse as bash does, provides the structure. Their words must be equal.
//! Text that either of them does not parse, and values that are known only when the shell runs, are reported as
//! unknown and never guessed.
//!
//! Out of scope: the decision whether a command may run.

use thiserror::Error;

use crate::{CommandProgram, ParsedCommand, ParsedProgram, ShellWord};

mod braces;
mod builtins;
mod command_list;
mod inner_commands;
mod lexer;
mod parsed_script;
mod script_reader;
mod script_walker;
mod variables;
mod word;

pub use lexer::ShellDialect;
use script_reader::ScriptReader;

/// The reason why a text or an argument vector cannot be a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidProgram {
    /// Text of blanks only.
    #[error("the command is empty")]
    EmptyText,
    /// Text with a null character.
    #[error("the command contains a null character, which cannot be passed to a program")]
    NullInText,
    /// An empty vector, or an empty first word.
    #[error("the command names no program")]
    NoProgram,
    /// A vector with a null character.
    #[error("an argument contains a null character, which cannot be passed to a program")]
    NullInArgument,
}

/// Reads a program whose text bash runs. Fails for a text that cannot be a program.
pub fn read_script(program: &CommandProgram) -> Result<ParsedProgram, InvalidProgram> {
    read_script_for(program, ShellDialect::Bash)
}

/// Reads a program whose text this shell runs.
pub fn read_script_for(
    program: &CommandProgram,
    shell: ShellDialect,
) -> Result<ParsedProgram, InvalidProgram> {
    match program {
        CommandProgram::Script(text) => {
            if text.trim().is_empty() {
                return Err(InvalidProgram::EmptyText);
            }
            if text.contains('\0') {
                return Err(InvalidProgram::NullInText);
            }
            let mut reader = ScriptReader::new(shell);
            reader.read_text(text, 0..text.len());
            Ok(reader.finish())
        }
        CommandProgram::Vector(words) => {
            if words.first().is_none_or(String::is_empty) {
                return Err(InvalidProgram::NoProgram);
            }
            if words.iter().any(|word| word.contains('\0')) {
                return Err(InvalidProgram::NullInArgument);
            }
            let mut reader = ScriptReader::new(shell);
            reader.resolve_command(
                ParsedCommand {
                    words: words.iter().cloned().map(ShellWord::Known).collect(),
                    span: 0..words[0].len(),
                    ..ParsedCommand::default()
                },
                None,
            );
            Ok(reader.finish())
        }
    }
}
