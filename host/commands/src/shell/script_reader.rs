//! State of the reader of a script: the commands found so far, nested ones included.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::{EnclosingCommand, ParsedCommand, ParsedProgram, ShellWord};

use super::builtins::risky_variable;
use super::lexer::ShellDialect;
use super::parsed_script::{self, ParsedScript};
use super::script_walker::{self, sets_variables};
use super::variables::VariableScope;

/// Maximum nesting depth of texts, such as `sh -c` in a substitution in an `eval`.
const MAX_TEXT_DEPTH: usize = 6;

/// Maximum number of commands of one program, which the user must be able to review.
const MAX_COMMANDS: usize = 500;

/// Maximum total length in bytes of all texts read for one program. A nested text counts once for each level.
const MAX_BYTES: usize = 512 << 10;

/// Collects the commands of one program.
#[derive(Default)]
pub(super) struct ScriptReader {
    pub(super) script: ParsedProgram,
    /// Names that the program defines as functions.
    pub(super) functions: HashSet<String>,
    /// Functions whose bodies are being read.
    pub(super) current_functions: Vec<String>,
    /// Commands in the bodies of functions, which may call other functions.
    calls: Vec<FunctionCall>,
    /// True if the current text runs in a process of its own: in a pipeline, in the background, in a subshell or in a
    /// substitution. A recursive call there multiplies processes.
    pub(super) is_forked: bool,
    /// True if the program declares arrays.
    pub(super) has_arrays: bool,
    /// Shell that runs the current text.
    pub(super) shell: ShellDialect,
    /// Wrappers and constructs that run the current text, outermost first.
    pub(super) enclosing: Vec<EnclosingCommand>,
    /// Standard input of the current commands, innermost last, as far as the script sets it.
    pub(super) stdin: Vec<Option<ShellWord>>,
    /// Known variables.
    pub(super) variables: VariableScope,
    /// True if the script replaces its own standard input, as in `exec <file`.
    pub(super) input_is_replaced: bool,
    text_depth: usize,
    bytes_read: usize,
}

/// A command in the body of a function.
struct FunctionCall {
    /// Function that contains the command.
    caller: String,
    /// Program or function that the command calls.
    callee: String,
    /// True if the command runs in a process of its own, see [`ScriptReader::is_forked`].
    is_forked: bool,
    /// Index of the command in the script.
    command: usize,
}

impl ScriptReader {
    /// Creates a reader for texts that this shell runs.
    pub(super) fn new(shell: ShellDialect) -> Self {
        Self {
            shell,
            ..Self::default()
        }
    }

    /// Reads a text that another shell runs, or that runs later. The values of variables are unknown there.
    pub(super) fn read_text(&mut self, text: &str, span: Range<usize>) {
        let outer = self.variables.take_bound();
        self.read_text_in_place(text, span);
        self.variables.restore_bound(outer);
    }

    /// Reads a text that the shell runs in place, at `span` of the outer text.
    pub(super) fn read_text_in_place(&mut self, text: &str, span: Range<usize>) {
        self.bytes_read = self.bytes_read.saturating_add(text.len());
        if self.text_depth >= MAX_TEXT_DEPTH {
            return self.note_unknown("the script is nested too deeply to analyze");
        }
        if self.bytes_read > MAX_BYTES {
            return self.note_unknown("the script is too long to analyze");
        }
        self.text_depth += 1;
        match parsed_script::parse(text, self.shell) {
            Ok(structure) => {
                // Commands of an inner text get the position of that text in the outer one.
                let outer_span = (self.text_depth > 1).then_some(span);
                let is_outermost = self.text_depth == 1 && self.script.commands.is_empty();
                if !(is_outermost && self.read_with_loop_values(&structure)) {
                    script_walker::walk_program(self, &structure, outer_span);
                }
            }
            Err(fault) => self.note_unknown(fault),
        }
        self.text_depth -= 1;
    }

