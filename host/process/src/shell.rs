//! Parses programs: returns the commands that a shell text or an argument vector runs, each as a list of words that
//! can be judged.
//!
//! A text is parsed twice. Our own parser (`lexer`) splits it into words and stops at text that shells could interpret
//! in two ways; `brush-parser`, which aims to parse as bash does, provides the structure. Their words must be equal.
//! Text that either of them does not parse, and values that are known only when the shell runs, are reported as
//! unknown and never guessed.
//!
//! Out of scope: the decision whether a command may run.

use mimir_core::command::{Program, Script, Simple, Word};
use mimir_core::{Code, ToolError};

mod arguments;
mod braces;
mod builtins;
mod git;
mod lexer;
mod lookthrough;
mod options;
mod reader;
mod row;
mod sed;
mod structure;
mod variables;
mod walk;
mod word;
mod wrappers;
mod xargs;

pub use lexer::Shell;
use reader::Reader;

/// Reads a program whose text bash runs. A program that is not valid is [`Code::InvalidInput`].
pub fn read(program: &Program) -> Result<Script, ToolError> {
    read_for(program, Shell::Bash)
}

/// Reads a program whose text this shell runs.
pub fn read_for(program: &Program, shell: Shell) -> Result<Script, ToolError> {
    let invalid = |message: &str| ToolError::new(Code::InvalidInput, message);
    match program {
        Program::Script(text) => {
            if text.trim().is_empty() {
                return Err(invalid("the command is empty"));
            }
            if text.contains('\0') {
                return Err(invalid(
                    "the command contains a null character, which cannot be passed to a program",
                ));
            }
            let mut reader = Reader::of(shell);
            reader.text(text, 0..text.len());
            Ok(reader.finish())
        }
        Program::Vector(words) => {
            if words.first().is_none_or(String::is_empty) {
                return Err(invalid("the command names no program"));
            }
            if words.iter().any(|word| word.contains('\0')) {
                return Err(invalid(
                    "an argument contains a null character, which cannot be passed to a program",
                ));
            }
            let mut reader = Reader::of(shell);
            reader.command(
                Simple {
                    words: words.iter().cloned().map(Word::Known).collect(),
                    span: 0..words[0].len(),
                    ..Simple::default()
                },
                None,
            );
            Ok(reader.finish())
        }
    }
}
