//! Resolution of a command to the command that it actually runs: `nice cargo test` runs `cargo test`, and `sh -c '…'`
//! runs the script in its argument.

use crate::{EnclosingCommand, InsertedText, ParsedCommand, ShellRedirection, ShellWord};

use crate::find;
use crate::interpreters::{SHELL_LONG_OPTIONS, is_input_device, parsed_shell, runs_input};

use super::builtins::{
    is_harmless_setting, makes_array, note_declarations, note_named_variables, risky_set_options,
    risky_test,
};
use super::lexer::ShellDialect;
use super::script_reader::ScriptReader;
use super::script_walker::sets_variables;
use crate::executing_arguments;
use crate::git;
use crate::option_table::parse_options;
use crate::sed;
use crate::wrappers::{CommandWrapper, WRAPPERS, WrapperEffect};
use crate::xargs;

/// Maximum depth of nested wrappers: `nice nice nice …`.
const MAX_WRAPPERS: usize = 8;

/// Shells with a different syntax: some words expand to program paths, and some patterns run commands.
const SHELLS_WITH_OTHER_SYNTAX: &[&str] = &["ksh", "mksh", "zsh"];

/// Shell flags without a value that do not change how commands are read.
const SHELL_FLAGS: &str = "abefhlmnprtuvxBCEPTs";

/// Folders of system programs. A path into them means the same program as the bare name.
const SYSTEM_FOLDERS: &[&str] = &["/bin/", "/usr/bin/", "/usr/local/bin/"];

/// Records that the command runs something that its arguments do not show.
fn mark_hidden(simple: &mut ParsedCommand, why: impl Into<String>) {
    simple.unknown.push(why.into());
    simple.hides_command = true;
}

/// Returns the name of a program, without its folder if that is a system folder.
fn base_name(program: &str) -> &str {
    let mut folders = SYSTEM_FOLDERS.iter();
    let name = folders.find_map(|folder| program.strip_prefix(folder));
    name.filter(|name| !name.contains('/')).unwrap_or(program)
}

