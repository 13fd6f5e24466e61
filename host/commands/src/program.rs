//! A program to run, and the simple commands that it consists of.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// An argument vector, the program first. No shell is involved.
    Vector(Vec<String>),
    /// Text for a shell.
    Script(String),
}

/// A parsed program: every simple command in it, at any depth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedProgram {
    /// In the order of the text, including those inside of substitutions, functions and wrappers such as `sudo`. A
    /// wrapper without an effect of its own, such as `nice`, is left out.
    pub commands: Vec<ParsedCommand>,
    /// Descriptions of the parts outside of any simple command that cannot be analysed.
    pub unknown: Vec<String>,
}

/// One simple command: a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedCommand {
    /// The program and its arguments, without quotes.
    pub words: Vec<ShellWord>,
    /// `NAME=value` before the program, for this command alone.
    pub assignments: Vec<(String, ShellWord)>,
    /// Files that the shell opens for the command.
    pub redirections: Vec<ShellRedirection>,
    /// The byte range in the text.
    pub span: Range<usize>,
    /// The commands and constructs that run it, outermost first: `sudo`, `xargs`, `find -exec`, `sh -c`.
    pub wrappers: Vec<EnclosingCommand>,
    /// Index of the command in the script whose output this one reads through a pipe.
    pub piped_from: Option<usize>,
    /// Index of the command in the script that must succeed right before this one starts in the same shell, as in `a
    /// && b`.
    pub follows: Option<usize>,
    /// The reasons why its words alone do not determine its effects, if any.
    pub unknown: Vec<String>,
    /// True if it runs a program or a shell text that its words do not show.
    pub hides_command: bool,
    /// True if it starts the function that contains it again in parallel, so that processes multiply without end.
    pub may_fork_bomb: bool,
}

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ShellWord {
    /// The exact text that the program receives.
    Known(String),
    /// A glob without other unknown parts: it expands to one or more names that begin with its literal prefix.
    Glob(String),
    /// One name matched by such a glob, or the glob itself if nothing matches: the variable of a loop over files.
    GlobMatch(String),
    /// A word that only the shell can expand, to any number of words: the text as written.
    Unknown(String),
    /// A word into which `find` or `xargs` inserts text that is known only when it runs.
    Inserted {
        /// The word as written, or `…` if `xargs` adds it.
        text: String,
        /// The inserted text.
        source: InsertedText,
    },
    /// The name of a pipe that the shell makes for `<(…)`.
    PipeName,
}

/// The text that `find` or `xargs` inserts into a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InsertedText {
    /// The word is exactly the name of a file that `find` found.
    FoundName,
    /// The word is exactly one name that `xargs` reads.
    ReadName,
    /// Anything else: text within a word, or any number of words.
    Other,
}

/// A command or a construct of the shell that runs another command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnclosingCommand {
    /// A program that runs the command in its arguments: `sudo`, `xargs`.
    Wrapper(&'static str),
    /// `find`, with this option: it runs the command for the files that it finds.
    Find(String),
    /// A shell of this name that runs a text in its arguments: `sh -c`.
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
    /// Returns true if the shell runs it to expand a word of another command.
    pub fn is_substitution(&self) -> bool {
        matches!(self, Self::CommandSubstitution | Self::ProcessSubstitution)
    }

    /// Returns true if it runs a text.
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
    /// The program as a user would write it.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            CommandProgram::Vector(words) => words.join(" ").into(),
            CommandProgram::Script(text) => text.into(),
        }
    }
}

impl ParsedCommand {
    /// The name of the program, if known.
    pub fn program(&self) -> Option<&str> {
        self.words.first().and_then(ShellWord::known)
    }

    /// The command on one line, as a user would write it. It may be long, and contain control characters.
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
            let inner = match takes_text && !is_text {
                true if line.contains('\'') => format!("\"{line}\""),
                true => format!("'{line}'"),
                false => line,
            };
            is_text |= takes_text;
            line = format!("{wrapper} {inner}");
        }
        line
    }
}