    /// Reads the text with assumed values of its loop variables. Returns true if the result is valid, that is, if
    /// nothing in it is unknown.
    fn read_with_loop_values(&mut self, structure: &ParsedScript) -> bool {
        let mut reader = Self {
            enclosing: self.enclosing.clone(),
            stdin: self.stdin.clone(),
            text_depth: self.text_depth,
            bytes_read: self.bytes_read,
            variables: VariableScope::with_loop_values(),
            ..Self::new(self.shell)
        };
        script_walker::walk_program(&mut reader, structure, None);
        let is_valid = !reader.variables.has_loops() || reader.has_assumed_values();
        if is_valid {
            self.script = reader.script;
            self.functions.extend(reader.functions);
            self.calls.extend(reader.calls);
            self.has_arrays |= reader.has_arrays;
            self.input_is_replaced |= reader.input_is_replaced;
            self.bytes_read = reader.bytes_read;
        }
        is_valid
    }

    /// Returns true if nothing in the program is unknown, so the loop variables must have their assumed values.
    fn has_assumed_values(&self) -> bool {
        let is_clear = |simple: &ParsedCommand| {
            let program = simple.words.first();
            simple.unknown.is_empty() && program.is_none_or(|name| name.known().is_some())
        };
        self.script.unknown.is_empty()
            && self.script.commands.iter().all(is_clear)
            && self.functions.is_empty()
            && !self.has_arrays
            && self.variables.match_script(&self.script)
    }

    /// Sets the standard input of the current command.
    pub(super) fn set_stdin(&mut self, text: ShellWord) {
        if let Some(stdin) = self.stdin.last_mut() {
            *stdin = Some(text);
        }
    }

    /// Records a reason why the program as a whole is not fully known.
    pub(super) fn note_unknown(&mut self, why: &str) {
        if !self.script.unknown.iter().any(|known| known == why) {
            self.script.unknown.push(why.to_owned());
        }
    }

    /// Returns true if the maximum number of commands is reached, and then records the rest as unknown.
    pub(super) fn is_full(&mut self) -> bool {
        let is_full = self.script.commands.len() >= MAX_COMMANDS;
        if is_full {
            self.note_unknown("the script runs too many commands to review");
        }
        is_full
    }

    /// Adds a command without resolving it further.
    pub(super) fn push_command(&mut self, mut simple: ParsedCommand) {
        if self.is_full() {
            return;
        }
        let enclosing = self.enclosing.iter().cloned();
        simple.wrappers = enclosing.chain(simple.wrappers).collect();
        let assignments = simple.assignments.iter();
        let risks: Vec<String> = assignments
            .filter_map(|(name, value)| risky_variable(name, value))
            .collect();
        simple.unknown.extend(risks);
        if let (Some(name), Some(function)) = (simple.program(), self.current_functions.last()) {
            self.calls.push(FunctionCall {
                caller: function.clone(),
                callee: name.to_owned(),
                is_forked: self.is_forked,
                command: self.script.commands.len(),
            });
            if self.current_functions.iter().any(|outer| outer == name) {
                simple.unknown.push(format!(
                    "the function `{name}` calls itself, which may never end"
                ));
            }
        }
        self.script.commands.push(simple);
    }

    /// Returns the program after all of it has been read.
    pub(super) fn finish(mut self) -> ParsedProgram {
        for simple in &mut self.script.commands {
            simple.has_input |= self.input_is_replaced;
            let Some(name) = simple.program() else {
                continue;
            };
            if self.functions.contains(name) {
                let why = format!("`{name}` is a function of this script, not a program");
                simple.unknown.push(why);
            } else if self.has_arrays && sets_variables(name) {
                let unclear =
                    |word: &ShellWord| word.known().is_none() && word.text().contains('=');
                if simple.words.iter().any(unclear) {
                    let why = "the value of an array may run commands that it contains".to_owned();
                    simple.unknown.push(why);
                }
            }
        }
        self.mark_fork_bombs();
        self.script
    }

    /// Marks fork bombs: commands in a function that call, in a new process, a function which leads back to the first
    /// one.
    fn mark_fork_bombs(&mut self) {
        let mut callees: HashMap<&str, Vec<&str>> = HashMap::new();
        for call in &self.calls {
            callees.entry(&call.caller).or_default().push(&call.callee);
        }
        for call in self.calls.iter().filter(|call| call.is_forked) {
            let mut reached = HashSet::new();
            let mut pending = vec![call.callee.as_str()];
            while let Some(name) = pending.pop() {
                if self.functions.contains(name) && reached.insert(name) {
                    pending.extend(callees.get(name).into_iter().flatten());
                }
            }
            if reached.contains(call.caller.as_str())
                && let Some(simple) = self.script.commands.get_mut(call.command)
            {
                simple.may_fork_bomb = true;
            }
        }
    }
}