impl ScriptReader {
    /// Records a command, resolved to the program that it runs as far as that is known.
    pub(super) fn resolve_command(&mut self, mut simple: ParsedCommand, stdin: Option<ShellWord>) {
        if simple.words.is_empty() {
            let has_effect = !simple.assignments.is_empty()
                || !simple.redirections.is_empty()
                || !simple.unknown.is_empty();
            return if has_effect {
                self.push_command(simple)
            };
        }
        for _ in 0..MAX_WRAPPERS {
            let Some(program) = simple
                .program()
                .map(|program| base_name(program).to_owned())
            else {
                mark_hidden(&mut simple, "the program is known only when the shell runs");
                return self.push_command(simple);
            };
            if program == "env" && simple.words.len() == 1 {
                return self.push_command(simple);
            }
            let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == program);
            let only_looks_up = program == "command"
                && simple
                    .words
                    .get(1)
                    .is_some_and(|word| matches!(word.known(), Some("-v" | "-V")));
            match wrapper.filter(|_| !only_looks_up) {
                Some(wrapper) => match command_in_wrapper(simple, wrapper) {
                    Ok(inner) => simple = inner,
                    Err(whole) => return self.push_command(*whole),
                },
                None => return self.read_program(&program, simple, stdin),
            }
        }
        mark_hidden(&mut simple, "the command is nested too deeply to analyze");
        self.push_command(simple);
    }

    /// Records a command that is not a wrapper.
    fn read_program(&mut self, program: &str, mut simple: ParsedCommand, stdin: Option<ShellWord>) {
        if let Some(shell) = parsed_shell(program) {
            return self.read_shell(shell, simple, stdin);
        }
        match program {
            "eval" => return self.read_eval(simple),
            "trap" => self.read_trap(&mut simple),
            "find" => {
                self.read_find(&simple);
            }
            "test" | "[" => simple.unknown.extend(risky_test(&simple.words)),
            "git" => {
                git::strip_off_switches(&mut simple.words);
                simple.unknown.extend(git::risky_arguments(&simple.words));
            }
            "sed" | "gsed" => simple
                .unknown
                .extend(sed::risky_scripts(&simple.words, "sed")),
            "awk" | "gawk" | "mawk" | "nawk" => simple
                .unknown
                .extend(sed::risky_scripts(&simple.words, "awk")),
            "set" => simple.unknown.extend(risky_set_options(&simple.words)),
            _ if sets_variables(program) => note_declarations(&mut simple, self.shell),
            "read" | "getopts" | "unset" | "mapfile" | "readarray" | "printf" | "wait" => {
                self.has_arrays |= makes_array(program, &simple.words);
                note_named_variables(program, &mut simple);
            }
            _ if runs_input(&simple.words) => simple
                .unknown
                .push(format!("`{program}` runs its standard input")),
            _ => {}
        }
        simple.unknown.extend(executing_arguments::executing_reason(
            program,
            &simple.words,
        ));
        self.push_command(simple);
    }

    /// Reads text that the command `outer` runs through the construct `enclosing`.
    fn read_inner_text(&mut self, text: &str, enclosing: EnclosingCommand, outer: &ParsedCommand) {
        let before = self.script.commands.len();
        let depth = self.enclosing.len();
        self.enclosing.extend(outer.wrappers.iter().cloned());
        self.enclosing.push(enclosing);
        self.read_text(text, outer.span.clone());
        self.enclosing.truncate(depth);
        // Assignments and unknown effects of the outer command apply to the commands that it runs.
        for simple in self.script.commands.iter_mut().skip(before) {
            simple.assignments.extend(outer.assignments.iter().cloned());
            simple.unknown.extend(outer.unknown.iter().cloned());
        }
        let remainder = ParsedCommand {
            words: Vec::new(),
            ..outer.clone()
        };
        if !remainder.redirections.is_empty() || self.script.commands.len() == before {
            self.push_command(remainder);
        }
    }

    /// Reads the text that a shell runs, or records that the text is unknown. A script file is not read.
    fn read_shell(&mut self, program: &str, mut simple: ParsedCommand, stdin: Option<ShellWord>) {
        let is_version = simple.words.len() == 2 && simple.words[1].known() == Some("--version");
        if is_version {
            return self.push_command(simple);
        }
        let mut next = 1;
        while let Some(ShellWord::Known(text)) = simple.words.get(next) {
            // Letters may be combined: `-lc`.
            let has_text = text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
            if has_text
                && text[1..]
                    .chars()
                    .all(|c| c == 'c' || SHELL_FLAGS.contains(c))
            {
                return match simple.words.get(next + 1).cloned() {
                    Some(ShellWord::Known(text)) => {
                        let enclosing = EnclosingCommand::ShellText(program.to_owned());
                        self.read_shell_text(program, &text, enclosing, simple);
                    }
                    _ => {
                        let why = format!(
                            "`{program} -c` runs text that is known only when the shell runs"
                        );
                        mark_hidden(&mut simple, why);
                        self.push_command(simple);
                    }
                };
            }
            if !text.starts_with(['-', '+']) || text == "-" {
                break;
            }
            if text == "--" {
                next += 1;
                break;
            }
            let Some(count) = harmless_option_length(text, simple.words.get(next + 1)) else {
                let why = format!("`{program} {text}` may run more than its words show");
                mark_hidden(&mut simple, why);
                return self.push_command(simple);
            };
            next += count;
        }
        let ends_options = |word: &ShellWord| matches!(word.known(), Some("-" | "--"));
        let rest = simple.words.get(next..).unwrap_or_default();
        let from_stdin = rest.iter().all(ends_options)
            || simple
                .words
                .iter()
                .skip(1)
                .any(|word| word.known() == Some("-s"));
        if !from_stdin {
            match rest.first() {
                Some(ShellWord::Known(text)) if is_input_device(text) => {
                    let why = format!("`{program}` runs its standard input");
                    mark_hidden(&mut simple, why);
                }
                Some(ShellWord::Known(_)) | None => {}
                // The word may be `-c`, followed by the text.
                Some(word) => {
                    let is_clear = word.is_single() && (rest.len() == 1 || !word.may_be_option());
                    simple.hides_command |= !is_clear;
                }
            }
            return self.push_command(simple);
        }
        match stdin {
            Some(ShellWord::Known(text)) => {
                let enclosing = EnclosingCommand::ShellInput(program.to_owned());
                self.read_shell_text(program, &text, enclosing, simple);
            }
            _ => {
                let why = format!("`{program}` runs its standard input");
                mark_hidden(&mut simple, why);
                self.push_command(simple);
            }
        }
    }

    /// Reads text that a shell of this name runs.
    fn read_shell_text(
        &mut self,
        program: &str,
        text: &str,
        enclosing: EnclosingCommand,
        mut simple: ParsedCommand,
    ) {
        let shell = match program {
            "bash" => ShellDialect::Bash,
            _ => ShellDialect::Any,
        };
        if SHELLS_WITH_OTHER_SYNTAX.contains(&program) {
            let why = format!("the syntax of `{program}` is not supported");
            simple.unknown.push(why);
        }
        let outer = std::mem::replace(&mut self.shell, shell);
        self.read_inner_text(text, enclosing, &simple);
        self.shell = outer;
    }

    /// Reads the text that `eval` runs, or records that the text is unknown.
    fn read_eval(&mut self, mut simple: ParsedCommand) {
        self.variables.note_unknown_text();
        let words = simple.words.iter().skip(1).map(ShellWord::known);
        match words.collect::<Option<Vec<_>>>() {
            Some(words) => {
                let text = words.join(" ");
                self.read_inner_text(&text, EnclosingCommand::Eval, &simple);
            }
            None => {
                mark_hidden(
                    &mut simple,
                    "`eval` runs text that is known only when the shell runs",
                );
                self.push_command(simple);
            }
        }
    }

    /// Reads the text that `trap` runs on a signal, or records that the text is unknown.
    fn read_trap(&mut self, simple: &mut ParsedCommand) {
        self.variables.note_unknown_text();
        let mut words = simple.words.iter().skip(1);
        let mut first = words.next();
        if let Some(ShellWord::Known(text)) = first {
            match text.as_str() {
                "--" => first = words.next(),
                "-" => return,
                // These options only list existing traps.
                _ if text.starts_with('-') && text[1..].chars().all(|c| "lpP".contains(c)) => {
                    return;
                }
                _ => {}
            }
        }
        match first.cloned() {
            Some(ShellWord::Known(text)) if text == "-" || text.is_empty() => {}
            Some(ShellWord::Known(text)) => self.read_inner_text(
                &text,
                EnclosingCommand::Trap,
                &ParsedCommand {
                    redirections: Vec::new(),
                    ..simple.clone()
                },
            ),
            Some(_) => mark_hidden(
                simple,
                "`trap` runs text that is known only when the shell runs",
            ),
            None => {}
        }
    }

    /// Records the commands that `find` runs for its matches.
    fn read_find(&mut self, simple: &ParsedCommand) {
        let mut words = simple.words.iter().skip(1);
        while let Some(word) = words.next() {
            let option = match word {
                ShellWord::Known(text) => text.as_str(),
                // The word may expand to `-exec`.
                ShellWord::Unknown(_) | ShellWord::Inserted { .. } | ShellWord::PipeName => {
                    let why = "a word that is known only when the shell runs may make `find` run commands";
                    return self.push_command(ParsedCommand {
                        unknown: vec![why.to_owned()],
                        hides_command: true,
                        redirections: Vec::new(),
                        ..simple.clone()
                    });
                }
                ShellWord::Glob(_) | ShellWord::GlobMatch(_) => continue,
            };
            if !find::EXECUTING_OPTIONS.contains(&option) {
                continue;
            }
            let is_before_end = |word: &&ShellWord| !matches!(word.known(), Some(";" | "+"));
            let insert_name = |word: &ShellWord| match word {
                ShellWord::Known(text) if text.contains("{}") => ShellWord::Inserted {
                    text: text.clone(),
                    source: match text.as_str() {
                        "{}" => InsertedText::FoundName,
                        _ => InsertedText::Other,
                    },
                },
                word => word.clone(),
            };
            let inner: Vec<ShellWord> = words
                .by_ref()
                .take_while(is_before_end)
                .map(insert_name)
                .collect();
            let mut enclosing = simple.wrappers.clone();
            enclosing.push(EnclosingCommand::Find(option.to_owned()));
            let inner = ParsedCommand {
                words: inner,
                wrappers: enclosing,
                redirections: Vec::new(),
                ..simple.clone()
            };
            self.resolve_command(inner, None);
        }
    }
}

