//! What is gathered while a program is read: commands, whatever they stand in.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use mimir_core::command::{Script, Simple, Word};

use super::builtins::odd_variable;
use super::lexer::Shell;
use super::structure::{self, Structure};
use super::variables::Variables;
use super::walk::{self, sets_variables};

/// How deep texts may stand in texts: `sh -c` in a substitution in an `eval`.
const TEXTS_MAX: usize = 6;

/// The most commands of one program. A person reads a list of them.
const COMMANDS_MAX: usize = 500;

/// The most bytes of all texts together that are read for one program: a text that stands in others is read once for each.
const BYTES_MAX: usize = 512 << 10;

/// Gathers the commands of one program.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) script: Script,
    /// Names that the program gives a meaning of its own.
    pub(super) functions: HashSet<String>,
    /// The functions in whose bodies the reader is.
    pub(super) inside: Vec<String>,
    /// Which function starts which, and whether beside itself: in a pipeline, in the background or in a substitution.
    starts: Vec<Start>,
    /// Whether what is read now runs beside what starts it.
    pub(super) beside: bool,
    /// Whether the program makes arrays.
    pub(super) arrays: bool,
    /// Which shell runs what is read now.
    pub(super) shell: Shell,
    /// What runs what is read now, outermost first.
    pub(super) through: Vec<String>,
    /// What the commands that are read now are given on their standard input, where the script says it: the last is the
    /// innermost one's.
    pub(super) stdin: Vec<Option<Word>>,
    /// What is known of variables.
    pub(super) variables: Variables,
    texts: usize,
    bytes: usize,
}

/// A command in the body of a function.
struct Start {
    function: String,
    name: String,
    beside: bool,
    /// Its number.
    at: usize,
}

impl Reader {
    /// One of texts that this shell runs.
    pub(super) fn of(shell: Shell) -> Self {
        Self {
            shell,
            ..Self::default()
        }
    }

    /// Reads a text that another shell runs, or that is run later: what variables hold there is not known.
    pub(super) fn text(&mut self, text: &str, span: Range<usize>) {
        let outer = self.variables.leave();
        self.text_here(text, span);
        self.variables.come_back(outer);
    }

    /// Reads a text that stands at `span` of the whole, and that the shell runs where it stands.
    pub(super) fn text_here(&mut self, text: &str, span: Range<usize>) {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.texts >= TEXTS_MAX || self.bytes > BYTES_MAX {
            return self.unknown("it is nested too deep to be read");
        }
        self.texts += 1;
        match structure::parse(text, self.shell) {
            Ok(structure) => {
                // Where a text stands in another one, its commands stand where that is.
                let place = (self.texts > 1).then_some(span);
                let alone = self.texts == 1 && self.script.commands.is_empty();
                if !(alone && self.follow(&structure)) {
                    walk::program(self, &structure, place);
                }
            }
            Err(fault) => self.unknown(fault),
        }
        self.texts -= 1;
    }

    /// Reads the whole with the variables of its loops. That counts where all is clear: says whether it does.
    fn follow(&mut self, structure: &Structure) -> bool {
        let mut read = Self {
            through: self.through.clone(),
            stdin: self.stdin.clone(),
            texts: self.texts,
            bytes: self.bytes,
            variables: Variables::followed(),
            ..Self::of(self.shell)
        };
        walk::program(&mut read, structure, None);
        let counts = !read.variables.has_loops() || read.is_clear();
        if counts {
            self.script = read.script;
            self.functions.extend(read.functions);
            self.starts.extend(read.starts);
            self.arrays |= read.arrays;
            self.bytes = read.bytes;
        }
        counts
    }

    /// Whether nothing in it may do more than was read, and so the variables of its loops are what they were taken for.
    fn is_clear(&self) -> bool {
        let is_clear = |simple: &Simple| {
            let begins = simple.words.first();
            simple.unknown.is_empty() && begins.is_none_or(|name| name.known().is_some())
        };
        self.script.unknown.is_empty()
            && self.script.commands.iter().all(is_clear)
            && self.functions.is_empty()
            && !self.arrays
            && self.variables.hold(&self.script)
    }

    /// The command that is read now is given this on its standard input.
    pub(super) fn fed(&mut self, text: Word) {
        if let Some(stdin) = self.stdin.last_mut() {
            *stdin = Some(text);
        }
    }

    /// Says that something is not known of the program as a whole.
    pub(super) fn unknown(&mut self, why: &str) {
        if !self.script.unknown.iter().any(|known| known == why) {
            self.script.unknown.push(why.to_owned());
        }
    }

    /// Whether it has as many commands as it takes, and what more there is is not known.
    pub(super) fn is_full(&mut self) -> bool {
        let full = self.script.commands.len() >= COMMANDS_MAX;
        if full {
            self.unknown("it runs more commands than a person can look at");
        }
        full
    }

    /// Takes a command as it is.
    pub(super) fn emit(&mut self, mut simple: Simple) {
        if self.is_full() {
            return;
        }
        let through = self.through.iter().cloned();
        simple.through = through.chain(simple.through).collect();
        let set = simple.assignments.iter();
        let odd: Vec<String> = set
            .filter_map(|(name, value)| odd_variable(name, value))
            .collect();
        simple.unknown.extend(odd);
        if let (Some(name), Some(function)) = (simple.program(), self.inside.last()) {
            self.starts.push(Start {
                function: function.clone(),
                name: name.to_owned(),
                beside: self.beside,
                at: self.script.commands.len(),
            });
            if self.inside.iter().any(|outer| outer == name) {
                simple.unknown.push(format!(
                    "the function `{name}` calls itself, which may never end"
                ));
            }
        }
        self.script.commands.push(simple);
    }

    /// The program, once all of it was read.
    pub(super) fn finish(mut self) -> Script {
        for simple in &mut self.script.commands {
            let Some(name) = simple.program() else {
                continue;
            };
            if self.functions.contains(name) {
                let why = format!("`{name}` is a function of this script, and no program");
                simple.unknown.push(why);
            } else if self.arrays && sets_variables(name) {
                let unclear = |word: &Word| word.known().is_none() && word.text().contains('=');
                if simple.words.iter().any(unclear) {
                    let why = "of an array, a value may run what is in it".to_owned();
                    simple.unknown.push(why);
                }
            }
        }
        self.multiply();
        self.script
    }

    /// Marks what starts a function beside itself that comes to the same function again.
    fn multiply(&mut self) {
        let mut next: HashMap<&str, Vec<&str>> = HashMap::new();
        for start in &self.starts {
            next.entry(&start.function).or_default().push(&start.name);
        }
        for start in self.starts.iter().filter(|start| start.beside) {
            let mut seen = HashSet::new();
            let mut open = vec![start.name.as_str()];
            while let Some(name) = open.pop() {
                if self.functions.contains(name) && seen.insert(name) {
                    open.extend(next.get(name).into_iter().flatten());
                }
            }
            if seen.contains(start.function.as_str())
                && let Some(simple) = self.script.commands.get_mut(start.at)
            {
                simple.multiplies = true;
            }
        }
    }
}
