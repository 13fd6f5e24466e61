//! `bc`: a calculator with decimal numbers of any length, in place of bashkit's, which computes with floats.
//!
//! Compatible with GNU bc, with these limits: numbers have at most 100,000 digits before the point and as many after
//! it; `read()` is refused, and runtime errors do not name an address.

#[cfg(target_os = "wasi")]
mod builtin;
mod compile;
mod eval;
mod lexer;
mod math;
mod number;
mod options;
mod output;
mod program;
#[cfg(test)]
mod tests;

#[cfg(target_os = "wasi")]
pub use builtin::BcBuiltin;
pub use options::BcOptions;

use compile::{BcCompiler, CompiledItem};
use eval::{BcMachine, LineOutcome};
use output::LineWriter;
use program::{NameTable, ProgramItem};

/// Name of stdin in messages.
pub const STANDARD_INPUT: &str = "standard_in";

/// A text that is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BcSource {
    /// Its name in messages.
    pub name: String,
    /// Its statements.
    pub text: String,
}

/// Output of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BcOutput {
    /// Printed values and texts.
    pub stdout: String,
    /// Messages of errors and warnings.
    pub stderr: String,
}

/// Executes texts in order, up to `quit` or `halt`. `line_length` is the value of `BC_LINE_LENGTH`.
pub fn run_sources(
    sources: &[BcSource],
    math_library: bool,
    line_length: Option<&str>,
) -> BcOutput {
    let mut names = NameTable::default();
    let mut machine = BcMachine::new(math_library, LineWriter::new(line_length));
    'sources: for source in sources {
        let mut compiler = BcCompiler::new(&source.name, &source.text);
        loop {
            match compiler.compile_item(&mut names) {
                CompiledItem::Item(ProgramItem::Statements(code)) => {
                    if machine.execute_line(code, &names) == LineOutcome::Halted {
                        break 'sources;
                    }
                }
                CompiledItem::Item(ProgramItem::Definition(function, body)) => {
                    machine.define_function(function, body);
                }
                CompiledItem::Errors(messages) => {
                    for message in messages {
                        machine.report(&message);
                    }
                }
                CompiledItem::Quit => break 'sources,
                CompiledItem::End => break,
            }
        }
    }
    BcOutput {
        stdout: machine.output.text,
        stderr: machine.errors,
    }
}