/// Returns the number of words of a shell option, if it does not change how commands are read.
fn harmless_option_length(text: &str, next: Option<&ShellWord>) -> Option<usize> {
    if let Some(long) = text.strip_prefix("--") {
        return SHELL_LONG_OPTIONS.contains(&long).then_some(1);
    }
    let letters = text.strip_prefix('-')?;
    let (letters, count) = match letters.strip_suffix('o') {
        Some(letters) => {
            next.and_then(ShellWord::known)
                .filter(|setting| is_harmless_setting(setting))?;
            (letters, 2)
        }
        None => (letters, 1),
    };
    letters
        .chars()
        .all(|c| SHELL_FLAGS.contains(c))
        .then_some(count)
}

/// Returns the command inside a wrapper, or the whole command as an error if the inner one cannot be determined.
fn command_in_wrapper(
    simple: ParsedCommand,
    wrapper: &CommandWrapper,
) -> Result<ParsedCommand, Box<ParsedCommand>> {
    let fail = |mut simple: ParsedCommand, why: String| {
        mark_hidden(&mut simple, why);
        Err(Box::new(simple))
    };
    let name = wrapper.name;
    let Some((options, mut at)) = parse_options(&simple.words, &wrapper.options) else {
        return fail(
            simple,
            format!("the command that `{name}` runs cannot be determined"),
        );
    };
    let placeholders = xargs::placeholders(&options);
    let argument_files = xargs::argument_files(&options);
    let is_whole_name = xargs::passes_whole_names(&options);
    let runs_directly = options
        .iter()
        .any(|option| matches!(option.name, "x" | "exec"));
    let mut simple = simple;
    while wrapper.takes_assignments
        && let Some(word) = simple.words.get(at)
    {
        let text = word.text();
        let Some((variable, value)) = text.split_once('=') else {
            break;
        };
        let value = match word {
            ShellWord::Known(_) => ShellWord::Known(value.to_owned()),
            _ => ShellWord::Unknown(value.to_owned()),
        };
        simple.assignments.push((variable.to_owned(), value));
        at += 1;
    }
    for _ in 0..wrapper.operands {
        if simple
            .words
            .get(at)
            .is_some_and(|word| word.known().is_none())
        {
            return fail(
                simple,
                format!("the command that `{name}` runs cannot be determined"),
            );
        }
        at += 1;
    }
    if let WrapperEffect::NeedsApproval(why) = wrapper.effect {
        simple.unknown.push(format!("`{name}` {why}"));
    }
    let changes_name = |word: &ShellWord| word.text().starts_with('-') && word.text().contains('a');
    if name == "exec" && simple.words[..at].iter().any(changes_name) {
        // Some programs, such as busybox, behave differently if called by another name.
        let why = "`exec -a` changes the name of a program, which may change what it does";
        simple.unknown.push(why.to_owned());
    }
    let mut inner: Vec<ShellWord> = simple.words.get(at..).unwrap_or_default().to_vec();
    if wrapper.effect == WrapperEffect::AddsWords {
        simple
            .redirections
            .extend(argument_files.into_iter().map(|target| ShellRedirection {
                writes: false,
                appends: false,
                target,
            }));
        for word in &mut inner {
            let has_placeholder = |text: &str| {
                let mut placeholders = placeholders.iter().map(ShellWord::known);
                placeholders.any(|placeholder| placeholder.is_none_or(|it| text.contains(it)))
            };
            let text = word.known().filter(|text| has_placeholder(text));
            if let Some(text) = text.map(str::to_owned) {
                *word = ShellWord::Inserted {
                    text: if is_whole_name {
                        text
                    } else {
                        format!("… {text}")
                    },
                    source: InsertedText::Other,
                };
            }
        }
        if inner.is_empty() {
            inner.push(ShellWord::Known("echo".to_owned()));
        }
        let added = if is_whole_name { "…" } else { "… …" };
        inner.push(ShellWord::Inserted {
            text: added.to_owned(),
            source: if is_whole_name {
                InsertedText::ReadName
            } else {
                InsertedText::Other
            },
        });
    }
    let is_text = match name {
        "watch" => !runs_directly,
        "flock" => matches!(
            inner.first().and_then(ShellWord::known),
            Some("-c" | "--command")
        ),
        _ => false,
    };
    if is_text && !inner.is_empty() {
        inner.drain(..usize::from(name == "flock"));
        let texts: Option<Vec<&str>> = inner.iter().map(ShellWord::known).collect();
        let Some(texts) = texts else {
            return fail(
                simple,
                format!("the command that `{name}` runs cannot be determined"),
            );
        };
        let shell = ["sh", "-c", &texts.join(" ")];
        inner = shell.map(|word| ShellWord::Known(word.to_owned())).into();
    }
    if inner.is_empty() {
        // `flock 9` locks an open file.
        if name == "flock" {
            return Err(Box::new(simple));
        }
        // `exec 2>file` opens files for the shell itself.
        if name == "exec" {
            simple.words.clear();
            return Err(Box::new(simple));
        }
        if simple.words.len() == 1 {
            return Err(Box::new(simple));
        }
        return fail(
            simple,
            format!("the command that `{name}` runs cannot be determined"),
        );
    }
    simple.wrappers.push(EnclosingCommand::Wrapper(name));
    simple.words = inner;
    Ok(simple)
}
