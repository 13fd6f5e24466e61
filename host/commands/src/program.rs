//! A program to run, and the simple commands in it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// An argument vector, beginning with the program. No shell is involved.
    Vector(Vec<String>),
    /// Shell text.
    Script(String),
}

/// A parsed program: every simple command in it, at any depth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedProgram {
    /// The commands in the order of the text, including those in substitutions, functions and wrappers such as `sudo`.
    /// Wrappers without an effect of their own, such as `nice`, are omitted.
    pub commands: Vec<ParsedCommand>,
    /// Descriptions of unanalyzed parts outside of any simple command.
    pub unknown: Vec<String>,
}

/// One simple command: a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedCommand {
    /// The program and its arguments, without quotes.
    pub words: Vec<ShellWord>,
    /// `NAME=value` before the program, which applies to this command only.
    pub assignments: Vec<(String, ShellWord)>,
    /// Files that the shell opens for the command.
    pub redirections: Vec<ShellRedirection>,
    /// The byte range of the command in the text.
    pub span: Range<usize>,
    /// The commands and constructs that run this command, outermost first: `sudo`, `xargs`, `find -exec`, `sh -c`.
    pub wrappers: Vec<EnclosingCommand>,
    /// Index of the command in the script whose output this command reads through a pipe.
    pub piped_from: Option<usize>,
    /// True if the script sets the standard input of the command: by a pipe, a redirection or a here-document.
    pub has_input: bool,
    /// Index of the command in the script that must succeed directly before this one starts in the same shell, as in `a
    /// && b`.
    pub follows: Option<usize>,
    /// Reasons why the words do not fully determine the effects of the command.
    pub unknown: Vec<String>,
    /// True if the command runs a program or shell text that its words do not show.
    pub hides_command: bool,
    /// True if the command starts the function that contains it in a new process, so that processes multiply endlessly.
    pub may_fork_bomb: bool,
}

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShellWord {
    /// The exact text that the program receives.
    Known(String),
    /// A glob without other unknown parts. It expands to one or more names that begin with its literal prefix.
    Glob(String),
    /// One name matched by a glob, or the glob itself without matches: the variable of a loop over files.
    GlobMatch(String),
    /// A word that only the shell can expand, to any number of words. Contains the source text.
    Unknown(String),
    /// A word into which `find` or `xargs` inserts text that is unknown until it runs.
    Inserted {
        /// The word as written, or `…` if `xargs` appends it.
        text: String,
        /// The kind of inserted text.
        source: InsertedText,
    },
    /// The name of a pipe that the shell creates for `<(…)`.
    PipeName,
}

/// Kind of text that `find` or `xargs` inserts into a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InsertedText {
    /// The word is exactly a file name that `find` found.
    FoundName,
    /// The word is exactly one name that `xargs` reads.
    ReadName,
    /// Anything else: text within a word, or any number of words.
    Other,
}

/// A command or shell construct that runs another command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnclosingCommand {
    /// A program that runs the command in its arguments: `sudo`, `xargs`.
    Wrapper(&'static str),
    /// `find` with this option, which runs the command for the files found.
    Find(String),
    /// A shell of this name that runs the text in its arguments: `sh -c`.
    ShellText(String),
    /// A shell of this name that runs its standard input.
    ShellInput(String),
    /// `eval`.
    Eval,
    /// `trap`.
    Trap,
    /// `$(…)`.
    CommandSubstitution,
    /// `<(…)`.
    ProcessSubstitution,
}

impl EnclosingCommand {
    /// Returns true if the shell runs the inner command to expand a word of another command.
    pub fn is_substitution(&self) -> bool {
        matches!(self, Self::CommandSubstitution | Self::ProcessSubstitution)
    }

    /// Returns true if the construct takes the inner command as text.
    fn takes_text(&self) -> bool {
        matches!(self, Self::ShellText(_) | Self::Eval | Self::Trap)
    }
}

impl fmt::Display for EnclosingCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrapper(name) => f.write_str(name),
            Self::Find(option) => write!(f, "find {option}"),
            Self::ShellText(shell) => write!(f, "{shell} -c"),
            Self::ShellInput(shell) => write!(f, "{shell} <<"),
            Self::Eval => f.write_str("eval"),
            Self::Trap => f.write_str("trap"),
            Self::CommandSubstitution => f.write_str("$(…)"),
            Self::ProcessSubstitution => f.write_str("<(…)"),
        }
    }
}

/// A file that the shell opens for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRedirection {
    /// True if the file is written; otherwise it is read.
    pub writes: bool,
    /// True if output is appended to the file.
    pub appends: bool,
    /// The file.
    pub target: ShellWord,
}

impl CommandProgram {
    /// Returns the program as a user would write it.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            CommandProgram::Vector(words) => words.join(" ").into(),
            CommandProgram::Script(text) => text.into(),
        }
    }
}

impl ParsedCommand {
    /// Returns the name of the program, if known.
    pub fn program(&self) -> Option<&str> {
        self.words.first().and_then(ShellWord::known)
    }

    /// Returns the command on one line, as a user would write it. The line may be long, and contain control characters.
    pub fn to_line(&self) -> String {
        let mut line = String::new();
        let mut add = |parts: [&str; 3]| {
            if !line.is_empty() {
                line.push(' ');
            }
            parts.iter().for_each(|part| line.push_str(part));
        };
        for (name, value) in &self.assignments {
            add([name, "=", value.text()]);
        }
        for word in &self.words {
            match word {
                ShellWord::Known(text) if text.is_empty() || text.contains([' ', '\t', '\n']) => {
                    add(["'", text, "'"]);
                }
                word => add([word.text(), "", ""]),
            }
        }
        for redirection in &self.redirections {
            let arrow = match (redirection.writes, redirection.appends) {
                (true, true) => ">>",
                (true, false) => ">",
                _ => "<",
            };
            add([arrow, redirection.target.text(), ""]);
        }
        // From the innermost wrapper outwards: a text passed to a shell needs quotes.
        let mut is_text = false;
        for wrapper in self.wrappers.iter().rev() {
            let takes_text = wrapper.takes_text();
            let inner = if !takes_text || is_text {
                line
            } else if line.contains('\'') {
                format!("\"{line}\"")
            } else {
                format!("'{line}'")
            };
            is_text |= takes_text;
            line = format!("{wrapper} {inner}");
        }
        line
    }
}
