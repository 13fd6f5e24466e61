//! Programs, read: which commands a shell text or an argument vector comes to, each as a list of words that can be judged.
//!
//! A text goes through two readers. Ours (`lexer`) splits it into words and stops at whatever shells could take in two
//! ways; `brush-parser`, which is written to parse as bash does, gives it its structure. Their words must be the same.
//! What either does not read, and what only the shell will know, is said in words and never guessed.
//!
//! Never here: whether a command may run.

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

/// Reads a program whose text bash runs. What can be no program at all is [`Code::InvalidInput`].
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
                    "the command holds a null character, which no program can be given",
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
                    "an argument holds a null character, which no program can be given",
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
