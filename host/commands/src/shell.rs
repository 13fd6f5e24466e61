//! Parser for programs: returns the commands that a shell text or an argument vector runs, each as a list of words to
//! be checked.
//!
//! A text is parsed twice. The parser of this crate (`lexer`) splits the text into words, and stops at text that shells
//! may interpret differently; `brush-parser`, which aims to parse as bash does, provides the structure. Both must find
//! the same words. Text that either of them cannot parse, and values that are unknown until the shell runs, are
//! reported as unknown and never guessed.
//!
//! Out of scope: the decision to run a command.

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

/// Reason why a text or an argument vector is not a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidProgram {
    /// The text is only whitespace.
    #[error("the command is empty")]
    EmptyText,
    /// The text contains a null character.
    #[error("the command contains a null character, which cannot be passed to a program")]
    NullInText,
    /// The vector or its first word is empty.
    #[error("the command names no program")]
    NoProgram,
    /// An argument contains a null character.
    #[error("an argument contains a null character, which cannot be passed to a program")]
    NullInArgument,
}

/// Parses a program for bash. Fails if it is empty or contains a null character.
pub fn read_script(program: &CommandProgram) -> Result<ParsedProgram, InvalidProgram> {
    read_script_for(program, ShellDialect::Bash)
}

/// Parses a program for this shell. Fails if it is empty or contains a null character.
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
